// The chat page, with the memories next to it.

import { call, ServerError } from "../api.js";
import { truncate } from "../format.js";
import { h } from "../h.js";
import { recount } from "../memories.js";
import { composer } from "../parts/composer.js";
import { empty } from "../parts/empty.js";
import { memoryPanel } from "../parts/memory-panel.js";
import { problem } from "../parts/problem.js";
import { thread } from "../parts/thread.js";
import { toast } from "../parts/toasts.js";
import { replaceHash } from "../router.js";
import { emit, listen, state, writeStored } from "../state.js";

// When to check, after an answer, whether something was learnt from the turn.
const LEARNING_MS = [1500, 4000, 10_000];
const EXAMPLES = [
  "Remember that the Lisbon office opens on 12 September",
  "Remember that I drink tea without milk",
  "When do we open in Portugal?",
];

/** @type {import("../router.js").Show} */
export async function page(main, route, signal) {
  let chat = route.id;
  let savedTitle = "";
  const scroller = h("div", { class: "chat-scroll" });
  const title = h("input", { class: "chat-title", "aria-label": "Chat title", value: "", placeholder: "New chat", maxlength: "255", disabled: !chat, change: saveTitle });
  const { toggle, panel } = memoryPanel(signal);
  const messages = thread(scroller, signal);
  const input = composer(chat, ask, messages.stop);
  const greeting = h("div", { class: "greeting" });
  main.replaceChildren(
    h("div", { class: "chat" },
      h("section", { class: "chat-main", "aria-label": "Chat" },
        h("h1", { class: "visually-hidden" }, "Chat"),
        h("header", { class: "toolbar" }, title, toggle),
        scroller,
        h("div", { class: "composer-area" }, input.node)),
      panel));
  document.addEventListener("keydown", stopOnEscape, { signal });
  if (matchMedia("(pointer: fine)").matches) input.field.focus({ preventScroll: true });

  if (chat) await open();
  else showGreeting();

  async function open() {
    try {
      const found = await call(`/chat/api/chats/${encodeURIComponent(chat)}`, { signal });
      if (found.workspace_id && found.workspace_id !== state.workspace && state.me.workspaces.some(({ id }) => id === found.workspace_id)) {
        state.workspace = found.workspace_id;
        writeStored("workspace", state.workspace);
        emit("workspaces");
        emit("workspace");
        return;
      }
      showTitle(found.title);
      await messages.open(chat);
      greeting.remove();
      if (!messages.list.children.length) showGreeting();
      highlightMessage(route.query.get("message"));
      if (found.is_answering) rejoin();
    } catch (error) {
      if (signal.aborted) return;
      const isGone = error instanceof ServerError && error.status === 404;
      input.node.hidden = isGone;
      title.placeholder = "";
      scroller.replaceChildren(isGone
        ? empty("chats", "Chat not found", "It was deleted, or it belongs to another workspace.", h("a", { class: "button", href: "#/chats" }, "All chats"))
        : problem(/** @type {Error} */ (error), () => emit("workspace")));
      listen("back", () => emit("workspace"), signal);
    }
  }

  /** An answer continues while the user is on another page. Wait for its end. */
  async function rejoin() {
    input.busy = true;
    await messages.follow().catch(() => {});
    input.busy = false;
    emit("memories");
  }

  function showGreeting() {
    greeting.replaceChildren(
      h("h2", {}, "What should be remembered?"),
      h("p", { class: "soft" }, state.me.models.length > 1 || state.me.default_model !== "recollect-librarian"
        ? "Say it in one chat and ask for it in any other chat."
        : "The built-in librarian answers here: it saves what you ask it to remember and quotes it when you ask. See Settings to connect a language model."),
      h("div", { class: "examples" }, EXAMPLES.map((text) => h("button", { type: "button", class: "example", click: () => input.fill(text) }, text))));
    scroller.append(greeting);
  }

  /** @param {{ content: string, kind: string, model: string, temporary: boolean }} turn */
  async function ask(turn) {
    input.busy = true;
    greeting.remove();
    try {
      if (!chat) await createChat(turn.content);
      await messages.run(turn, { accepted: () => input.field.value.trim() === turn.content && input.clear() });
      emit("memories");
      watchLearning();
    } catch (error) {
      toast(/** @type {Error} */ (error).message);
    } finally {
      input.busy = false;
    }
  }

  /** Escape closes an open dialog or panel; if none is open, it stops the answer. @param {KeyboardEvent} event */
  function stopOnEscape(event) {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    const isInPanel = event.target instanceof Element && event.target.closest("#memories-panel, #rail") !== null;
    if (isInPanel || document.querySelector("dialog[open]")) return;
    messages.stop();
  }

  /** Show memories learnt from a turn in the background as soon as they exist. */
  function watchLearning() {
    for (const pause of LEARNING_MS) {
      setTimeout(async () => {
        const before = state.count;
        if (!signal.aborted) await recount().catch(() => {});
        if (!signal.aborted && state.count !== before) emit("memories");
      }, pause);
    }
  }

  /** @param {string} content */
  async function createChat(content) {
    const made = await call("/chat/api/chats", { method: "POST", body: { title: truncate(content.replaceAll(/\s+/g, " "), 60), workspace_id: state.workspace } });
    chat = made.id;
    messages.setChat(chat);
    replaceHash(`#/chat/${chat}`);
    input.setChat(chat);
    showTitle(made.title);
    emit("chats");
    emit("route", { name: "chat", id: chat });
  }

  /** @param {string} text */
  function showTitle(text) {
    title.value = savedTitle = text ?? "";
    title.disabled = false;
    emit("title", { title: text || "Chat" });
  }

  async function saveTitle() {
    if (!title.value.trim()) return (title.value = savedTitle);
    try {
      showTitle((await call(`/chat/api/chats/${encodeURIComponent(chat)}`, { method: "PATCH", body: { title: title.value.trim() } })).title);
      emit("chats");
    } catch (error) {
      toast(/** @type {Error} */ (error).message);
    }
  }

  /** @param {string | null} id */
  function highlightMessage(id) {
    const message = id && messages.list.querySelector(`[data-id="${CSS.escape(id)}"]`);
    if (!message) return;
    message.scrollIntoView({ block: "center" });
    message.classList.add("is-spotlit");
  }
}
