// The one screen for whoever is here for the first time, and the list of keys.

import { h } from "../h.js";
import { icon } from "../icons.js";
import { note, noted } from "../state.js";
import { dialog } from "./dialogs.js";

const STEPS = /** @type {[import("../icons.js").IconName, string, string][]} */ ([
  ["chat", "Say something worth keeping", "“Remember that the Lisbon office opens on 12 September.” Or press Remember this under any message."],
  ["memories", "See what it knows", "Memories, at the top right of a chat, lists all of it: correct a line, pin it, or forget it."],
  ["history", "See why it was said", "Under each answer stands which memories were used, with their scores and where they came from."],
]);

const KEYS = [
  ["/", "Search"],
  ["↑ ↓", "Move in a list"],
  ["Enter", "Open; in a message: send"],
  ["e", "Edit the memory"],
  ["p", "Pin it"],
  ["Delete", "Forget it"],
  ["m", "Show or hide memories in a chat"],
  ["n", "New chat"],
  ["Esc", "Leave what is open; stop an answer"],
  ["?", "This list"],
];

/** Once, on the first visit. */
export function greet() {
  if (noted("toured")) return;
  dialog("Welcome to Recollect", (close) => [
    h("p", { class: "soft" }, "A chat with a memory you can see. Three things are all there is to know:"),
    h("ol", { class: "tour" }, STEPS.map(([sign, title, text]) => h("li", {}, icon(sign), h("div", {}, h("h3", {}, title), h("p", {}, text))))),
    h("div", { class: "row end" }, h("button", { type: "button", class: "button primary", autofocus: true, click: close }, "Begin")),
  ], { closed: () => note("toured", "yes") });
}

export function showKeys() {
  const isOff = noted("keys") === "off";
  dialog("Keys", () => [
    h("dl", { class: "keys" }, KEYS.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
    h("label", { class: "check" },
      h("input", { type: "checkbox", checked: !isOff, change: (/** @type {Event} */ event) => note("keys", /** @type {HTMLInputElement} */ (event.target).checked ? null : "off") }),
      "Single letters act as keys"),
  ]);
}
