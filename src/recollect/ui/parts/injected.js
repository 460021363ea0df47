// What an answer was told from memory, and why; and what can be done about it.

import { plural, score } from "../format.js";
import { h } from "../h.js";
import { forget, pin } from "../memories.js";
import { openMemory } from "./memory-detail.js";
import { editInPlace, tool } from "./memory-row.js";
import { toast } from "./toasts.js";

const WORDS = /** @type {Record<string, string>} */ ({ vector: "by meaning", meaning: "by meaning", words: "by its words", both: "by meaning and words", links: "by its ties", pinned: "pinned: always told" });

/** @param {import("../types").Injected[]} items */
export function injected(items) {
  if (!items.length) return null;
  return h("details", { class: "injected" },
    h("summary", {}, `${plural(items.length, "memory", "memories")} used`),
    h("ul", {}, items.map(item)));
}

/** @param {import("../types").Injected} told */
function item(told) {
  const text = h("p", {}, told.content);
  const row = h("li", { class: "told", tabindex: "-1" },
    text,
    h("p", { class: "meta" },
      told.category && h("span", { class: "chip" }, told.category),
      typeof told.score === "number" && meter(told.score),
      h("span", { class: "why" }, because(told.why))),
    h("div", { class: "actions" },
      tool("edit", "Correct", () => editInPlace(told.memory_id, told.content, text, () => row.focus(), (changed) => (told.content = changed.content))),
      tool("pin", "Pin", () => pin(told.memory_id, true).then(() => toast("Pinned: it is always told."), say)),
      tool("history", "History", () => openMemory(told.memory_id)),
      tool("trash", "Forget", () => forget(told.memory_id, told.content).then(() => row.classList.add("is-gone"), say))));
  return row;
}

/** @param {number} value */
function meter(value) {
  return h("span", { class: "score" }, h("meter", { min: "0", max: "1", value: String(Math.max(0, Math.min(1, value))), "aria-label": "Score" }), score(value));
}

/**
 * The reasons in a line, whatever the ranker had to say.
 * @param {Record<string, unknown> | null | undefined} why
 */
export function because(why) {
  return Object.entries(why ?? {})
    .filter(([name, value]) => name !== "score" && value !== null && value !== false && value !== "")
    .map(([name, value]) => reason(name.replaceAll("_", " "), value))
    .join(" · ");
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function reason(name, value) {
  if (name === "by" || name === "found by") return WORDS[String(value)] ?? `by ${value}`;
  if (value === true) return name;
  if (isPlace(value)) return `${WORDS[name] ?? name} ${score(value.score)}`;
  if (typeof value === "number") return `${name} ${Number.isInteger(value) ? value : score(value)}`;
  if (Array.isArray(value)) return `${name}: ${value.join(", ")}`;
  return name === "reason" || name === "text" ? String(value) : `${name}: ${value}`;
}

/**
 * A place in one of the ranker's lists.
 * @param {unknown} value
 * @returns {value is { score: number }}
 */
function isPlace(value) {
  return typeof value === "object" && value !== null && "score" in value;
}

/** @param {Error} error */
function say(error) {
  toast(error.message);
}
