// The memories that were used for an answer, why they were used, and actions on them.

import { plural, score } from "../format.js";
import { h } from "../h.js";
import { forget, pin } from "../memories.js";
import { openMemory } from "./memory-detail.js";
import { editInPlace, iconButton } from "./memory-row.js";
import { toast } from "./toasts.js";

const REASONS = /** @type {Record<string, string>} */ ({ vector: "by meaning", meaning: "by meaning", words: "by keywords", both: "by meaning and keywords", links: "by links", pinned: "pinned: always used" });

/** @param {import("../types").Injected[]} items */
export function injected(items) {
  if (!items.length) return null;
  return h("details", { class: "injected" },
    h("summary", {}, `${plural(items.length, "memory", "memories")} used`),
    h("ul", {}, items.map(item)));
}

/** @param {import("../types").Injected} used */
function item(used) {
  const text = h("p", {}, used.content);
  const row = h("li", { class: "used-memory", tabindex: "-1" },
    text,
    h("p", { class: "meta" },
      used.category && h("span", { class: "chip" }, used.category),
      typeof used.score === "number" && meter(used.score),
      h("span", { class: "why" }, explain(used.why))),
    h("div", { class: "actions" },
      iconButton("edit", "Edit", () => editInPlace(used.memory_id, used.content, text, () => row.focus(), (changed) => (used.content = changed.content))),
      iconButton("pin", "Pin", () => pin(used.memory_id, true).then(() => toast("Pinned: it is always used."), showError)),
      iconButton("history", "History", () => openMemory(used.memory_id)),
      iconButton("trash", "Forget", () => forget(used.memory_id, used.content).then(() => row.classList.add("is-gone"), showError))));
  return row;
}

/** @param {number} value */
function meter(value) {
  return h("span", { class: "score" }, h("meter", { min: "0", max: "1", value: String(Math.max(0, Math.min(1, value))), "aria-label": "Score" }), score(value));
}

/**
 * The reasons of the ranker in one line.
 * @param {Record<string, unknown> | null | undefined} why
 */
export function explain(why) {
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
  if (name === "by" || name === "found by") return REASONS[String(value)] ?? `by ${value}`;
  if (value === true) return name;
  if (isRanked(value)) return `${REASONS[name] ?? name} ${score(value.score)}`;
  if (typeof value === "number") return `${name} ${Number.isInteger(value) ? value : score(value)}`;
  if (Array.isArray(value)) return `${name}: ${value.join(", ")}`;
  return name === "reason" || name === "text" ? String(value) : `${name}: ${value}`;
}

/**
 * Whether a value is a position in one of the ranker's lists.
 * @param {unknown} value
 * @returns {value is { score: number }}
 */
function isRanked(value) {
  return typeof value === "object" && value !== null && "score" in value;
}

/** @param {Error} error */
function showError(error) {
  toast(error.message);
}
