// Answers of the worker -> what the visitor sees, a function for each view.

import { band, bandLine, count, el, gib, memoryBars, niceCeiling, rate, short, size } from "./pictures.js";

const CERTAINTY = { measured: "fitted on such boxes", derived: "derived from constants fitted on other boxes", assumed: "with an assumed bandwidth of system RAM", "not known": "no constants are known for the like" };

export function copyButton(text, name = "Copy") {
  return el("button", { type: "button", class: "small", onclick: async ({ currentTarget: button }) => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = name; }, 1500);
  } }, name);
}

export const refusal = ({ message, hint }) => el("div", { class: "card objection" }, el("p", {}, message), hint ? el("p", { class: "weak" }, hint) : null);

const asTyped = (command) => el("div", { class: "typed" }, el("code", {}, command), copyButton(command));

function spoken(answer) {
  return el("section", { class: "card words" }, el("h2", {}, "On the command line"), answer.command ? asTyped(answer.command) : null, el("pre", { tabindex: "0", "aria-label": "The command line's page" }, answer.words));
}

export function planView(answer, acts, curves) {
  const [plan, ...others] = answer.record.plans;
  const { view } = answer;
  const state = plan.fits ? "good" : view.verdict.startsWith("not known") ? "open" : "bad";
  return el("div", { class: "plan" },
    el("div", { class: "pictures" },
      el("div", { class: "headline" }, el("h1", {}, plan.model, " ", el("span", { class: `verdict ${state}` }, view.verdict)), el("p", { class: "weak" }, `${plan.box} · ${view.configuration}`)),
      objections(plan, view, acts), plan.kv.capacity_tokens && plan.fits ? tiles(plan) : null, memoryBars(view.bars), curves?.frame, certainty(plan), notes(plan, acts), otherPlans(others)),
    spoken(answer));
}

function tiles(plan) {
  const { speed } = plan;
  const users = plan.users_at_context === 1 ? "1 user" : `${plan.users_at_context} users`;
  const tile = (title, figure, unit, picture, ...more) => el("div", { class: "tile" }, el("h2", {}, title), el("p", { class: "big" }, figure, unit ? el("small", {}, ` ${unit}`) : null), picture, more.map((line) => el("p", { class: "weak" }, line)));
  return el("div", { class: "tiles" },
    tile("Context", short(plan.context_tokens), `× ${users}`, null, `one user up to ${count(plan.largest_context_tokens)}`, `KV cache ${count(plan.kv.capacity_tokens)} expected, at least ${count(plan.kv.low_tokens)}`),
    tile("Decode", rate(speed?.decode), speed ? "tok/s" : "", speed ? bandLine(speed.decode, niceCeiling(speed.empty.high)) : null, ...(speed ? [`band ${band(speed.decode)} at ${count(speed.context_tokens)} context`, plan.goal.users > 1 ? `${rate(speed.together)} tok/s of all users` : "for one user"] : ["no measurement for this combination"])),
    tile("Prefill", rate(speed?.prompt), speed?.prompt ? "tok/s" : "", speed?.prompt ? bandLine(speed.prompt, niceCeiling(speed.prompt.high)) : null, ...(speed?.prompt ? [`band ${band(speed.prompt)}`] : [])));
}

function certainty(plan) {
  if (!plan.speed || !plan.fits) return null;
  const fitted = plan.speed.basis === "measured" ? CERTAINTY.measured : CERTAINTY.derived;
  return el("p", { class: "certainty" }, el("b", {}, "How certain: "), `${fitted} (speeds/${plan.speed.row}). The band: ${plan.speed.why}.`);
}

function objections(plan, view, acts) {
  if (plan.fits) return null;
  const said = plan.objections.map((objection) => el("li", {}, objection.message, objection.remedy ? el("span", { class: "weak" }, ` Try ${objection.remedy}`) : null));
  const nearest = plan.nearest.map((offer) => el("li", {}, el("button", { type: "button", class: "small", onclick: () => acts.take(offer) }, "Plan it"), ` ${offer.change}: ${count(offer.context_tokens)} tokens of context, KV cache ${count(offer.capacity_tokens)}`));
  const open = view.verdict.startsWith("not known, it depends") ? el("p", { class: "weak" }, "System RAM of this box is not specified. Say how much there is: with enough of it, experts offloaded to CPU may fit.") : null;
  const others = el("div", { class: "others" }, open, view.more ? el("button", { type: "button", class: "small", onclick: ({ currentTarget: button }) => acts.instead(button) }, "Look for smaller models that fit") : null);
  return el("div", { class: "card objection" }, el("h2", {}, "What stands in the way"), el("ul", {}, said), nearest.length ? [el("h2", {}, "What would fit, each of them planned"), el("ul", { class: "offers" }, nearest)] : null, others);
}

export function insteadList(others, acts) {
  if (!others.length) return el("p", {}, "Nothing smaller in the catalogue fits this box.");
  return el("ul", { class: "offers" }, others.map((other) => el("li", {}, el("button", { type: "button", class: "small", onclick: () => acts.model(other.model) }, "Plan it"), ` ${other.model}, ${other.configuration}: ${short(other.context_tokens)} context${other.decode ? `, ${rate(other.decode)} tok/s` : ""}`)));
}

function notes(plan) {
  const said = plan.notes.filter((note) => note.code !== "speed-unknown").map((note) => el("li", {}, note.message, note.remedy ? el("code", {}, ` ${note.remedy}`) : null));
  return said.length && plan.fits ? el("details", { class: "card", open: true }, el("summary", {}, `Worth knowing (${said.length})`), el("ul", {}, said)) : null;
}

function configuration(plan) {
  const { tensor, pipeline, decode_context: dcp, expert } = plan.parallel;
  return [plan.engine, tensor > 1 && `TP${tensor}`, pipeline > 1 && `PP${pipeline}`, dcp > 1 && `DCP${dcp}`, expert && "EP", `${plan.kv.dtype} KV`].filter(Boolean).join(" · ");
}

function otherPlans(plans) {
  if (!plans.length) return null;
  const rows = plans.map((plan) => el("tr", {}, el("td", {}, plan.model, el("br"), el("span", { class: "weak" }, configuration(plan))), el("td", { class: "number" }, plan.fits ? rate(plan.speed?.decode) : "–"), el("td", { class: "number" }, plan.fits ? rate(plan.speed?.prompt) : "–"), el("td", { class: "number" }, plan.fits ? count(plan.kv.capacity_tokens) : el("span", { class: "bad" }, "does not fit"))));
  return el("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": "Other configurations" }, stacked(el("table", {}, el("caption", {}, "Other configurations, best first"), head("Configuration", "Decode", "Prefill", "KV tokens"), el("tbody", {}, rows))));
}

const WORDS = new Set(["How certain", "Claim", "Stands on", "Basis", "Level", "Load", "Source"]);
export const head = (...names) => el("thead", {}, el("tr", {}, names.map((name, index) => (name ? el("th", { scope: "col", class: index && !WORDS.has(name) ? "number" : null }, name) : el("td", {})))));

// On a phone each row is a block, and each cell has its column's name above it.
export function stacked(table) {
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, index) => { if (index && names[index]) cell.dataset.name = names[index]; });
  table.classList.add("stacked");
  return table;
}

// The build that was planned, as the command line calls it; a model has several.
const planned = ({ artifact }) => artifact.split("/").pop().split(":")[0].replace(/-GGUF$/, "");

export function recommendView(answer, acts) {
  const { record } = answer;
  const most = niceCeiling(Math.max(1, ...record.offers.map((offer) => offer.decode?.high ?? 0)));
  const benchmarks = [...new Set(record.offers.map((offer) => offer.quality?.benchmark).filter(Boolean))];
  const score = (quality) => `${quality.score.toFixed(1)}${quality.by === "maker" ? "*" : ""}`;
  const makers = record.offers.some((offer) => offer.quality?.by === "maker");
  const rows = record.offers.map((offer) => el("tr", {},
    el("td", {}, el("b", {}, planned(offer)), el("br"), el("span", { class: "weak" }, `${offer.quant}, ${size(offer.download_bytes)}, ${offer.engine}${offer.offloaded_layers ? `, experts of ${offer.offloaded_layers} layers in system RAM` : ""}`)),
    benchmarks.map((name) => el("td", { class: "number" }, offer.quality?.benchmark === name ? score(offer.quality) : "–")),
    el("td", { class: "number" }, rate(offer.decode), bandLine(offer.decode, most)),
    el("td", { class: "number" }, rate(offer.prompt)),
    el("td", { class: "number" }, short(offer.largest_context_tokens), el("br"), el("span", { class: "weak" }, `${offer.users_at_context} × ${short(offer.context_tokens)}`)),
    el("td", {}, CERTAINTY[offer.certainty]),
    el("td", {}, el("button", { type: "button", class: "small", "aria-label": `Plan it: ${planned(offer)}`, onclick: () => acts.model(offer.source) }, "Plan it"))));
  const refused = record.refusals.map((other) => el("li", {}, el("b", {}, other.model), `: ${other.why}`));
  return el("div", { class: "plan wide" }, el("div", { class: "pictures" },
    el("div", { class: "headline" }, el("h1", {}, `For ${record.box}`), el("p", { class: "weak" }, record.why)),
    rows.length ? el("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": "Recommended models" }, stacked(el("table", {}, head("Model", ...benchmarks, "Decode", "Prefill", "Context", "How certain", ""), el("tbody", {}, rows)))) : el("p", {}, "Nothing in the catalogue fits."),
    makers ? el("p", { class: "certainty" }, "* its maker's own figure, which counts less.") : null,
    record.run ? el("p", { class: "certainty" }, `Published on such a box${record.run.same_model ? "" : ", of another model"}: ${record.run.words}`) : null,
    el("details", { class: "card" }, el("summary", {}, `Why not the others (${refused.length})`), el("ul", {}, refused))), spoken(answer));
}

export function compareView(answer) {
  const { columns, steps } = answer.record;
  const most = niceCeiling(Math.max(1, ...columns.map((column) => column.decode?.high ?? 0)));
  const line = (name, cell) => el("tr", {}, el("th", { scope: "row" }, name), columns.map((column) => el("td", {}, cell(column))));
  const when = (cell) => (column) => (column.fits ? cell(column) : "–");
  const money = (name, key) => (columns.some((column) => column.costs?.[key] !== null && column.costs) ? line(name, (column) => (column.costs?.[key] === null || !column.costs ? "–" : Number(column.costs[key].toPrecision(3)).toLocaleString("en-GB"))) : null);
  return el("div", { class: "plan wide" }, el("div", { class: "pictures" },
    el("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": "Columns side by side" }, el("table", { class: "columns" },
      el("thead", {}, el("tr", {}, el("td", {}), columns.map((column) => el("th", { scope: "col" }, column.model, el("br"), el("span", { class: "weak" }, column.box))))),
      el("tbody", {},
        line("Fits", (column) => (column.fits ? el("span", { class: "verdict good" }, "fits") : el("span", { class: "verdict bad", title: column.why_not }, "does not fit"))),
        line("Engine", (column) => column.engine),
        line("Decode, tok/s", when((column) => [rate(column.decode), bandLine(column.decode, most)])),
        line("All users, tok/s", when((column) => rate(column.together))),
        line("Prefill, tok/s", when((column) => rate(column.prompt))),
        line("One user up to", when((column) => `${count(column.largest_context_tokens)} tokens`)),
        line("Users at that context", when((column) => `${column.users_at_context} × ${short(column.context_tokens)}`)),
        line("KV cache, at least", when((column) => `${count(column.cache_tokens)} tokens`)),
        line("Weights", (column) => `${size(column.download_bytes)}, ${column.bits} bits`),
        line("GPU memory", (column) => `${gib(column.gpu_memory_bytes)} GiB`),
        line("Watts", (column) => (column.watts === null ? "–" : `${count(column.watts)}${column.watts_given ? "" : " (GPUs)"}`)),
        money("Rent, million tokens", "rent_million"), money("Energy, million tokens", "energy_million"), money("Price for each tok/s", "purchase_per_token_per_second"), money("Breaks even after, hours", "break_even_hours")))),
    columns.filter((column) => column.why_not).map((column) => el("p", { class: "certainty" }, el("b", {}, `${column.model} on ${column.box}: `), column.why_not)),
    steps.length ? el("div", { class: "card" }, el("h2", {}, "What each step buys"), el("ul", {}, steps.map((step) => el("li", {}, step)))) : null), spoken(answer));
}

export function recipeView(answer) {
  const { record: recipe } = answer;
  if (!recipe) return el("div", { class: "card objection" }, el("h2", {}, "No recipe: it does not fit"), el("ul", {}, answer.objections.map((objection) => el("li", {}, objection.message))));
  const why = el("p", { class: "reason", id: "reason", role: "status" }, "Point at a flag, or go through them by Tab, for its reason.");
  const tell = (setting) => () => why.replaceChildren(el("b", {}, setting.name), ` ${setting.reason}`, setting.source ? el("span", { class: "weak" }, ` ${setting.source}`) : "");
  const flag = (setting) => el("span", { class: "flag", tabindex: "0", onfocus: tell(setting), onmouseenter: tell(setting) }, setting.name, setting.value === null ? "" : ` ${setting.value}`);
  const environment = recipe.environment.map((setting) => el("span", { class: "flag", tabindex: "0", onfocus: tell(setting), onmouseenter: tell(setting) }, `${setting.name}=${setting.value}`));
  return el("div", { class: "plan" }, el("div", { class: "pictures" },
    el("div", { class: "headline" }, el("h1", {}, recipe.served_name), el("p", { class: "weak" }, `${recipe.engine}${recipe.engine_version ? ` ${recipe.engine_version}` : ""}, ${count(recipe.context_tokens)} tokens for ${recipe.users === 1 ? "1 user" : `${recipe.users} users`}`)),
    el("div", { class: "card command" }, el("h2", {}, "The command, flag by flag ", copyButton(answer.text, "Copy the command")), el("div", { class: "flags" }, environment, el("span", { class: "program" }, recipe.program), recipe.arguments.map(flag)), why),
    recipe.notes.length ? el("details", { class: "card", open: true }, el("summary", {}, `Before you run it (${recipe.notes.length})`), el("ul", {}, recipe.notes.map((note) => el("li", {}, note)))) : null,
    el("div", { class: "card" }, el("h2", {}, "On the box"), asTyped(answer.continue), el("p", { class: "weak" }, "Upright starts it, asks it a real question, and proves that it stands."))),
    el("section", { class: "card words" }, el("h2", {}, "As a file"), targets(answer)));
}

function targets(answer) {
  const shown = el("div", {});
  const choose = el("select", { id: "target", onchange: () => show() }, el("option", { value: "" }, "command"), answer.targets.map((each) => el("option", { value: each.target, disabled: Boolean(each.why_not) }, each.target)));
  const show = () => {
    const target = answer.targets.find((each) => each.target === choose.value);
    const files = target ? Object.entries(target.files) : [["command.sh", answer.text]];
    shown.replaceChildren(...files.map(([name, text]) => el("div", {}, el("div", { class: "typed" }, el("code", {}, name), copyButton(text), download(name, text)), el("pre", { tabindex: "0", "aria-label": name }, text))));
  };
  show();
  return [el("label", { for: "target" }, "Written as"), choose, shown];
}

function download(name, text) {
  return el("button", { type: "button", class: "small", onclick: () => {
    const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    el("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  } }, "Download");
}

export function diagnosisView(answer) {
  const { record } = answer;
  const cause = record.failed && record.code ? record.findings[0] : null;
  const title = cause ? cause.title : record.failed ? "It failed, and no row of the catalogue knows the cause" : record.stood === false ? "Nothing failed, and the engine had not come up yet" : record.stood ? "The engine stood; nothing failed" : "No failure that the catalogue knows";
  return el("div", { class: "plan" }, el("div", { class: "pictures" },
    el("div", { class: "headline" }, el("h1", {}, title), el("p", { class: "weak" }, [record.engine ?? "engine not known", `${count(record.log_lines)} lines`, cause ? cause.code : null].filter(Boolean).join(" · "))),
    record.excerpt.length ? el("div", { class: "card" }, el("h2", {}, "Where it says so"), el("pre", { tabindex: "0", "aria-label": "The lines" }, record.excerpt.map((line) => `${line.number ?? ""}  ${line.text}`).join("\n"))) : null,
    cause ? el("div", { class: "card" }, el("h2", {}, "Why"), el("p", {}, cause.cause), cause.remedies.length ? [el("h2", {}, "What to change"), el("ol", {}, cause.remedies.map((remedy) => el("li", {}, remedy.name ? [`${remedy.do.split("_")[0]} `, el("code", {}, `${remedy.name}${remedy.value ? ` ${remedy.value}` : ""}`), ": "] : null, remedy.why)))] : null) : null,
    record.findings.length > 1 ? el("details", { class: "card" }, el("summary", {}, `What else the log bears out (${record.findings.length - (cause ? 1 : 0)})`), el("ul", {}, record.findings.slice(cause ? 1 : 0).map((finding) => el("li", {}, el("b", {}, finding.code), `: ${finding.title}`)))) : null),
    spoken(answer));
}
