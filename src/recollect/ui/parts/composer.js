// Where one writes. Typing never waits, and what was typed survives a reload.

import { h } from "../h.js";
import { icon } from "../icons.js";
import { note, noted, state } from "../state.js";

const KINDS = [
  ["chat", "Chat", "An ordinary answer"],
  ["deep_think", "Deep think", "Thinks longer; what it finds is distilled into memories"],
  ["research", "Research", "Looks through everything kept here; findings become memories"],
  ["compaction", "Compaction", "Sums up this chat and keeps the sum"],
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
  const model = h("select", { "aria-label": "Model", class: "quiet-select model", change: () => note("model", model.value) },
    state.me.models.map(({ id }) => h("option", { value: id, selected: id === chosenModel() }, id)));
  const temporary = h("button", { type: "button", class: "small-button", "aria-pressed": "false", "aria-label": "Temporary", title: "Nothing of this turn is remembered, and nothing is recalled for it", click: () => temporary.setAttribute("aria-pressed", String(temporary.getAttribute("aria-pressed") !== "true")) },
    icon("temporary"), h("span", {}, "Temporary"));
  const button = h("button", { type: "submit", class: "icon-button send", "aria-label": "Send", title: "Send (Enter)" }, icon("send"));
  const halt = h("button", { type: "button", class: "icon-button send", "aria-label": "Stop", title: "Stop the answer (Esc)", hidden: true, click: stop }, icon("stop"));
  const node = h("form", { class: "composer", submit: submit }, field,
    h("div", { class: "composer-row" }, kind, state.me.models.length > 1 && model, temporary, h("span", { class: "grow" }), halt, button));

  field.value = noted(draft) ?? "";
  let isBusy = false;
  draw();
  queueMicrotask(grow);

  function changed() {
    note(draft, field.value || null);
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
    const wasThere = !halt.hidden && halt.contains(document.activeElement);
    halt.hidden = !isBusy;
    if (wasThere && halt.hidden) field.focus();
  }
  /** A compaction needs no words: what it sums up was said. */
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
    /** The text is with the server now. */
    sent() {
      note(draft, null);
      field.value = "";
      kind.value = "chat";
      changed();
    },
    /** @param {string} id a new chat got its id */
    moved(id) {
      chat = id;
      note(draft, null);
      draft = `draft.${id}`;
      note(draft, field.value || null);
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
  const kept = noted("model");
  return state.me.models.some(({ id }) => id === kept) ? kept : state.me.default_model;
}
