// What is asked <-> the address: a link is the state, with the catalogue that it was made with and what it said then.

export const VIEWS = ["plan", "recommend", "compare", "recipe", "evidence", "diagnose"];
export const CONTEXTS = [4096, 8192, 16384, 32768, 65536, 98304, 131072, 196608, 262144, 524288, 1048576];
export const SAFE_START = 65536;
export const USERS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
export const USES = ["coding-agent", "chat", "batch", "long-documents"];

// Fields of a goal, their options on the command line, and how a link spells them.
export const WISHES = {
  context_tokens: ["--context", Number],
  users: ["--users", Number],
  use: ["--use", String],
  engine: ["--engine", String],
  kv_dtype: ["--kv-dtype", String],
  memory_fraction: ["--gpu-memory-utilization", Number],
  tensor_parallel: ["--tp", Number],
  pipeline_parallel: ["--pp", Number],
  decode_context_parallel: ["--dcp", Number],
  minimum_tokens_per_second: ["--min-speed", Number],
  image: ["--image", String],
};

export function initial() {
  return { view: "plan", model: "kimi-k2.6", box: "8x-rtx-pro-6000-workstation", ram: null, goal: {}, columns: [] };
}

export function fromLink(hash) {
  const state = initial();
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const misread = (name) => state.misread.push(`${name}=${words.get(name)}`);
  state.misread = [];
  if (VIEWS.includes(words.get("view"))) state.view = words.get("view");
  else if (words.get("view")) misread("view");
  state.model = words.get("model") || state.model;
  state.box = words.get("box") || state.box;
  state.ram = positive(words.get("ram"));
  if (words.get("ram") && !state.ram) misread("ram");
  for (const [field, [, read]] of Object.entries(WISHES)) {
    const wish = words.get(field) === null ? null : read(words.get(field));
    if (wish === null) continue;
    if (field === "use" ? USES.includes(wish) : read === String || positive(wish)) state.goal[field] = wish;
    else misread(field);
  }
  state.columns = words.getAll("column").slice(0, 4).map(toColumn).filter((column) => column.model && column.box);
  state.made = { catalogue: words.get("catalogue"), said: words.get("said") };
  return state;
}

export function toLink(state, catalogue, said) {
  const words = new URLSearchParams({ view: state.view, model: state.model, box: state.box });
  if (state.ram) words.set("ram", state.ram);
  for (const [field, wish] of Object.entries(state.goal)) words.set(field, wish);
  for (const column of state.columns) words.append("column", fromColumn(column));
  words.set("catalogue", catalogue);
  if (said) words.set("said", said);
  return `#${words}`;
}

const fromColumn = ({ model, box, ram, purchase, rent_hour: rent, watts }) =>
  [model, box, ram ?? "", purchase ?? "", rent ?? "", watts ?? ""].join("~");

function toColumn(text) {
  const [model, box, ...figures] = text.split("~");
  const [ram, purchase, rent, watts] = figures.map(positive);
  return { model, box, ram: ram ?? null, purchase: purchase ?? null, rent_hour: rent ?? null, watts: watts ?? null };
}

export function positive(text) {
  const number = text === null || text === "" ? NaN : Number(text);
  return Number.isFinite(number) && number > 0 ? number : null;
}

// What would fit, as words of the command line, laid over the state.
export function withOptions(state, options, artifact) {
  const next = { ...state, goal: { ...state.goal } };
  if (artifact) {
    next.model = artifact;
    for (const field of ["engine", "kv_dtype", "memory_fraction", "tensor_parallel", "pipeline_parallel", "decode_context_parallel"]) delete next.goal[field];
  }
  for (let index = 0; index + 1 < options.length; index += 2) {
    const [name, word] = [options[index], options[index + 1]];
    if (name === "--box") next.box = word;
    if (name === "--ram" || name === "--host-memory") next.ram = parseFloat(word) || next.ram;
    const field = Object.keys(WISHES).find((wish) => WISHES[wish][0] === name);
    if (field) next.goal[field] = WISHES[field][1](word);
  }
  return next;
}

// Only what differs from the planner's own choice: then the answer may have been planned when the page was built.
export function wishes(goal) {
  const asked = {};
  for (const [field, wish] of Object.entries(goal)) {
    const usual = { users: 1, use: "coding-agent" }[field];
    if (wish !== null && wish !== undefined && wish !== usual) asked[field] = wish;
  }
  return asked;
}
