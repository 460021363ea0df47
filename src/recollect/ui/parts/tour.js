// The welcome dialog of the first visit, and the list of keyboard shortcuts.

import { h } from "../h.js";
import { icon } from "../icons.js";
import { readStored, writeStored } from "../state.js";
import { dialog } from "./dialogs.js";

const STEPS = /** @type {[import("../icons.js").IconName, string, string][]} */ ([
  ["chat", "Say something to remember", "“Remember that the Lisbon office opens on 12 September.” Or press Remember this under any message."],
  ["memories", "See what it knows", "Press Memories at the top right of a chat to see all of them. You can edit, pin or forget each one."],
  ["history", "See why it was used", "Each answer lists the memories it used, with their scores and sources."],
]);

const KEYS = [
  ["/", "Search"],
  ["↑ ↓", "Move through a list"],
  ["Enter", "Open the item; send the message"],
  ["e", "Edit the memory"],
  ["p", "Pin or unpin the memory"],
  ["Delete", "Forget the memory"],
  ["m", "Show or hide memories in a chat"],
  ["n", "Start a new chat"],
  ["Esc", "Close what is open; stop the answer"],
  ["?", "Show this list"],
];

/** Show the welcome dialog, once. */
export function greet() {
  if (readStored("toured")) return;
  dialog("Welcome to Recollect", (close) => [
    h("p", { class: "soft" }, "A chat whose memory you can see and edit. Three things to know:"),
    h("ol", { class: "tour" }, STEPS.map(([sign, title, text]) => h("li", {}, icon(sign), h("div", {}, h("h3", {}, title), h("p", {}, text))))),
    h("div", { class: "row end" }, h("button", { type: "button", class: "button primary", autofocus: true, click: close }, "Start")),
  ], { closed: () => writeStored("toured", "yes") });
}

export function showKeys() {
  const isOff = readStored("keys") === "off";
  dialog("Keyboard shortcuts", () => [
    h("dl", { class: "keys" }, KEYS.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
    h("label", { class: "check" },
      h("input", { type: "checkbox", checked: !isOff, change: (/** @type {Event} */ event) => writeStored("keys", /** @type {HTMLInputElement} */ (event.target).checked ? null : "off") }),
      "Use single letters as shortcuts"),
  ]);
}
