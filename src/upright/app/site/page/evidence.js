// What the shipped index knows of a model and a box, and what a plan's figures stand on.

import { count, el, gib, rate } from "./pictures.js";
import { head, stacked } from "./views.js";

const OF = { user: "tok/s a user", output: "tok/s of all" };
const TERMS = { weights: "Weights", replicated_weights: "Weights on every rank", absorbed_weights: "Second copies of weights", padded_weights: "Padding of weights", runtime: "Engine's working memory", graphs: "CUDA graphs", kv_cache: "KV cache", process: "Process" };

export function evidenceView(answer, claims, { model: asked, gpu, gpus }) {
  const [plan] = answer.record.plans;
  const name = plan.model.toLowerCase().split(":")[0];
  const model = claims.filter((claim) => claim.model === asked || name.endsWith(`/${claim.model}`));
  const here = model.filter((claim) => claim.gpu === gpu && claim.gpus === gpus);
  const elsewhere = model.filter((claim) => !here.includes(claim));
  return el("div", { class: "plan wide" }, el("div", { class: "pictures" },
    el("div", { class: "headline" }, el("h1", {}, `Evidence for ${plan.model} on ${plan.box}`), el("p", { class: "weak" }, "What others published, as the index that comes with Upright has it. Each level is what verify came to; a claim is somebody's word.")),
    here.length ? table("On such a box", here) : el("p", { class: "card" }, "The shipped index has no claim of this model on such a box."),
    elsewhere.length ? table("The same model on other boxes", elsewhere) : null,
    standing(plan),
    el("p", { class: "certainty" }, el("b", {}, "Add yours: "), "upright share bundle --statement writes a claim that anybody can verify; nothing is sent.")));
}

function table(title, claims) {
  const rows = claims.map((claim) => el("tr", {},
    el("td", {}, el("a", { href: `evidence/${claim.id}.html` }, `${claim.gpus}x ${claim.gpu}, ${claim.engine}`), el("br"), el("span", { class: "weak" }, claim.at)),
    el("td", {}, el("span", { class: `verdict ${claim.level}` }, claim.level)),
    el("td", { class: "number" }, claim.figure === null ? "–" : rate({ best: claim.figure }), el("br"), el("span", { class: "weak" }, OF[claim.of] ?? "no rate")),
    el("td", {}, claim.shape ?? "–"),
    el("td", {}, claim.source ?? "–")));
  return el("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": title }, stacked(el("table", {}, el("caption", {}, `${title} (${claims.length})`), head("Claim", "Level", "Figure", "Load", "Source"), el("tbody", {}, rows))));
}

// Every figure of the plan, with the row or the rule that it comes from.
function standing(plan) {
  const first = plan.ledger.filter((line) => line.device === plan.ledger[0]?.device);
  const rows = first.map((line) => [TERMS[line.term] ?? line.term, `${gib(line.bytes)} GiB`, line.why, line.basis]);
  if (plan.kv.formula) rows.push(["Cache of a token", `${count(plan.kv.bytes_per_token)} B`, plan.kv.formula, "derived"]);
  if (plan.speed) {
    rows.push(["Decode", `${rate(plan.speed.decode)} tok/s`, plan.speed.why, plan.speed.basis]);
    if (plan.speed.prompt) rows.push(["Prefill", `${rate(plan.speed.prompt)} tok/s`, plan.speed.prompt_why ?? `speeds/${plan.speed.row}`, plan.speed.prompt_basis ?? plan.speed.basis]);
    for (const turn of plan.speed.turns) rows.push([turn.users === 1 ? "A warm turn" : `A warm turn, ${turn.users} at once`, turn.warm ? `${turn.warm.best ?? turn.warm.high} s` : "not known", `half of the context cached, 1,200 tokens new, 500 answered; first answer to 20k tokens ${turn.first_answer.best} s, a full context again ${turn.full_context.best} s`, turn.basis]);
  }
  const cells = rows.map(([name, figure, why, basis]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "number" }, figure), el("td", {}, why), el("td", {}, basis)));
  return el("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": "What stands on what" }, stacked(el("table", {}, el("caption", {}, "What stands on what: this plan, one device"), head("Figure", "", "Stands on", "Basis"), el("tbody", {}, cells))));
}
