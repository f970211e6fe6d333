// The page: what is chosen -> a question, its answer -> a view, and the address that leads back to it.

import { curvesOf, gather } from "./curves.js";
import { evidenceView } from "./evidence.js";
import { el, short } from "./pictures.js";
import { Planner, Superseded } from "./planner.js";
import { CONTEXTS, SAFE_START, USERS, USES, fromLink, initial, positive, toLink, wishes, withOptions } from "./state.js";
import { compareView, diagnosisView, insteadList, planView, recipeView, recommendView, refusal } from "./views.js";

const $ = (id) => document.getElementById(id);
const BUILD = "build";
const shown = $("shown");
let choices = null;
let state = initial();
let said = null;
let log = "";
let claims = null;
const planner = new Planner(heard);
window.upright = { ask: (question) => planner.ask(question, `call${Math.random()}`), planner }; // for tests and the curious

function heard(message) {
  const status = $("status");
  if (message.kind === "progress") {
    status.textContent = `Loading ${message.step}`;
    status.dataset.steps = `${status.dataset.steps ?? ""}${message.seconds.toFixed(1)} s ${message.step}; `;
  }
  if (message.kind === "thinking") think(message.words);
  if (message.kind === "failed") status.textContent = `The planner did not start: ${message.why}`;
  if (message.kind === "ready") {
    status.textContent = "Ready, in this page";
    status.dataset.seconds = message.seconds;
    document.body.dataset.ready = "yes";
    answer();
    navigator.serviceWorker?.register("offline.js").catch(() => {});
  }
}

let drawn = null;
let since = 0;
// How far an answer is that takes seconds; what stood here of another view goes at once.
function think(words) {
  $("thinking").hidden = shown.getAttribute("aria-busy") !== "true";
  $("thinking").textContent = `Thinking: ${words}, ${Math.round((performance.now() - since) / 1000)} s so far`;
}

const acts = {
  take: (offer) => go(withOptions(state, offer.options, offer.artifact)),
  model: (model) => go({ ...state, view: "plan", model, goal: kept(state.goal) }),
  async instead(button) {
    button.disabled = true;
    button.textContent = "Looking, which takes some seconds";
    const { others, error } = await planner.ask({ ...asked(), ask: "instead" });
    button.replaceWith(error ? refusal(error) : insteadList(others, acts));
  },
};

const kept = ({ context_tokens, users, use }) => Object.fromEntries(Object.entries({ context_tokens, users, use }).filter(([, wish]) => wish !== undefined));

function asked() {
  return { ask: "plan", model: state.model, box: state.box, memory_gib: state.ram, goal: wishes(state.goal) };
}

function question() {
  const { model, ...rest } = asked();
  if (state.view === "recommend") return { ...rest, ask: "recommend", goal: kept(rest.goal) };
  if (state.view === "recipe") return { ...rest, model, ask: "recipe" };
  if (state.view === "compare") return { ask: "compare", goal: kept(rest.goal), ...prices(), columns: state.columns.map(({ ram, ...column }) => ({ ...column, memory_gib: ram })) };
  if (state.view === "diagnose") return log ? { ask: "diagnose", log } : null;
  return { ...rest, model };
}

const prices = () => ({ kilowatt_hour: positive($("kwh")?.value ?? ""), api_million: positive($("api")?.value ?? "") });

function usual() {
  const box = choices.boxes.find((other) => other.id === state.box);
  return !state.ram && !Object.keys(wishes(state.goal)).length && box?.first && choices.models.some((model) => model.id === state.model);
}

// What the site was built with has a page of its own, which others show as a card; every other answer is behind the #.
const shared = () => (state.view === "plan" && usual() ? `card/${state.model}/${state.box}.html` : toLink(state, choices.catalogue, said));

// What was planned when the page was built is shown at once, and again by the worker when it is there.
async function first() {
  if (!["plan", "evidence", "recommend"].includes(state.view) || !usual()) return null;
  const response = await fetch(`first/${state.view === "recommend" ? state.view : state.model}/${state.box}.json`).catch(() => null);
  return response?.ok ? response.json() : null;
}

let turn = 0;
async function answer() {
  const mine = ++turn;
  since = performance.now();
  if (drawn !== state.view) shown.replaceChildren();
  shown.setAttribute("aria-busy", "true");
  const wanted = question();
  if (!wanted) return show(diagnoseForm());
  if (state.view === "compare" && !state.columns.length) return show(compareForm(), el("p", { class: "weak" }, "Add a column: the model and box that are chosen, or any other."));
  if (state.view === "evidence") await gathered();
  const early = planner.ready && state.view !== "recommend" ? null : await first();
  if (mine !== turn) return;
  if (early) present(early);
  else if (!planner.ready) waiting();
  try {
    const reply = await planner.ask(wanted, "view");
    if (mine !== turn) return;
    present(reply);
    if (state.view === "plan" && !reply.error) await furtherPoints(reply, mine);
  } catch (error) {
    if (!(error instanceof Superseded) && mine === turn) show(refusal({ message: `This is a bug: ${error.message}`, hint: "please report it, with the address of this page" }));
  }
}

const PAUSE = 400; // milliseconds: a slider that is still moved waits for no point
let curves = null;
async function furtherPoints({ record, view }, mine) {
  await new Promise((resolve) => { setTimeout(resolve, PAUSE); });
  if (!curves || mine !== turn) return;
  await gather(record.plans[0], curves, { ...wishes(state.goal), ...view.pinned }, async (goal) => {
    const point = await planner.ask({ ...asked(), ask: "speed", goal });
    return mine === turn && !point.error ? point : null;
  });
}

// Claims come with the site: a list that is read once, held against the manifest.
let integrity = {};
async function gathered() {
  claims ??= await fetch("evidence.json", { integrity: integrity["evidence.json"] }).then((response) => response.json());
}

function place() {
  const built = /^(\d+)x-(.+)$/.exec(state.box);
  const { gpu, gpus } = choices.boxes.find((box) => box.id === state.box) ?? { gpu: built?.[2], gpus: Number(built?.[1] ?? 0) };
  return { model: state.model, gpu, gpus };
}

function waiting() {
  if (shown.childElementCount) return;
  show(el("p", { class: "weak waiting" }, "The planner is loading: Python, the catalogue and Upright itself, some megabytes, once."));
  shown.setAttribute("aria-busy", "true");
}

function present(reply) {
  const forms = { compare: compareForm, diagnose: diagnoseForm }[state.view];
  const views = { plan: planView, recommend: recommendView, compare: compareView, recipe: recipeView, diagnose: diagnosisView, evidence: (plan) => evidenceView(plan, claims, place()) };
  said = curves = null;
  if (reply.error) return show(forms?.(), refusal(reply.error));
  if (state.view === "plan") {
    tell(reply);
    headline(reply.record.plans[0]);
    curves = reply.record.plans[0].fits ? curvesOf(reply.record.plans[0]) : null;
  }
  return show(forms?.(), views[state.view](reply, acts, curves));
}

function show(...children) {
  shown.replaceChildren(...children.filter(Boolean));
  shown.setAttribute("aria-busy", "false");
  $("thinking").hidden = true;
  drawn = state.view;
}

// The sliders say what was planned: where nothing was asked, what the planner chose.
function headline(plan) {
  $("context").value = nearest(CONTEXTS, plan.context_tokens);
  $("context-shown").value = `${short(plan.context_tokens)} tokens`;
  $("users-shown").value = plan.goal.users;
}

// A link of an older catalogue says what has changed since.
function tell(reply) {
  const [plan] = reply.record.plans;
  said = [plan.fits ? "fits" : "does not fit", plan.model, plan.speed?.decode.best ? `${plan.speed.decode.best.toFixed(1)} tok/s` : "speed not known", `${plan.kv.low_tokens} tokens`].join(", ");
  const { catalogue, said: then } = state.made ?? {};
  const older = $("older");
  older.hidden = !catalogue || catalogue === choices.catalogue;
  if (!older.hidden) older.textContent = `This link was made with another catalogue (${catalogue}; this page has ${choices.catalogue}). ${then && then !== said ? `It said then: ${then}. Now: ${said}.` : "Its answer is the same now."}`;
}

function go(next, replace = false) {
  state = next;
  const link = toLink({ ...state, model: state.model.startsWith("/") ? initial().model : state.model }, choices.catalogue);
  history[replace ? "replaceState" : "pushState"](null, "", link);
  fill();
  answer();
}

function fill() {
  document.body.dataset.view = state.view;
  for (const link of document.querySelectorAll("nav a")) {
    link.toggleAttribute("aria-current", link.dataset.view === state.view);
    if (link.dataset.view === state.view) link.setAttribute("aria-current", "page");
    link.href = toLink({ ...state, view: link.dataset.view }, choices.catalogue);
  }
  named($("model"), state.model, state.model.startsWith("/") ? state.model.split("/").pop() : state.model);
  const built = /^(\d+)x-(.+)$/.exec(state.box);
  const row = choices.boxes.some((box) => box.id === state.box);
  $("built").hidden = row || !built;
  if (!row && built) [, $("count").value, $("gpu").value] = built;
  $("box").value = row ? state.box : BUILD;
  $("ram").value = state.ram ?? "";
  const context = state.goal.context_tokens ?? SAFE_START;
  $("context").value = nearest(CONTEXTS, context);
  $("context-shown").value = state.goal.context_tokens ? `${short(context)} tokens` : "64k tokens";
  $("users").value = nearest(USERS, state.goal.users ?? 1);
  $("users-shown").value = state.goal.users ?? 1;
  named($("kv"), state.goal.kv_dtype ?? "auto", state.goal.kv_dtype);
  named($("engine"), state.goal.engine ?? "", state.goal.engine);
  $("use").value = state.goal.use ?? USES[0];
  $("fraction").value = state.goal.memory_fraction ?? 0.69;
  $("fraction-shown").value = state.goal.memory_fraction ?? "default";
}

function named(select, name, title) {
  if (![...select.options].some((option) => option.value === name)) select.append(el("option", { value: name }, title));
  select.value = name;
}

const nearest = (steps, number) => steps.reduce((best, step, index) => (Math.abs(step - number) < Math.abs(steps[best] - number) ? index : best), 0);

function wish(field, setting) {
  const goal = { ...state.goal, [field]: setting };
  if (setting === null) delete goal[field];
  go({ ...state, goal }, true);
}

let pause = null;
function soon(act) {
  clearTimeout(pause);
  pause = setTimeout(act, 120);
}

function listen() {
  $("model").onchange = ({ target }) => go({ ...state, model: target.value });
  $("box").onchange = ({ target }) => go({ ...state, box: target.value === BUILD ? `${$("count").value}x-${$("gpu").value}` : target.value });
  for (const id of ["gpu", "count"]) $(id).onchange = () => go({ ...state, box: `${Math.min(16, Math.max(1, Math.round($("count").value) || 1))}x-${$("gpu").value}` });
  $("ram").onchange = ({ target }) => go({ ...state, ram: positive(target.value) });
  $("context").oninput = ({ target }) => {
    const tokens = CONTEXTS[target.value];
    $("context-shown").value = `${short(tokens)} tokens`;
    soon(() => wish("context_tokens", tokens === SAFE_START ? null : tokens));
  };
  $("users").oninput = ({ target }) => {
    $("users-shown").value = USERS[target.value];
    soon(() => wish("users", USERS[target.value] === 1 ? null : USERS[target.value]));
  };
  $("fraction").oninput = ({ target }) => {
    const share = Number(target.value) < 0.7 ? null : Number(target.value);
    $("fraction-shown").value = share ?? "default";
    soon(() => wish("memory_fraction", share));
  };
  for (const [id, field] of [["kv", "kv_dtype"], ["engine", "engine"]]) $(id).onchange = ({ target }) => wish(field, target.value === "auto" ? null : target.value || null);
  $("use").onchange = ({ target }) => wish("use", target.value === USES[0] ? null : target.value);
  $("reset").onclick = () => go({ ...state, goal: {} });
  $("use-config").onclick = () => own("config.json", new Blob([$("config").value]));
  $("gguf").onchange = ({ target }) => target.files[0] && own(target.files[0].name, target.files[0]);
  $("share").onclick = async ({ target }) => {
    await navigator.clipboard.writeText(new URL(shared(), location.href).href);
    target.textContent = "Copied";
    setTimeout(() => { target.textContent = "Copy a link to this answer"; }, 1500);
  };
  $("to-form").onclick = () => $("asked").scrollIntoView();
  document.querySelector(".skip").onclick = (event) => { event.preventDefault(); $("answer").focus(); };
  $("asked").onsubmit = (event) => event.preventDefault();
  window.addEventListener("popstate", arrive);
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (file) state.view === "diagnose" ? read(file) : own(file.name, file);
  });
}

async function own(name, file) {
  const { path, error } = await planner.drop(name.replace(/[^\w.-]/g, "_"), file).catch((fault) => ({ error: { message: fault.message } }));
  if (error) show(refusal(error));
  else go({ ...state, view: "plan", model: path, goal: kept(state.goal) });
}

const MOST_LOG = 64 * 2 ** 20;
async function read(file) {
  log = await file.slice(Math.max(0, file.size - MOST_LOG)).text();
  answer();
}

function diagnoseForm() {
  const area = el("textarea", { id: "log", rows: "10", spellcheck: "false", placeholder: "torch.OutOfMemoryError: CUDA out of memory. …" });
  area.value = log.length < 2 ** 20 ? log : "";
  return el("div", { class: "card diagnose" }, el("h2", {}, "Why did it fall?"),
    el("label", { for: "log" }, "Paste the engine's log; it stays in this page"), area,
    el("div", { class: "row" }, el("button", { type: "button", id: "diagnose", class: "main", onclick: () => { log = area.value; answer(); } }, "Diagnose"),
      el("label", { class: "file", for: "logfile" }, "or a file"), el("input", { id: "logfile", type: "file", onchange: ({ target }) => target.files[0] && read(target.files[0]) })));
}

function compareForm() {
  const change = (index, field, setting) => go({ ...state, columns: state.columns.map((column, at) => (at === index ? { ...column, [field]: setting } : column)) }, true);
  const field = (index, name, label, column) => el("span", {}, el("label", { for: `${name}${index}` }, label), el("input", { id: `${name}${index}`, type: "number", min: "0", step: "any", inputmode: "decimal", value: column[name], onchange: ({ target }) => change(index, name, positive(target.value)) }));
  const rows = state.columns.map((column, index) => el("div", { class: "column" }, el("b", {}, column.model), el("span", { class: "weak" }, `${column.box}${column.ram ? `, ${column.ram} GB RAM` : ""}`), el("div", { class: "row" },
    field(index, "purchase", "Price", column), field(index, "rent_hour", "Rent an hour", column), field(index, "watts", "Watts", column),
    el("button", { type: "button", class: "small", "aria-label": `Remove ${column.model} on ${column.box}`, onclick: () => go({ ...state, columns: state.columns.filter((_, at) => at !== index) }, true) }, "Remove"))));
  const add = el("button", { type: "button", id: "add-column", class: "main", disabled: state.columns.length >= 4, onclick: () => go({ ...state, columns: [...state.columns, { model: state.model, box: state.box, ram: state.ram, purchase: null, rent_hour: null, watts: null }] }, true) }, "Add the chosen model and box");
  const price = (id, label, old) => el("span", {}, el("label", { for: id }, label), el("input", { id, type: "number", min: "0", step: "any", value: old, inputmode: "decimal", onchange: () => answer() }));
  return el("div", { class: "card compare" }, el("h2", {}, "Side by side, up to four"), el("div", { class: "chosen" }, rows), el("div", { class: "row" }, add, price("kwh", "Price of a kWh", $("kwh")?.value), price("api", "API price, million tokens", $("api")?.value)));
}

function arrive() {
  state = fromLink(location.hash);
  $("misread").hidden = !state.misread.length;
  if (state.misread.length) $("misread").textContent = `The link says ${state.misread.join(", ")}, which is no setting here: left out.`;
  fill();
  answer();
}

function offer() {
  const makers = new Map();
  for (const model of choices.models) makers.set(model.maker, [...(makers.get(model.maker) ?? []), model]);
  const billions = (weights) => (weights ? `${Math.round(weights / 1e9)}B` : "");
  $("model").append(...[...makers].map(([maker, models]) => el("optgroup", { label: maker }, models.map((model) => el("option", { value: model.id }, `${model.name} (${billions(model.parameters)})`)))));
  $("box").append(...choices.boxes.map((box) => el("option", { value: box.id }, box.name)), el("option", { value: BUILD }, "Build one: GPU and count"));
  $("gpu").append(...choices.gpus.map((gpu) => el("option", { value: gpu.id }, gpu.name)));
  $("kv").append(...[...new Set(["auto", ...choices.cache_types])].map((type) => el("option", { value: type }, type)));
  $("engine").append(el("option", { value: "" }, "best"), ...choices.engines.map((engine) => el("option", { value: engine.id }, engine.title)));
  $("use").append(...USES.map((use) => el("option", { value: use }, use.replace("-", " "))));
  [$("context").max, $("users").max] = [CONTEXTS.length - 1, USERS.length - 1];
  $("versions").textContent = `upright ${choices.version}, catalogue ${choices.catalogue}.`;
}

async function start() {
  const manifest = await fetch("manifest.json", { integrity: document.body.dataset.manifest }).then((response) => response.json());
  integrity = manifest.integrity;
  const began = planner.start(integrity);
  choices = await fetch("choices.json", { integrity: manifest.integrity["choices.json"] }).then((response) => response.json());
  offer();
  listen();
  arrive();
  await began;
}

start().catch((error) => { $("status").textContent = `The page did not start: ${error.message}`; });
