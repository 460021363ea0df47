// The messages of a chat, and the turn that is under way.

import { Away, call, send, watch } from "../api.js";
import { eventsOf } from "../events.js";
import { cut } from "../format.js";
import { h } from "../h.js";
import { restoreOrForget } from "../memories.js";
import { hear, tell } from "../state.js";
import { waiting } from "./empty.js";
import { injected } from "./injected.js";
import { messageView } from "./message.js";
import { problem } from "./problem.js";
import { toast } from "./toasts.js";

/** @typedef {import("../types").Message} Message */
/** @typedef {{ content: string, kind: string, model: string, temporary: boolean }} Ask */

const PAGE = 40;
const TOOLS = /** @type {Record<string, string>} */ ({
  x_save_memory: "Saving a memory", x_recall_memory: "Looking through memories", x_workspace_search: "Searching the workspace",
});
// How often to look for the end of an answer that goes on without us, and how long for one that may.
const FOLLOW_MS = 700;
const LOOKS_MS = [0, 1000, 2000, 4000, 8000];

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
   * @param {{ accepted: () => void }} told
   */
  async function run(ask, told) {
    isRunning = true;
    isStopping = false;
    const turn = new Turn(ask, chat, () => again(turn, ask, told));
    messages.append(...turn.nodes);
    toEnd();
    const body = { content: ask.content, kind: ask.kind, ...(ask.model && { model: ask.model }), ...(ask.temporary && { temporary: true }) };
    try {
      const answer = await send(`/chat/api/chats/${encodeURIComponent(chat)}/turns`, { method: "POST", body, signal });
      for await (const event of eventsOf(answer)) {
        const isFollowing = isAtEnd();
        if (event.name === "message.created") told.accepted();
        turn.take(event);
        if (isFollowing) toEnd();
        // Asked for before there was anything to stop: now there is.
        if (isStopping && event.name === "message.created") stop();
      }
      if (!turn.isOver) await recover(turn, told);
    } catch (error) {
      if (signal.aborted) return;
      if (turn.question || error instanceof Away || error instanceof TypeError) await recover(turn, told);
      else turn.fail(/** @type {Error} */ (error));
    } finally {
      isRunning = false;
      if (!signal.aborted) tell("chats", { chat });
    }
  }

  /** Wait for the end of an answer that began without us. */
  async function follow() {
    isRunning = true;
    const note = h("p", { class: "soft turn-state" }, "The answer is being written…");
    messages.append(note);
    toEnd();
    try {
      for (let isAnswering = true; isAnswering && !signal.aborted; ) {
        await new Promise((resolve) => setTimeout(resolve, FOLLOW_MS));
        isAnswering = await call(`/chat/api/chats/${encodeURIComponent(chat)}`, { signal }).then((found) => found.is_answering, (error) => {
          if (error instanceof Away) return true;
          throw error;
        });
      }
    } finally {
      note.remove();
      isRunning = false;
    }
    await open(chat);
  }

  /** Ask the server to say no more. What was said so far comes back as it is kept. */
  async function stop() {
    if (!isRunning || !chat) return;
    isStopping = true;
    await call(`/chat/api/chats/${encodeURIComponent(chat)}/stop`, { method: "POST" }).catch((error) => toast(error.message));
  }

  /**
   * The connection broke: the turn may have gone on without us. Wait for the server, then look.
   * @param {Turn} turn
   * @param {{ accepted: () => void }} told
   */
  async function recover(turn, told) {
    turn.pause("The connection was lost. Waiting for the server…");
    watch();
    await new Promise((resolve) => (hear("back", resolve, signal), signal.addEventListener("abort", resolve)));
    for (const pause of LOOKS_MS) {
      if (signal.aborted) return;
      turn.pause("Looking for the answer…");
      await new Promise((resolve) => setTimeout(resolve, pause));
      const found = await page(null).catch(() => null);
      if (!found) continue;
      const asked = turn.question ? found.findIndex((each) => each.id === turn.question?.id) : found.findLastIndex((each) => each.role === "user" && each.content === turn.ask.content);
      if (asked < 0 && !turn.question) break; // it never arrived
      if (asked >= 0) told.accepted();
      if (asked >= 0 && found.slice(asked + 1).some((each) => each.role === "assistant")) {
        messages.replaceChildren(...found.map((message) => messageView(message, chat)));
        offerOlder();
        toEnd();
        return;
      }
    }
    turn.fail(new Error(turn.question ? "The answer was cut off before it was finished." : "The message did not arrive."));
  }

  /**
   * @param {Turn} turn
   * @param {Ask} ask
   * @param {{ accepted: () => void }} told
   */
  function again(turn, ask, told) {
    if (isRunning) return;
    // What was said last and stayed without an answer is the same turn to the server: shown once.
    const isLast = messages.lastElementChild === turn.notes;
    for (const node of turn.question && !isLast ? turn.nodes.slice(1) : turn.nodes) node.remove();
    // Its draft has gone with it; what is in the field by now is another.
    run(ask, turn.question ? { accepted: () => {} } : told);
  }

  hear("chats", (news) => news.isElsewhere && news.chat === chat && !isRunning && open(chat).catch(() => {}), signal);
  return { open, run, follow, stop, messages, named: (/** @type {string} */ id) => (chat = id) };
}

/** One question and its answer, as it arrives. */
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
      h("header", { class: "message-head" }, h("span", { class: "author" }, "You")), h("div", { class: "message-body plain" }, ask.content || "Sum up this chat."));
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
    if (isOver && name === "x_save_memory") tell("memories");
  }

  /** @param {import("../types").Memory} memory */
  #saved(memory) {
    const undo = h("button", { type: "button", class: "link", click: () => restoreOrForget(memory.id, undo, line) }, "Undo");
    const line = h("p", { class: "auto-saved" }, h("span", {}, "Remembered by itself: "), h("q", {}, cut(memory.content, 160)), undo);
    this.notes.append(line);
    tell("memories", { added: memory });
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

  /** Nothing had been said yet, or it was kept as far as it came. */
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
