// A plan at many contexts and users, each of them asked of the worker -> decode and prefill as curves, with their bands.

import { band, count, el, niceCeiling, rate, short } from "./pictures.js";
import { CONTEXTS, USERS } from "./state.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [460, 170, 52, 16, 12, 30];

// What is known before anything else is asked: three points of decode, one of prefill. More take their place as they come.
export function curvesOf(plan) {
  const { speed } = plan;
  if (!speed || speed.decode.best === null) return null;
  const own = { context: plan.context_tokens, users: plan.goal.users, speed };
  const frame = el("div", { class: "curves" });
  const draw = (overContext, overUsers) => frame.replaceChildren(...charts(plan, overContext, overUsers));
  draw([own], [own]);
  return { frame, draw, own };
}

function charts(plan, overContext, overUsers) {
  const tokens = (context) => (context ? short(context) : "empty");
  const people = (users) => (users === 1 ? "1 user" : `${users} users`);
  const half = overContext.length === 1 ? [[plan.speed.context_tokens, plan.speed.decode]] : [];
  const decode = [[0, plan.speed.empty], ...half, ...overContext.map(({ context, speed }) => [context, speed.full])];
  const some = [
    curve("Decode over context", "tok/s for each user", decode, tokens),
    curve("Prefill over the prompt", "tok/s", overContext.map(({ context, speed }) => [context, speed.prompt]), tokens),
  ];
  if (plan.users_at_context < 2) return some;
  const at = `context half of ${short(plan.context_tokens)}`;
  return [...some,
    curve("Decode over users", `tok/s for each, ${at}`, overUsers.map(({ users, speed }) => [users, speed.decode]), people),
    curve("All users together", `tok/s, ${at}`, overUsers.map(({ users, speed }) => [users, speed.together]), people)];
}

// Asks for each point by itself, so that a slider waits for one at most; `ask` gives null once another answer is wanted.
export async function gather(plan, { draw, own }, goal, ask) {
  const contexts = [...CONTEXTS.filter((tokens) => tokens < plan.largest_context_tokens), plan.largest_context_tokens];
  const overContext = await points(contexts, own, "context", (tokens) => ask({ ...goal, users: own.users, context_tokens: tokens }));
  if (!overContext) return;
  draw(overContext, [own]);
  const crowds = USERS.filter((users) => users <= plan.users_at_context);
  const overUsers = await points(crowds, own, "users", (users) => ask({ ...goal, users, context_tokens: own.context }));
  if (overUsers) draw(overContext, overUsers);
}

async function points(steps, own, axis, ask) {
  const answered = [own];
  for (const step of steps.filter((other) => other !== own[axis])) {
    const point = await ask(step);
    if (!point) return null;
    if (point.fits && point.speed) answered.push({ [axis]: step, speed: point.speed });
  }
  return answered.sort((one, other) => one[axis] - other[axis]);
}

function curve(title, unit, all, named) {
  const points = all.filter(([, speed]) => speed && speed.best !== null);
  const caption = el("figcaption", {}, `${title}, `, el("span", { class: "weak" }, `${unit}`));
  if (!points.length) return el("figure", { class: "card" }, caption, el("p", { class: "weak" }, "not known"));
  const most = niceCeiling(Math.max(...points.map(([, speed]) => speed.high)));
  const far = Math.max(...points.map(([along]) => along), 1);
  const x = (along) => LEFT + ((WIDTH - LEFT - RIGHT) * along) / far;
  const y = (figure) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - figure / most);
  const at = (key) => points.map(([along, speed]) => `${x(along).toFixed(1)},${y(speed[key]).toFixed(1)}`);
  const label = points.map(([along, speed]) => `${rate(speed)} tok/s at ${named(along)}`).join(", ");
  const dots = points.map(([along, speed]) => el("circle", { cx: x(along), cy: y(speed.best), r: 3 }, el("title", {}, `${rate(speed)} (${band(speed)}) tok/s: ${named(along)}`)));
  return el("figure", { class: "card curve" }, caption, el("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${label}` },
    scale(most, y), el("path", { class: "band", d: points.length > 1 ? `M${at("high").join("L")}L${at("low").reverse().join("L")}Z` : whisker(points[0], x, y) }),
    el("polyline", { points: at("best").join(" ") }), dots, below(points.map(([along]) => along), x, named)));
}

const whisker = ([along, speed], x, y) => `M${x(along) - 3},${y(speed.high)}H${x(along) + 3}V${y(speed.low)}H${x(along) - 3}Z`;

const scale = (most, y) => [0, most / 2, most].flatMap((figure) => [
  el("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(figure), y2: y(figure), class: "grid" }),
  el("text", { x: LEFT - 6, y: y(figure) + 4, "text-anchor": "end" }, figure >= 10 || !figure ? count(figure) : figure.toPrecision(2)),
]);

// From the right, as many names as have room.
function below(places, x, named) {
  let free = WIDTH;
  return [...places].reverse().map((along) => {
    const text = named(along);
    const wide = 7 * text.length;
    const middle = Math.min(Math.max(x(along), LEFT - 8 + wide / 2), WIDTH - wide / 2);
    if (middle + wide / 2 > free) return null;
    free = middle - wide / 2 - 14;
    return el("text", { x: middle, y: HEIGHT - 10, "text-anchor": "middle" }, text);
  });
}
