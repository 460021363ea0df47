// The visible part of the graph: drag, wheel and pinch.

// A press that moves less than this many pixels is a click.
const CLICK_TOLERANCE = 6;
// The lowest initial zoom at which labels are readable, in drawing units per pixel.
const MAX_INITIAL_SCALE = 1.9;

/** @typedef {import("../layout.js").Box} Box */

export class View {
  /** @type {Map<number, { x: number, y: number }>} */
  #pointers = new Map();
  #travelled = 0;

  /**
   * @param {SVGElement} canvas
   * @param {Box} whole
   * @param {() => void} changed
   * @param {AbortSignal} signal
   */
  constructor(canvas, whole, changed, signal) {
    this.canvas = canvas;
    this.whole = whole;
    this.changed = changed;
    this.box = { ...whole };
    canvas.addEventListener("wheel", (event) => (event.preventDefault(), this.zoom(Math.exp(Math.max(-100, Math.min(100, event.deltaY)) * 0.0015), this.#at(event))), { passive: false, signal });
    canvas.addEventListener("pointerdown", (event) => ((this.#travelled = 0), this.#pointers.set(event.pointerId, { x: event.clientX, y: event.clientY })), { signal });
    addEventListener("pointerup", (event) => this.#pointers.delete(event.pointerId), { signal });
    addEventListener("pointercancel", (event) => this.#pointers.delete(event.pointerId), { signal });
    addEventListener("pointermove", (event) => this.#drag(event), { signal });
    const sizes = new ResizeObserver(() => this.#draw());
    sizes.observe(canvas);
    signal.addEventListener("abort", () => sizes.disconnect());
  }

  /** Whether the last press was a drag. */
  get wasMoved() {
    return this.#travelled > CLICK_TOLERANCE;
  }

  /** Show everything, or the middle if everything would be too small to read. */
  begin() {
    this.box = { ...this.whole };
    this.zoom(Math.min(1, MAX_INITIAL_SCALE / this.scale));
  }

  all() {
    this.box = { ...this.whole };
    this.#draw();
  }

  /**
   * @param {number} by
   * @param {{ x: number, y: number }} [around]
   */
  zoom(by, around = { x: this.box.x + this.box.width / 2, y: this.box.y + this.box.height / 2 }) {
    const width = Math.min(this.whole.width * 3, Math.max(80, this.box.width * by));
    const scale = width / this.box.width;
    this.box = { x: around.x - (around.x - this.box.x) * scale, y: around.y - (around.y - this.box.y) * scale, width, height: this.box.height * scale };
    this.#draw();
  }

  /** Move so that a point is inside. @param {{ x: number, y: number }} point */
  reveal(point) {
    const { x, y, width, height } = this.box;
    if (point.x < x || point.x > x + width) this.box.x = point.x - width / 2;
    if (point.y < y || point.y > y + height) this.box.y = point.y - height / 2;
    this.#draw();
  }

  /** Drawing units per pixel. */
  get scale() {
    const shown = this.canvas.getBoundingClientRect();
    return Math.max(this.box.width / (shown.width || 1), this.box.height / (shown.height || 1));
  }

  /** The positions of points in pixels of the frame, and the frame's size. @param {{ x: number, y: number }[]} points */
  inFrame(points) {
    const { width, height } = this.canvas.getBoundingClientRect();
    const { scale } = this;
    const [left, top] = [this.box.x + this.box.width / 2, this.box.y + this.box.height / 2];
    return { width, height, points: points.map(({ x, y }) => ({ x: width / 2 + (x - left) / scale, y: height / 2 + (y - top) / scale })) };
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    const before = this.#pointers.get(event.pointerId);
    if (!before) return;
    const now = { x: event.clientX, y: event.clientY };
    this.#travelled += Math.hypot(now.x - before.x, now.y - before.y);
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const middle = { clientX: (now.x + other.x) / 2, clientY: (now.y + other.y) / 2 };
      this.zoom(Math.hypot(before.x - other.x, before.y - other.y) / Math.max(1, Math.hypot(now.x - other.x, now.y - other.y)), this.#at(middle));
    } else {
      const { scale } = this;
      this.box.x -= (now.x - before.x) * scale;
      this.box.y -= (now.y - before.y) * scale;
      this.#draw();
    }
    this.#pointers.set(event.pointerId, now);
  }

  /** @param {{ clientX: number, clientY: number }} event */
  #at(event) {
    const shown = this.canvas.getBoundingClientRect();
    const { scale } = this;
    return {
      x: this.box.x + this.box.width / 2 + (event.clientX - shown.left - shown.width / 2) * scale,
      y: this.box.y + this.box.height / 2 + (event.clientY - shown.top - shown.height / 2) * scale,
    };
  }

  #draw() {
    const { x, y, width, height } = this.box;
    this.canvas.setAttribute("viewBox", [x, y, width, height].map((value) => value.toFixed(1)).join(" "));
    // Labels keep their size on the screen at every zoom; nodes shrink a little to make room.
    this.canvas.style.setProperty("--unit", this.scale.toFixed(4));
    this.canvas.style.setProperty("--node", Math.min(1, 1 / this.scale ** 0.7).toFixed(4));
    this.changed();
  }
}
