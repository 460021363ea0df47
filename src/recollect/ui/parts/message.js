// One message: its text, the Remember this button, and the memories used for an answer.

import { call } from "../api.js";
import { copy } from "../clipboard.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { fromServer } from "../markup.js";
import { emit } from "../state.js";
import { injected } from "./injected.js";
import { openMemory } from "./memory-detail.js";
import { errorLine } from "./problem.js";
import { timeElement } from "./time.js";

/** @typedef {import("../types").Message} Message */

const MEMORY_ID = /\b(mem_[A-Za-z0-9]{20,})\b/;
const HIGHLIGHT_MS = 1600;
const KINDS = /** @type {Record<string, string>} */ ({ deep_think: "Deep think", research: "Research", compaction: "Compaction" });

/**
 * @param {Message} message
 * @param {string} chat
 */
export function messageView(message, chat) {
  const body = h("div", { class: "message-body" });
  fill(body, message);
  return h("article", { class: `message from-${message.role}`, "data-id": message.id, "aria-label": message.role === "user" ? "You" : "Answer" },
    h("header", { class: "message-head" },
      h("span", { class: "author" }, message.role === "user" ? "You" : "Recollect"),
      message.kind && KINDS[message.kind] && h("span", { class: "chip" }, KINDS[message.kind]),
      timeElement(message.created_at)),
    body,
    message.is_complete === false && h("p", { class: "soft small" }, message.is_stopped ? "You stopped this answer." : "This answer was interrupted."),
    injected(message.injected ?? []),
    actions(message, chat));
}

/**
 * @param {HTMLElement} body
 * @param {Message} message
 */
function fill(body, message) {
  if (message.html) {
    body.classList.add("prose");
    body.replaceChildren(fromServer(message.html));
    linkMemories(body);
  } else {
    body.classList.add("plain");
    body.textContent = message.content;
  }
}

/**
 * Replace memory ids in an answer with buttons that open the memory.
 * @param {HTMLElement} body
 */
function linkMemories(body) {
  const texts = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
  const found = /** @type {Text[]} */ ([]);
  while (texts.nextNode()) found.push(/** @type {Text} */ (texts.currentNode));
  for (const text of found) {
    const pieces = text.data.split(MEMORY_ID);
    if (pieces.length > 1) text.replaceWith(...pieces.map((piece, index) => (index % 2 ? memoryButton(piece) : piece)));
  }
}

/** @param {string} id */
function memoryButton(id) {
  return h("button", { type: "button", class: "chip opener", title: id, click: () => openMemory(id) }, "memory");
}

/**
 * @param {Message} message
 * @param {string} chat
 */
function actions(message, chat) {
  const wrong = h("span", {});
  const remember = h("button", { type: "button", class: "small-button remember", "aria-pressed": String(Boolean(message.memory_id)), click: save }, icon("memories"), h("span", {}, "Remember this"));
  const copyLabel = h("span", {}, "Copy");
  const copyButton = h("button", { type: "button", class: "small-button", click: copyText }, icon("copy"), copyLabel);

  async function save() {
    wrong.replaceChildren();
    remember.disabled = true;
    try {
      const added = await call(`/chat/api/${encodeURIComponent(chat)}/memory`, { method: "POST", body: message.id ? { messageId: message.id } : { content: message.content } });
      remember.setAttribute("aria-pressed", "true");
      remember.classList.add("is-remembered");
      setTimeout(() => remember.classList.remove("is-remembered"), HIGHLIGHT_MS);
      emit("memories", { added });
    } catch (error) {
      wrong.replaceChildren(errorLine(/** @type {Error} */ (error)));
    } finally {
      remember.disabled = false;
    }
  }
  async function copyText() {
    if (!(await copy(message.content))) return wrong.replaceChildren(errorLine(new Error("The browser does not allow copying here. Select the text and copy it.")));
    copyLabel.textContent = "Copied";
    copyButton.classList.add("is-remembered");
    setTimeout(() => ((copyLabel.textContent = "Copy"), copyButton.classList.remove("is-remembered")), HIGHLIGHT_MS);
  }
  return h("footer", { class: "message-actions" }, remember, copyButton, wrong);
}
