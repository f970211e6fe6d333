// Figures -> elements. Text goes in as text: a name that another wrote is never markup.

export function el(name, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "circle", "text", "polyline", "rect", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, setting] of Object.entries(attributes)) {
    if (setting === null || setting === undefined || setting === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), setting);
    else if (key === "style") Object.assign(element.style, setting);
    else element.setAttribute(key, setting === true ? "" : setting);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const GIB = 2 ** 30;
export const count = (number) => Math.round(number).toLocaleString("en-GB");
export const gib = (bytes) => (bytes / GIB).toFixed(bytes < 10 * GIB ? 2 : 1);
export const size = (bytes) => `${(bytes / 1e9).toPrecision(3)} GB`;
export const short = (tokens) => (tokens >= 2 ** 20 ? `${tokens / 2 ** 20}M` : tokens >= 1024 ? `${Math.round(tokens / 1024)}k` : `${tokens}`);
const rounded = (number) => (number >= 100 ? count(number) : number >= 10 ? number.toFixed(0) : number.toPrecision(2));
export const rate = (speed) => (speed ? (speed.best === null ? `${rounded(speed.low)}–${rounded(speed.high)}` : rounded(speed.best)) : "not known");
export const band = (speed) => (speed ? `${rounded(speed.low)}–${rounded(speed.high)}` : "");

const KINDS = { weights: "weights", experts: "experts", engine: "engine", KV: "kv" };

// One bar a kind of device: what is on it, what it offers, and how far the band may reach.
export function memoryBars(bars) {
  const shown = bars.filter((bar) => bar.used_bytes || bar.capacity_bytes);
  if (!shown.length) return null;
  const names = new Set(shown.flatMap((bar) => bar.parts.filter((part) => part.bytes).map((part) => part.name)));
  const legend = Object.keys(KINDS).filter((name) => names.has(name)).map((name) => el("li", {}, el("i", { class: KINDS[name] }), name === "KV" ? "KV cache" : name));
  return el("figure", { class: "card memory" }, el("figcaption", {}, "Memory by device"), shown.map(memoryBar), el("ul", { class: "legend" }, legend, el("li", {}, el("i", { class: "band" }), "upper bound")));
}

function memoryBar(bar) {
  const whole = Math.max(bar.capacity_bytes, bar.used_bytes, 1);
  const share = (bytes) => `${(100 * bytes) / whole}%`;
  const over = bar.used_bytes > bar.capacity_bytes;
  const parts = bar.parts.filter((part) => part.bytes);
  const said = parts.map((part) => `${part.name} ${gib(part.bytes)} GiB`).join(", ");
  const segments = parts.map((part) => el("i", { class: KINDS[part.name], style: { width: share(part.bytes) }, title: `${part.name} ${gib(part.bytes)} GiB` }));
  const high = Math.min(bar.high_bytes, whole) - bar.used_bytes;
  if (high > 0) segments.push(el("i", { class: "band", style: { width: share(high) }, title: `up to ${gib(bar.high_bytes)} GiB` }));
  const limit = over ? el("b", { style: { left: share(bar.capacity_bytes) }, title: "what the engine may use" }) : null;
  return el("div", { class: "device" },
    el("span", { class: "name" }, bar.names),
    el("span", { class: over ? "figure bad" : "figure" }, bar.capacity_bytes ? `${gib(bar.used_bytes)} of ${gib(bar.capacity_bytes)} GiB` : `${gib(bar.used_bytes)} GiB needed`),
    el("div", { class: "bar", role: "img", "aria-label": `${bar.names}: ${said}` }, segments, limit));
}

// A point in its band, from nought.
export function bandLine(speed, most) {
  if (!speed) return null;
  const share = (number) => `${Math.min(100, (100 * number) / most)}%`;
  return el("span", { class: "spread", role: "img", "aria-label": `${rate(speed)}, band ${band(speed)}` },
    el("i", { style: { left: share(speed.low), width: `calc(${share(speed.high)} - ${share(speed.low)})` } }),
    speed.best === null ? null : el("b", { style: { left: share(speed.best) } }));
}

export function niceCeiling(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 1e-6)));
  return power * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= number);
}
