// One memory in a list: what it says, what kind it is, where it came from and when; and what can be done.

import { h } from "../h.js";
import { icon } from "../icons.js";
import { isTyping } from "../keys.js";
import { correct, forget, pin } from "../memories.js";
import { note, noted } from "../state.js";
import { openMemory } from "./memory-detail.js";
import { complaint } from "./problem.js";
import { toast } from "./toasts.js";
import { moment } from "./time.js";

/** @typedef {import("../types").Memory} Memory */

/**
 * @param {Memory} memory
 * @param {{ isPast?: boolean }} [options] what it said once is to be read, not changed
 */
export function memoryRow(memory, { isPast = false } = {}) {
  const text = h("p", { class: "memory-text" }, memory.content);
  const edit = () => editInPlace(memory.id, memory.content, text, () => row.focus());
  const row = h("article", { class: memory.pinned ? "memory is-pinned" : "memory", keydown: act },
    text,
    h("p", { class: "meta" },
      memory.pinned && h("span", { class: "pinned", title: "Pinned: always told" }, icon("pinned"), h("span", { class: "visually-hidden" }, "Pinned")),
      memory.category && h("span", { class: "chip", title: "Category" }, memory.category),
      h("span", { class: "source", title: "Source" }, memory.source_type.replaceAll("_", " ")),
      moment(memory.learned_at ?? memory.created_at),
      memory.tags?.length ? h("span", { class: "tags" }, memory.tags.slice(0, 4).map((tag) => h("span", { class: "tag" }, tag))) : null,
      memory.why && h("span", { class: "score" }, foundBy(memory.why))),
    h("div", { class: "actions" },
      !isPast && tool("edit", "Edit", edit),
      !isPast && tool(memory.pinned ? "pinned" : "pin", memory.pinned ? "Unpin" : "Pin", togglePin),
      tool("history", "History", open),
      !isPast && tool("trash", "Delete", remove)));

  function open() {
    openMemory(memory.id);
  }
  function togglePin() {
    pin(memory.id, !memory.pinned).catch(say);
  }
  function remove() {
    forget(memory.id, memory.content).catch(say);
  }
  /** @param {KeyboardEvent} event */
  function act(event) {
    if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const verbs = /** @type {Record<string, () => void>} */ (isPast ? {} : noted("keys") === "off" ? { Delete: remove } : { e: edit, p: togglePin, Delete: remove });
    const verb = event.key === "Enter" && event.target === row ? open : verbs[event.key];
    if (!verb) return;
    event.preventDefault();
    verb();
  }
  return row;
}

/**
 * How a search came upon a memory. The sum by which it ranks says nothing to anybody.
 * @param {Record<string, unknown>} why
 */
function foundBy(why) {
  const [meaning, words] = ["vector" in why, "words" in why];
  return meaning && words ? "by meaning and words" : meaning ? "by meaning" : words ? "by its words" : "by a tie";
}

/** @param {Error} error */
function say(error) {
  toast(error.message);
}

/**
 * @param {import("../icons.js").IconName} sign
 * @param {string} label
 * @param {() => void} act
 */
export function tool(sign, label, act) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, click: act }, icon(sign));
}

/**
 * Turn a text into a field. What was typed survives a reload and a refusal.
 * @param {string} id
 * @param {string} content
 * @param {HTMLElement} text
 * @param {() => void} done
 * @param {(changed: Memory) => void} [saved]
 */
export function editInPlace(id, content, text, done, saved) {
  const field = h("textarea", { class: "memory-field", "aria-label": "Text of the memory", rows: "3", input: () => note(`edit.${id}`, field.value) });
  field.value = noted(`edit.${id}`) ?? content;
  const wrong = h("div", {});
  const leave = () => {
    note(`edit.${id}`, null);
    form.replaceWith(text);
    done();
  };
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const told = field.value.trim();
    if (!told) return wrong.replaceChildren(complaint(new Error("A memory says something. Delete it if it should go.")));
    if (told === content) return leave();
    button.disabled = true;
    try {
      const changed = await correct(id, told);
      note(`edit.${id}`, null);
      text.textContent = changed.content;
      form.replaceWith(text);
      saved?.(changed);
      done();
    } catch (error) {
      wrong.replaceChildren(complaint(/** @type {Error} */ (error)));
      button.disabled = false;
    }
  };
  const button = h("button", { type: "submit", class: "button primary small" }, "Save");
  const keydown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") (event.stopPropagation(), event.preventDefault(), leave());
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(event);
  };
  const form = h("form", { class: "memory-edit", submit: save, keydown }, field, wrong,
    h("div", { class: "row end" }, h("button", { type: "button", class: "button small", click: leave }, "Cancel"), button));
  text.replaceWith(form);
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
}
