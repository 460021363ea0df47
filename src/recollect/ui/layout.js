// Where the nodes of a graph go: things that are tied pull, all others push. Pure, and always the same.

const ROUNDS = 220;
const PULL = 0.03;
const CENTRE = 0.008;
const REACH = 130;
// The most a few nodes are drawn apart, in units to a pixel.
const CLOSEST = 0.5;
// How far apart two that are tied come to rest.
const REST = 70;

/**
 * @param {number} count
 * @param {[number, number, number][]} edges pairs of places with a weight
 * @param {number} [aspect] how much wider than high the frame is: a round cloud leaves its sides empty
 * @returns {{ x: number, y: number }[]}
 */
export function layout(count, edges, aspect = 1) {
  const points = Array.from({ length: count }, (_, index) => start(index));
  for (let round = 0; round < ROUNDS; round++) {
    const heat = 1 - round / ROUNDS;
    push(points, heat);
    for (const [from, to, weight] of edges) pull(points[from], points[to], weight, heat);
    for (const point of points) {
      point.x -= point.x * CENTRE * heat;
      point.y -= point.y * CENTRE * heat;
    }
  }
  const stretch = Math.sqrt(Math.min(2, Math.max(0.5, (aspect * span(points, "y")) / span(points, "x"))));
  return points.map(({ x, y }) => ({ x: x * stretch, y: y / stretch }));
}

/**
 * @param {{ x: number, y: number }[]} points
 * @param {"x" | "y"} axis
 */
function span(points, axis) {
  const all = points.map((point) => point[axis]);
  return Math.max(1, Math.max(...all) - Math.min(...all));
}

/** A spiral like a sunflower's: nothing starts on top of anything. @param {number} index */
function start(index) {
  const angle = index * 2.399963;
  const radius = 18 * Math.sqrt(index + 0.5);
  return { x: radius * Math.cos(angle), y: radius * Math.sin(angle) };
}

/**
 * Near ones push each other away; a grid keeps far ones out of it.
 * @param {{ x: number, y: number }[]} points
 * @param {number} heat
 */
function push(points, heat) {
  /** @type {Map<string, number[]>} */
  const cells = new Map();
  points.forEach((point, index) => {
    const key = `${Math.floor(point.x / REACH)},${Math.floor(point.y / REACH)}`;
    cells.set(key, [...(cells.get(key) ?? []), index]);
  });
  for (const [key, inside] of cells) {
    const [column, line] = key.split(",").map(Number);
    for (let dx = -1; dx <= 1; dx++) for (let dy = -1; dy <= 1; dy++) {
      for (const other of cells.get(`${column + dx},${line + dy}`) ?? []) for (const one of inside) if (one < other) part(points[one], points[other], heat);
    }
  }
}

/**
 * @param {{ x: number, y: number }} one
 * @param {{ x: number, y: number }} other
 * @param {number} heat
 */
function part(one, other, heat) {
  const dx = other.x - one.x || 0.01;
  const dy = other.y - one.y || 0.01;
  const distance = Math.hypot(dx, dy);
  if (distance >= REACH) return;
  const force = ((REACH - distance) / REACH) ** 2 * 12 * heat;
  one.x -= (dx / distance) * force;
  one.y -= (dy / distance) * force;
  other.x += (dx / distance) * force;
  other.y += (dy / distance) * force;
}

/**
 * @param {{ x: number, y: number }} one
 * @param {{ x: number, y: number }} other
 * @param {number} weight
 * @param {number} heat
 */
function pull(one, other, weight, heat) {
  const dx = other.x - one.x;
  const dy = other.y - one.y;
  const distance = Math.hypot(dx, dy) || 1;
  const force = Math.max(0, distance - REST) * PULL * (0.4 + weight) * heat;
  one.x += (dx / distance) * force;
  one.y += (dy / distance) * force;
  other.x -= (dx / distance) * force;
  other.y -= (dy / distance) * force;
}

/** @typedef {{ x: number, y: number, width: number, height: number }} Box */

/**
 * What of the plane to show in a frame so that all points are in it, with room for labels at their sides.
 * @param {{ x: number, y: number }[]} points
 * @param {{ width: number, height: number }} frame
 * @returns {Box}
 */
export function fitted(points, frame) {
  const inner = within(frame);
  const scale = Math.max(span(points, "x") / inner.width, span(points, "y") / inner.height, CLOSEST);
  const [width, height] = [frame.width * scale, frame.height * scale];
  const middle = (/** @type {number[]} */ all) => (Math.min(...all) + Math.max(...all)) / 2;
  return { x: middle(points.map(({ x }) => x)) - width / 2, y: middle(points.map(({ y }) => y)) - height / 2, width, height };
}

/**
 * Where nodes may stand so that the labels at their sides are in the frame too.
 * @param {{ width: number, height: number }} frame
 */
export function within(frame) {
  return { width: Math.max(80, frame.width - 2 * Math.min(130, frame.width * 0.14)), height: Math.max(80, frame.height - 110) };
}

/** @typedef {"right" | "left" | "below" | "above"} Side */

/**
 * Which labels can be read, and on which side of their nodes: each in its turn, inside the frame, where it covers no other and
 * no node.
 * @param {{ x: number, y: number }[]} points in pixels of the frame
 * @param {number[]} widths of the labels
 * @param {number[]} order
 * @param {{ width: number, height: number }} frame
 * @returns {Map<number, Side>}
 */
export function readable(points, widths, order, frame) {
  const taken = order.map((index) => around(points[index], 9, 9));
  /** @type {Map<number, Side>} */
  const chosen = new Map();
  for (const index of order) {
    const { x, y } = points[index];
    const half = widths[index] / 2;
    const sides = /** @type {[Side, ReturnType<typeof around>][]} */ ([
      ["right", around({ x: x + 15 + half, y }, half, 8)], ["left", around({ x: x - 15 - half, y }, half, 8)],
      ["below", around({ x, y: y + 20 }, half, 8)], ["above", around({ x, y: y - 20 }, half, 8)]]);
    const found = sides.find(([, box]) => box.left > 0 && box.right < frame.width && !taken.some((other) => overlap(box, other)));
    if (!found) continue;
    taken.push(found[1]);
    chosen.set(index, found[0]);
  }
  return chosen;
}

/**
 * @param {{ x: number, y: number }} point
 * @param {number} wide
 * @param {number} high
 */
function around({ x, y }, wide, high) {
  return { left: x - wide, right: x + wide, top: y - high, bottom: y + high };
}

/**
 * @param {ReturnType<typeof around>} one
 * @param {ReturnType<typeof around>} other
 */
function overlap(one, other) {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}
