// A list of any length that renders only the rows near the screen.
//
// Each page of rows is a block. A block far from the screen keeps its height but drops its rows, and
// creates them again when it comes near.

import { h } from "../h.js";
import { isTyping } from "../keys.js";
import { waiting } from "./empty.js";
import { problem } from "./problem.js";

const NEAR = "900px 0px";

/** @template T @typedef {{ node: HTMLElement, items: T[], isLive: boolean }} Block */
/**
 * @template T
 * @typedef {{
 *   load: (cursor: string | null, signal: AbortSignal) => Promise<import("../types").Page<T>>,
 *   row: (item: T) => HTMLElement,
 *   none: () => Node,
 *   label: string,
 *   scroller: HTMLElement | null,
 *   signal: AbortSignal,
 *   loaded?: () => void,
 * }} Options
 */

/** @template {{ id: string }} T */
export class LongList {
  /** @type {Block<T>[]} */
  #blocks = [];
  /** @type {string | null} */
  #cursor = null;
  #isLoading = false;
  #isDone = false;
  #run = 0;
  /** @type {AbortController | null} */
  #loading = null;

  /**
   * @param {Options<T>} options
   */
  constructor(options) {
    this.options = options;
    this.rows = h("div", { class: "rows", role: "list", "aria-label": options.label });
    this.tail = h("div", { class: "rows-tail" });
    this.node = h("div", { class: "long-list" }, this.rows, this.tail);
    this.#near = new IntersectionObserver((seen) => seen.forEach((each) => this.#onIntersection(each)), { root: options.scroller, rootMargin: NEAR });
    this.#near.observe(this.tail);
    this.rows.addEventListener("keydown", (event) => this.#move(event));
    options.signal.addEventListener("abort", () => (this.#near.disconnect(), this.#loading?.abort()));
  }

  /** @type {IntersectionObserver} */
  #near;

  /** Start again from the first page. The old rows stay until the new page has loaded. */
  async reset() {
    const run = ++this.#run;
    this.#loading?.abort();
    this.#cursor = null;
    this.#isDone = false;
    this.#isLoading = false;
    await this.#more(run, true);
  }

  /** @param {(item: T) => boolean} test */
  find(test) {
    for (const block of this.#blocks) for (const item of block.items) if (test(item)) return item;
    return undefined;
  }

  get size() {
    return this.#blocks.reduce((sum, block) => sum + block.items.length, 0);
  }

  /** @param {T} item */
  add(item) {
    if (this.find((each) => each.id === item.id)) return this.change(item);
    if (!this.#blocks.length) this.#append([]);
    this.tail.replaceChildren();
    const [first] = this.#blocks;
    first.items.unshift(item);
    if (first.isLive) first.node.prepend(this.#row(item));
  }

  /** @param {T} item */
  change(item) {
    for (const block of this.#blocks) {
      const index = block.items.findIndex((each) => each.id === item.id);
      if (index < 0) continue;
      block.items[index] = { ...block.items[index], ...item };
      if (!block.isLive) continue;
      const [old, fresh] = [block.node.children[index], this.#row(block.items[index])];
      const hadFocus = old.contains(document.activeElement);
      fresh.setAttribute("tabindex", old.getAttribute("tabindex") ?? "-1");
      old.replaceWith(fresh);
      if (hadFocus) fresh.focus();
    }
  }

  /** @param {string} id */
  remove(id) {
    for (const block of this.#blocks) {
      const index = block.items.findIndex((each) => each.id === id);
      if (index < 0) continue;
      block.items.splice(index, 1);
      if (block.isLive) {
        const row = /** @type {HTMLElement} */ (block.node.children[index]);
        if (row.contains(document.activeElement)) (this.#neighbour(row, 1) ?? this.#neighbour(row, -1))?.focus();
        row.remove();
      }
    }
    if (!this.size && this.#isDone) this.tail.replaceChildren(this.options.none());
  }

  /**
   * @param {number} run
   * @param {boolean} isFirst
   */
  async #more(run, isFirst = false) {
    if (this.#isLoading || this.#isDone) return;
    this.#isLoading = true;
    const loading = (this.#loading = new AbortController());
    if (!isFirst || !this.#blocks.length) this.tail.replaceChildren(waiting());
    try {
      const found = await this.options.load(this.#cursor, AbortSignal.any([loading.signal, this.options.signal]));
      if (run !== this.#run) return;
      const focusedId = isFirst ? this.#focusedId() : null;
      if (isFirst) this.#clear();
      this.#cursor = found.next_cursor;
      this.#isDone = !found.has_more || !found.next_cursor;
      if (found.items.length) this.#append(found.items);
      if (focusedId !== null) (this.#rowOf(focusedId) ?? this.#first())?.focus();
      this.tail.replaceChildren(...(this.#isDone && !this.size ? [this.options.none()] : []));
      this.options.loaded?.();
    } catch (error) {
      if (run !== this.#run || loading.signal.aborted || this.options.signal.aborted) return;
      if (isFirst) this.#clear();
      this.tail.replaceChildren(problem(/** @type {Error} */ (error), () => this.#more(run, isFirst)));
    } finally {
      if (run === this.#run) {
        this.#isLoading = false;
        // The observer reports only changes, but after a short page the end may still be visible.
        this.#near.unobserve(this.tail);
        if (!this.#isDone && !this.tail.querySelector(".problem")) this.#near.observe(this.tail);
      }
    }
  }

  #clear() {
    for (const block of this.#blocks) this.#near.unobserve(block.node);
    this.#blocks = [];
    this.rows.replaceChildren();
  }

  /** @param {T[]} items */
  #append(items) {
    const node = h("div", { class: "block", role: "presentation" }, items.map((item) => this.#row(item)));
    this.#blocks.push({ node, items, isLive: true });
    this.rows.append(node);
    if (this.#blocks.length === 1) this.#first()?.setAttribute("tabindex", "0");
    this.#near.observe(node);
  }

  /** @param {T} item */
  #row(item) {
    const row = this.options.row(item);
    row.setAttribute("role", "listitem");
    row.setAttribute("tabindex", "-1");
    row.dataset.id = item.id;
    return row;
  }

  /** The id of the focused row, if any. @returns {string | null} */
  #focusedId() {
    const here = this.rows.contains(document.activeElement) ? document.activeElement?.closest("[role=listitem]") : null;
    return here instanceof HTMLElement ? (here.dataset.id ?? "") : null;
  }

  /** @param {string} id */
  #rowOf(id) {
    return /** @type {HTMLElement | null} */ (this.rows.querySelector(`[data-id="${CSS.escape(id)}"]`));
  }

  #first() {
    return /** @type {HTMLElement | null} */ (this.rows.querySelector("[role=listitem]"));
  }

  /** @param {IntersectionObserverEntry} seen */
  #onIntersection(seen) {
    if (seen.target === this.tail) {
      if (seen.isIntersecting) this.#more(this.#run);
      return;
    }
    const block = this.#blocks.find((each) => each.node === seen.target);
    if (!block || block.isLive === seen.isIntersecting) return;
    if (seen.isIntersecting) {
      block.node.replaceChildren(...block.items.map((item) => this.#row(item)));
      block.node.style.height = "";
    } else {
      // Keep a block that has the focus or in which the user types.
      if (block.node.querySelector("textarea") || block.node.contains(document.activeElement)) return;
      block.node.style.height = `${block.node.offsetHeight}px`;
      block.node.replaceChildren();
    }
    block.isLive = seen.isIntersecting;
  }

  /** @param {KeyboardEvent} event */
  #move(event) {
    const row = /** @type {HTMLElement} */ (event.target).closest?.("[role=listitem]");
    if (!(row instanceof HTMLElement) || isTyping(event.target)) return;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const next = step ? this.#neighbour(row, step) : event.key === "Home" ? this.#first() : null;
    if (!next) return;
    event.preventDefault();
    for (const each of this.rows.querySelectorAll("[tabindex='0'][role=listitem]")) each.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  /**
   * @param {HTMLElement} row
   * @param {number} step
   * @returns {HTMLElement | null}
   */
  #neighbour(row, step) {
    const all = [.../** @type {NodeListOf<HTMLElement>} */ (this.rows.querySelectorAll("[role=listitem]"))];
    return all[all.indexOf(row) + step] ?? null;
  }
}
