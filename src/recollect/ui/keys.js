// Keyboard shortcuts that work on every page. Letters do nothing while the user types.

import { go } from "./router.js";
import { showKeys } from "./parts/tour.js";
import { readStored } from "./state.js";

/** @param {EventTarget | null} target */
export function isTyping(target) {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;
}

export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]") || readStored("keys") === "off") return;
    if (event.key === "/") {
      event.preventDefault();
      search();
    } else if (event.key === "?") {
      event.preventDefault();
      showKeys();
    } else if (event.key === "n") {
      event.preventDefault();
      go("#/");
    } else if (event.key === "m") {
      document.getElementById("memories-toggle")?.click();
    }
  });
}

function search() {
  const field = [...document.querySelectorAll("[data-search]")].find((each) => /** @type {HTMLElement} */ (each).checkVisibility());
  if (field instanceof HTMLInputElement) {
    field.focus();
    field.select();
  } else {
    go("#/search");
  }
}
