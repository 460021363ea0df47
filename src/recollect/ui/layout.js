// Positions the nodes of a graph: linked nodes attract, near nodes repel. Pure and deterministic.

const ROUNDS = 220;
const ATTRACTION = 0.03;
const CENTERING = 0.008;
const REPEL_DISTANCE = 130;
// The highest zoom for a few nodes, in drawing units per pixel.
const MIN_SCALE = 0.5;
// The distance at which two linked nodes no longer attract.
const REST_DISTANCE = 70;

/**
 * @param {number} count
 * @param {[number, number, number][]} edges pairs of node indexes with a weight
 * @param {number} [aspect] width of the frame divided by its height
 * @returns {{ x: number, y: number }[]}
 */
export function layout(count, edges, aspect = 1) {
  const points = Array.from({ length: count }, (_, index) => startPoint(index));
  for (let round = 0; round < ROUNDS; round++) {
    const strength = 1 - round / ROUNDS;
    repelAll(points, strength);
    for (const [from, to, weight] of edges) attract(points[from], points[to], weight, strength);
    for (const point of points) {
      point.x -= point.x * CENTERING * strength;
      point.y -= point.y * CENTERING * strength;
    }
  }
  const factor = Math.sqrt(Math.min(2, Math.max(0.5, (aspect * span(points, "y")) / span(points, "x"))));
  return points.map(({ x, y }) => ({ x: x * factor, y: y / factor }));
}

/**
 * @param {{ x: number, y: number }[]} points
 * @param {"x" | "y"} axis
 */
function span(points, axis) {
  const all = points.map((point) => point[axis]);
  return Math.max(1, Math.max(...all) - Math.min(...all));
}

/** Start on a sunflower spiral, so that no two nodes overlap. @param {number} index */
function startPoint(index) {
  const angle = index * 2.399963;
  const radius = 18 * Math.sqrt(index + 0.5);
  return { x: radius * Math.cos(angle), y: radius * Math.sin(angle) };
}

/**
 * Near nodes repel each other; a grid avoids comparing far ones.
 * @param {{ x: number, y: number }[]} points
 * @param {number} strength
 */
function repelAll(points, strength) {
  /** @type {Map<string, number[]>} */
  const cells = new Map();
  points.forEach((point, index) => {
    const key = `${Math.floor(point.x / REPEL_DISTANCE)},${Math.floor(point.y / REPEL_DISTANCE)}`;
    cells.set(key, [...(cells.get(key) ?? []), index]);
  });
  for (const [key, inside] of cells) {
    const [column, row] = key.split(",").map(Number);
    for (let dx = -1; dx <= 1; dx++) for (let dy = -1; dy <= 1; dy++) {
      for (const other of cells.get(`${column + dx},${row + dy}`) ?? []) for (const one of inside) if (one < other) repel(points[one], points[other], strength);
    }
  }
}

/**
 * @param {{ x: number, y: number }} one
 * @param {{ x: number, y: number }} other
 * @param {number} strength
 */
function repel(one, other, strength) {
  const dx = other.x - one.x || 0.01;
  const dy = other.y - one.y || 0.01;
  const distance = Math.hypot(dx, dy);
  if (distance >= REPEL_DISTANCE) return;
  const force = ((REPEL_DISTANCE - distance) / REPEL_DISTANCE) ** 2 * 12 * strength;
  one.x -= (dx / distance) * force;
  one.y -= (dy / distance) * force;
  other.x += (dx / distance) * force;
  other.y += (dy / distance) * force;
}

/**
 * @param {{ x: number, y: number }} one
 * @param {{ x: number, y: number }} other
 * @param {number} weight
 * @param {number} strength
 */
function attract(one, other, weight, strength) {
  const dx = other.x - one.x;
  const dy = other.y - one.y;
  const distance = Math.hypot(dx, dy) || 1;
  const force = Math.max(0, distance - REST_DISTANCE) * ATTRACTION * (0.4 + weight) * strength;
  one.x += (dx / distance) * force;
  one.y += (dy / distance) * force;
  other.x -= (dx / distance) * force;
  other.y -= (dy / distance) * force;
}

/** @typedef {{ x: number, y: number, width: number, height: number }} Box */

/**
 * The part of the plane that shows all points in a frame, with room for labels at the sides.
 * @param {{ x: number, y: number }[]} points
 * @param {{ width: number, height: number }} frame
 * @returns {Box}
 */
export function fitBox(points, frame) {
  const inner = innerFrame(frame);
  const scale = Math.max(span(points, "x") / inner.width, span(points, "y") / inner.height, MIN_SCALE);
  const [width, height] = [frame.width * scale, frame.height * scale];
  const middle = (/** @type {number[]} */ all) => (Math.min(...all) + Math.max(...all)) / 2;
  return { x: middle(points.map(({ x }) => x)) - width / 2, y: middle(points.map(({ y }) => y)) - height / 2, width, height };
}

/**
 * The part of the frame for nodes, so that the labels at their sides also fit.
 * @param {{ width: number, height: number }} frame
 */
export function innerFrame(frame) {
  return { width: Math.max(80, frame.width - 2 * Math.min(130, frame.width * 0.14)), height: Math.max(80, frame.height - 110) };
}

/** @typedef {"right" | "left" | "below" | "above"} Side */

/**
 * Choose a side for each label, in the given order, so that it is inside the frame and covers no other label and no node. Labels
 * without such a side are left out.
 * @param {{ x: number, y: number }[]} points in pixels of the frame
 * @param {number[]} widths of the labels
 * @param {number[]} order
 * @param {{ width: number, height: number }} frame
 * @returns {Map<number, Side>}
 */
export function placeLabels(points, widths, order, frame) {
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
