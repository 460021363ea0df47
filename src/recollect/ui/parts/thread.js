// The messages of a chat and the running turn.

import { call, send, Unreachable, watch } from "../api.js";
import { eventsOf } from "../events.js";
import { truncate } from "../format.js";
import { h } from "../h.js";
import { restoreOrForget } from "../memories.js";
import { emit, listen } from "../state.js";
import { waiting } from "./empty.js";
import { injected } from "./injected.js";
import { messageView } from "./message.js";
import { problem } from "./problem.js";
import { toast } from "./toasts.js";

/** @typedef {import("../types").Message} Message */
/** @typedef {{ content: string, kind: string, model: string, temporary: boolean }} Ask */

const PAGE = 40;
const TOOLS = /** @type {Record<string, string>} */ ({
  x_save_memory: "Saving a memory", x_recall_memory: "Searching memories", x_workspace_search: "Searching the workspace",
});
// How often to check whether a running answer has ended, and the pauses between checks after a lost connection.
const FOLLOW_MS = 700;
const RECOVER_MS = [0, 1000, 2000, 4000, 8000];

/**
 * @param {HTMLElement} scroller
 * @param {AbortSignal} signal
 */
export function thread(scroller, signal) {
  const messages = h("div", { class: "messages", role: "log", "aria-live": "polite", "aria-label": "Messages" });
  const older = h("div", { class: "older" });
  scroller.append(older, messages);
  let chat = "";
  let isRunning = false;
  let isStopping = false;
  /** @type {string | null} */
  let cursor = null;

  const isAtEnd = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
  const toEnd = () => (scroller.scrollTop = scroller.scrollHeight);

  /** @param {string} id */
  async function open(id) {
    chat = id;
    const found = await page(null);
    messages.replaceChildren(...found.map((message) => messageView(message, chat)));
    offerOlder();
    toEnd();
  }
  /** @param {string | null} from */
  async function page(from) {
    const found = await call(`/chat/api/chats/${encodeURIComponent(chat)}/messages`, { query: { cursor: from, limit: PAGE }, signal });
    cursor = found.has_more ? found.next_cursor : null;
    return /** @type {Message[]} */ (found.items);
  }
  function offerOlder() {
    const more = async () => {
      const before = scroller.scrollHeight - scroller.scrollTop;
      messages.prepend(...(await page(cursor)).map((message) => messageView(message, chat)));
      scroller.scrollTop = scroller.scrollHeight - before;
      offerOlder();
    };
    older.replaceChildren(...(cursor ? [h("button", { type: "button", class: "button small", click: more }, "Earlier messages")] : []));
  }

  /**
   * @param {Ask} ask
   * @param {{ accepted: () => void }} events
   */
  async function run(ask, events) {
    isRunning = true;
    isStopping = false;
    const turn = new Turn(ask, chat, () => retry(turn, ask, events));
    messages.append(...turn.nodes);
    toEnd();
    const body = { content: ask.content, kind: ask.kind, ...(ask.model && { model: ask.model }), ...(ask.temporary && { temporary: true }) };
    try {
      const answer = await send(`/chat/api/chats/${encodeURIComponent(chat)}/turns`, { method: "POST", body, signal });
      for await (const event of eventsOf(answer)) {
        const isFollowing = isAtEnd();
        if (event.name === "message.created") events.accepted();
        turn.take(event);
        if (isFollowing) toEnd();
        // The user stopped before the turn existed on the server; now it does.
        if (isStopping && event.name === "message.created") stop();
      }
      if (!turn.isOver) await recover(turn, events);
    } catch (error) {
      if (signal.aborted) return;
      if (turn.question || error instanceof Unreachable || error instanceof TypeError) await recover(turn, events);
      else turn.fail(/** @type {Error} */ (error));
    } finally {
      isRunning = false;
      if (!signal.aborted) emit("chats", { chat });
    }
  }

  /** Wait for the end of an answer that this page did not start. */
  async function follow() {
    isRunning = true;
    const note = h("p", { class: "soft turn-state" }, "The answer is being written…");
    messages.append(note);
    toEnd();
    try {
      for (let isAnswering = true; isAnswering && !signal.aborted; ) {
        await new Promise((resolve) => setTimeout(resolve, FOLLOW_MS));
        isAnswering = await call(`/chat/api/chats/${encodeURIComponent(chat)}`, { signal }).then((found) => found.is_answering, (error) => {
          if (error instanceof Unreachable) return true;
          throw error;
        });
      }
    } finally {
      note.remove();
      isRunning = false;
    }
    await open(chat);
  }

  /** Ask the server to stop. It saves and returns the partial answer. */
  async function stop() {
    if (!isRunning || !chat) return;
    isStopping = true;
    await call(`/chat/api/chats/${encodeURIComponent(chat)}/stop`, { method: "POST" }).catch((error) => toast(error.message));
  }

  /**
   * The connection was lost, but the turn may have continued. Wait for the server, then check.
   * @param {Turn} turn
   * @param {{ accepted: () => void }} events
   */
  async function recover(turn, events) {
    turn.pause("The connection was lost. Waiting for the server…");
    watch();
    await new Promise((resolve) => (listen("back", resolve, signal), signal.addEventListener("abort", resolve)));
    for (const pause of RECOVER_MS) {
      if (signal.aborted) return;
      turn.pause("Checking for the answer…");
      await new Promise((resolve) => setTimeout(resolve, pause));
      const found = await page(null).catch(() => null);
      if (!found) continue;
      const asked = turn.question ? found.findIndex((each) => each.id === turn.question?.id) : found.findLastIndex((each) => each.role === "user" && each.content === turn.ask.content);
      if (asked < 0 && !turn.question) break; // the message never arrived
      if (asked >= 0) events.accepted();
      if (asked >= 0 && found.slice(asked + 1).some((each) => each.role === "assistant")) {
        messages.replaceChildren(...found.map((message) => messageView(message, chat)));
        offerOlder();
        toEnd();
        return;
      }
    }
    turn.fail(new Error(turn.question ? "The answer was interrupted." : "The message was not sent."));
  }

  /**
   * @param {Turn} turn
   * @param {Ask} ask
   * @param {{ accepted: () => void }} events
   */
  function retry(turn, ask, events) {
    if (isRunning) return;
    // The server treats a repeated last message without an answer as the same turn, so show it once.
    const isLast = messages.lastElementChild === turn.notes;
    for (const node of turn.question && !isLast ? turn.nodes.slice(1) : turn.nodes) node.remove();
    // The draft of this message is already cleared; the field may contain a new draft.
    run(ask, turn.question ? { accepted: () => {} } : events);
  }

  listen("chats", (event) => event.isOtherTab && event.chat === chat && !isRunning && open(chat).catch(() => {}), signal);
  return { open, run, follow, stop, list: messages, setChat: (/** @type {string} */ id) => (chat = id) };
}

/** One message and its answer while it arrives. */
class Turn {
  /** @type {Message | null} */
  question = null;
  isOver = false;
  #text = "";

  /**
   * @param {Ask} ask
   * @param {string} chat
   * @param {() => void} again
   */
  constructor(ask, chat, again) {
    this.ask = ask;
    this.chat = chat;
    this.again = again;
    this.asked = h("article", { class: "message from-user is-pending", "aria-label": "You" },
      h("header", { class: "message-head" }, h("span", { class: "author" }, "You")), h("div", { class: "message-body plain" }, ask.content || "Summarise this chat."));
    this.body = h("div", { class: "message-body plain" });
    this.state = h("div", { class: "turn-state" }, waiting("Thinking…"));
    this.used = h("div", {});
    this.notes = h("div", { class: "turn-notes" });
    this.answer = h("article", { class: "message from-assistant", "aria-label": "Answer", "aria-busy": "true" },
      h("header", { class: "message-head" }, h("span", { class: "author" }, "Recollect")), this.body, this.state, this.used);
    this.nodes = [this.asked, this.answer, this.notes];
  }

  /** @param {import("../events.js").Event_} event */
  take({ name, data }) {
    if (name === "message.created") this.#accept(data);
    else if (name === "injected") this.used.replaceChildren(...[injected(data.items)].filter((part) => part !== null));
    else if (name === "delta") this.#more(data.text);
    else if (name === "tool") this.#tool(data);
    else if (name === "x_memory.auto_saved") this.#saved(data.memory);
    else if (name === "message.completed") this.#complete(data);
    else if (name === "stopped") this.#stopped();
    else if (name === "error") (this.fail(new Error(data.message)), (this.isOver = true));
    else if (name === "done") this.isOver = true;
  }

  /** @param {Message} message */
  #accept(message) {
    this.question = message;
    const view = messageView(message, this.chat);
    this.asked.replaceWith(view);
    this.nodes[0] = this.asked = view;
  }

  /** @param {string} text */
  #more(text) {
    this.#text += text;
    this.body.textContent = this.#text;
    this.state.replaceChildren();
  }

  /** @param {{ name: string, status: string }} tool */
  #tool({ name, status }) {
    const isOver = status === "completed" || status === "done" || status === "failed";
    this.state.replaceChildren(h("p", { class: "soft" }, `${TOOLS[name] ?? name}${isOver ? "" : "…"}`));
    if (isOver && name === "x_save_memory") emit("memories");
  }

  /** @param {import("../types").Memory} memory */
  #saved(memory) {
    const undo = h("button", { type: "button", class: "link", click: () => restoreOrForget(memory.id, undo, line) }, "Undo");
    const line = h("p", { class: "auto-saved" }, h("span", {}, "Saved automatically: "), h("q", {}, truncate(memory.content, 160)), undo);
    this.notes.append(line);
    emit("memories", { added: memory });
  }

  /** @param {Message} message */
  #complete(message) {
    const isOpen = this.used.querySelector("details")?.open ?? false;
    const view = messageView(message, this.chat);
    const shown = view.querySelector("details");
    if (shown) shown.open = isOpen;
    this.answer.replaceWith(view);
    this.nodes[1] = this.answer = view;
  }

  /** The answer had not begun, or its partial text was saved. */
  #stopped() {
    this.answer.removeAttribute("aria-busy");
    if (!this.question) for (const node of this.nodes) node.remove();
    this.state.replaceChildren(h("p", { class: "soft small" }, "You stopped this answer before it began."));
  }

  /** @param {string} text */
  pause(text) {
    this.state.replaceChildren(h("p", { class: "soft" }, text));
  }

  /** @param {Error} error */
  fail(error) {
    this.answer.removeAttribute("aria-busy");
    this.state.replaceChildren(problem(error, this.again));
  }
}
