// Short messages at the edge of the page, with an optional action.

import { h } from "../h.js";

const SHOWN_MS = 8000;

/**
 * @param {string} text
 * @param {{ label: string, act: () => void }} [action]
 */
export function toast(text, action) {
  const container = /** @type {HTMLElement} */ (document.getElementById("toasts"));
  const note = h("div", { class: "toast" }, h("span", {}, text));
  const close = () => note.remove();
  if (action) {
    note.append(h("button", { type: "button", class: "link", click: () => (close(), action.act()) }, action.label));
  }
  let timer = setTimeout(close, SHOWN_MS);
  // Do not close while the pointer or the focus is on it.
  note.addEventListener("pointerenter", () => clearTimeout(timer));
  note.addEventListener("focusin", () => clearTimeout(timer));
  note.addEventListener("pointerleave", () => (timer = setTimeout(close, SHOWN_MS)));
  while (container.children.length > 2) container.firstElementChild?.remove();
  container.append(note);
  return close;
}
