// One memory in a list: its text, category, source and date, and the actions on it.

import { h } from "../h.js";
import { icon } from "../icons.js";
import { isTyping } from "../keys.js";
import { forget, pin, updateContent } from "../memories.js";
import { readStored, writeStored } from "../state.js";
import { openMemory } from "./memory-detail.js";
import { errorLine } from "./problem.js";
import { toast } from "./toasts.js";
import { timeElement } from "./time.js";

/** @typedef {import("../types").Memory} Memory */

/**
 * @param {Memory} memory
 * @param {{ isPast?: boolean }} [options] a past version can be read but not changed
 */
export function memoryRow(memory, { isPast = false } = {}) {
  const text = h("p", { class: "memory-text" }, memory.content);
  const edit = () => editInPlace(memory.id, memory.content, text, () => row.focus());
  const row = h("article", { class: memory.pinned ? "memory is-pinned" : "memory", keydown: act },
    text,
    h("p", { class: "meta" },
      memory.pinned && h("span", { class: "pinned", title: "Pinned: always used" }, icon("pinned"), h("span", { class: "visually-hidden" }, "Pinned")),
      memory.category && h("span", { class: "chip", title: "Category" }, memory.category),
      h("span", { class: "source", title: "Source" }, memory.source_type.replaceAll("_", " ")),
      timeElement(memory.learned_at ?? memory.created_at),
      memory.tags?.length ? h("span", { class: "tags" }, memory.tags.slice(0, 4).map((tag) => h("span", { class: "tag" }, tag))) : null,
      memory.why && h("span", { class: "score" }, foundBy(memory.why))),
    h("div", { class: "actions" },
      !isPast && iconButton("edit", "Edit", edit),
      !isPast && iconButton(memory.pinned ? "pinned" : "pin", memory.pinned ? "Unpin" : "Pin", togglePin),
      iconButton("history", "History", open),
      !isPast && iconButton("trash", "Forget", remove)));

  function open() {
    openMemory(memory.id);
  }
  function togglePin() {
    pin(memory.id, !memory.pinned).catch(showError);
  }
  function remove() {
    forget(memory.id, memory.content).catch(showError);
  }
  /** @param {KeyboardEvent} event */
  function act(event) {
    if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const verbs = /** @type {Record<string, () => void>} */ (isPast ? {} : readStored("keys") === "off" ? { Delete: remove } : { e: edit, p: togglePin, Delete: remove });
    const verb = event.key === "Enter" && event.target === row ? open : verbs[event.key];
    if (!verb) return;
    event.preventDefault();
    verb();
  }
  return row;
}

/**
 * How a search found a memory. The ranking score itself means nothing to users.
 * @param {Record<string, unknown>} why
 */
function foundBy(why) {
  const [meaning, words] = ["vector" in why, "words" in why];
  return meaning && words ? "by meaning and keywords" : meaning ? "by meaning" : words ? "by keywords" : "by a link";
}

/** @param {Error} error */
function showError(error) {
  toast(error.message);
}

/**
 * @param {import("../icons.js").IconName} sign
 * @param {string} label
 * @param {() => void} act
 */
export function iconButton(sign, label, act) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, click: act }, icon(sign));
}

/**
 * Replace a text with a field. The input survives a reload and a server error.
 * @param {string} id
 * @param {string} content
 * @param {HTMLElement} text
 * @param {() => void} done
 * @param {(changed: Memory) => void} [saved]
 */
export function editInPlace(id, content, text, done, saved) {
  const field = h("textarea", { class: "memory-field", "aria-label": "Text of the memory", rows: "3", input: () => writeStored(`edit.${id}`, field.value) });
  field.value = readStored(`edit.${id}`) ?? content;
  const wrong = h("div", {});
  const cancel = () => {
    writeStored(`edit.${id}`, null);
    form.replaceWith(text);
    done();
  };
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const edited = field.value.trim();
    if (!edited) return wrong.replaceChildren(errorLine(new Error("A memory cannot be empty. Choose Forget to remove it.")));
    if (edited === content) return cancel();
    button.disabled = true;
    try {
      const changed = await updateContent(id, edited);
      writeStored(`edit.${id}`, null);
      text.textContent = changed.content;
      form.replaceWith(text);
      saved?.(changed);
      done();
    } catch (error) {
      wrong.replaceChildren(errorLine(/** @type {Error} */ (error)));
      button.disabled = false;
    }
  };
  const button = h("button", { type: "submit", class: "button primary small" }, "Save");
  const keydown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") (event.stopPropagation(), event.preventDefault(), cancel());
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(event);
  };
  const form = h("form", { class: "memory-edit", submit: save, keydown }, field, wrong,
    h("div", { class: "row end" }, h("button", { type: "button", class: "button small", click: cancel }, "Cancel"), button));
  text.replaceWith(form);
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
}
