// The message field. A draft survives a reload.

import { h } from "../h.js";
import { icon } from "../icons.js";
import { readStored, state, writeStored } from "../state.js";

const KINDS = [
  ["chat", "Chat", "A normal answer"],
  ["deep_think", "Deep think", "Thinks longer and saves its findings as memories"],
  ["research", "Research", "Searches everything stored here and saves its findings as memories"],
  ["compaction", "Compaction", "Summarises this chat and saves the summary"],
];

/**
 * @param {string} chat
 * @param {(ask: { content: string, kind: string, model: string, temporary: boolean }) => void} send
 * @param {() => void} stop
 */
export function composer(chat, send, stop) {
  let draft = `draft.${chat || "new." + state.workspace}`;
  const field = h("textarea", { id: "composer", rows: "1", placeholder: "Write a message", "aria-label": "Message", input: changed, keydown: keys, enterkeyhint: "send" });
  const kind = h("select", { "aria-label": "Kind of turn", class: "quiet-select", change: draw }, KINDS.map(([value, label, title]) => h("option", { value, title }, label)));
  const model = h("select", { "aria-label": "Model", class: "quiet-select model", change: () => writeStored("model", model.value) },
    state.me.models.map(({ id }) => h("option", { value: id, selected: id === chosenModel() }, id)));
  const temporary = h("button", { type: "button", class: "small-button", "aria-pressed": "false", "aria-label": "Temporary", title: "This turn is not saved, and no memories are used for it", click: () => temporary.setAttribute("aria-pressed", String(temporary.getAttribute("aria-pressed") !== "true")) },
    icon("temporary"), h("span", {}, "Temporary"));
  const button = h("button", { type: "submit", class: "icon-button send", "aria-label": "Send", title: "Send (Enter)" }, icon("send"));
  const stopButton = h("button", { type: "button", class: "icon-button send", "aria-label": "Stop", title: "Stop the answer (Esc)", hidden: true, click: stop }, icon("stop"));
  const node = h("form", { class: "composer", submit: submit }, field,
    h("div", { class: "composer-row" }, kind, state.me.models.length > 1 && model, temporary, h("span", { class: "grow" }), stopButton, button));

  field.value = readStored(draft) ?? "";
  let isBusy = false;
  draw();
  queueMicrotask(grow);

  function changed() {
    writeStored(draft, field.value || null);
    grow();
    draw();
  }
  function grow() {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, 240)}px`;
  }
  function draw() {
    button.hidden = isBusy;
    button.disabled = !isReady();
    const hadFocus = !stopButton.hidden && stopButton.contains(document.activeElement);
    stopButton.hidden = !isBusy;
    if (hadFocus && stopButton.hidden) field.focus();
  }
  /** A compaction needs no message: it summarises the chat. */
  function isReady() {
    return field.value.trim() !== "" || (kind.value === "compaction" && chat !== "");
  }
  /** @param {KeyboardEvent} event */
  function keys(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  }
  /** @param {Event} [event] */
  function submit(event) {
    event?.preventDefault();
    const content = field.value.trim();
    if (!isReady() || isBusy) return;
    send({ content, kind: kind.value, model: state.me.models.length > 1 ? model.value : "", temporary: temporary.getAttribute("aria-pressed") === "true" });
  }
  return {
    node,
    field,
    /** The server has the message: remove the draft. */
    clear() {
      writeStored(draft, null);
      field.value = "";
      kind.value = "chat";
      changed();
    },
    /** @param {string} id a new chat got its id */
    setChat(id) {
      chat = id;
      writeStored(draft, null);
      draft = `draft.${id}`;
      writeStored(draft, field.value || null);
    },
    /** @param {string} text */
    fill(text) {
      field.value = text;
      changed();
      field.focus();
    },
    /** @param {boolean} value */
    set busy(value) {
      isBusy = value;
      draw();
    },
  };
}

function chosenModel() {
  const stored = readStored("model");
  return state.me.models.some(({ id }) => id === stored) ? stored : state.me.default_model;
}
