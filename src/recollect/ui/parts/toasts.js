// A word at the edge of the page, and a way back.

import { h } from "../h.js";

const SHOWN_MS = 8000;

/**
 * @param {string} text
 * @param {{ label: string, act: () => void }} [action]
 */
export function toast(text, action) {
  const board = /** @type {HTMLElement} */ (document.getElementById("toasts"));
  const note = h("div", { class: "toast" }, h("span", {}, text));
  const close = () => note.remove();
  if (action) {
    note.append(h("button", { type: "button", class: "link", click: () => (close(), action.act()) }, action.label));
  }
  let timer = setTimeout(close, SHOWN_MS);
  // Nobody shall lose the way back while reaching for it.
  note.addEventListener("pointerenter", () => clearTimeout(timer));
  note.addEventListener("focusin", () => clearTimeout(timer));
  note.addEventListener("pointerleave", () => (timer = setTimeout(close, SHOWN_MS)));
  while (board.children.length > 2) board.firstElementChild?.remove();
  board.append(note);
  return close;
}
