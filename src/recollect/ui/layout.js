// Where the nodes of a graph go: things that are tied pull, all others push. Pure, and always the same.

const ROUNDS = 220;
const PULL = 0.03;
const CENTRE = 0.008;
const REACH = 110;

/**
 * @param {number} count
 * @param {[number, number, number][]} edges pairs of places with a weight
 * @returns {{ x: number, y: number }[]}
 */
export function layout(count, edges) {
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
  return points;
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
  const force = Math.max(0, distance - 40) * PULL * (0.4 + weight) * heat;
  one.x += (dx / distance) * force;
  one.y += (dy / distance) * force;
  other.x -= (dx / distance) * force;
  other.y -= (dy / distance) * force;
}

/**
 * The box around all points, with a margin, and room for a label at either side.
 * @param {{ x: number, y: number }[]} points
 * @param {number} margin
 * @param {number} label
 */
export function bounds(points, margin, label) {
  const xs = points.map(({ x }) => x);
  const ys = points.map(({ y }) => y);
  const left = Math.min(...xs) - margin - label;
  const top = Math.min(...ys) - margin;
  return { x: left, y: top, width: Math.max(...xs) + margin + label - left, height: Math.max(...ys) + margin - top };
}

/**
 * Which labels can be read, and on which side of their nodes: each in its turn, where it covers no other and no node.
 * @param {{ x: number, y: number }[]} points
 * @param {string[]} labels
 * @param {number[]} order
 * @returns {Map<number, "right" | "left">}
 */
export function readable(points, labels, order) {
  /** @type {{ left: number, right: number, y: number }[]} */
  const taken = points.map(({ x, y }) => ({ left: x - 9, right: x + 9, y }));
  /** @type {Map<number, "right" | "left">} */
  const chosen = new Map();
  for (const index of order) {
    const { x, y } = points[index];
    const wide = 6 + labels[index].length * 6.2;
    const right = { left: x + 10, right: x + 10 + wide, y };
    const left = { left: x - 10 - wide, right: x - 10, y };
    const isFree = (/** @type {typeof right} */ box) => !taken.some((other) => box.left < other.right && other.left < box.right && Math.abs(box.y - other.y) < 16);
    const side = isFree(right) ? "right" : isFree(left) ? "left" : null;
    if (!side) continue;
    taken.push(side === "right" ? right : left);
    chosen.set(index, side);
  }
  return chosen;
}
