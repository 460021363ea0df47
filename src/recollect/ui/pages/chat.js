// A chat with a memory one can see.

import { call, Refused } from "../api.js";
import { cut } from "../format.js";
import { h } from "../h.js";
import { recount } from "../memories.js";
import { composer } from "../parts/composer.js";
import { empty } from "../parts/empty.js";
import { memoryPanel } from "../parts/memory-panel.js";
import { problem } from "../parts/problem.js";
import { thread } from "../parts/thread.js";
import { toast } from "../parts/toasts.js";
import { rename } from "../router.js";
import { hear, note, state, tell } from "../state.js";

// When to look, after an answer, whether something was learnt of it.
const LEARNING_MS = [1500, 4000, 10_000];
const EXAMPLES = [
  "Remember that the Lisbon office opens on 12 September",
  "Remember that I drink tea without milk",
  "When do we open in Portugal?",
];

/** @type {import("../router.js").Show} */
export async function page(main, place, signal) {
  let chat = place.id;
  let called = "";
  const scroller = h("div", { class: "chat-scroll" });
  const title = h("input", { class: "chat-title", "aria-label": "Title of this chat", value: "", placeholder: "New chat", maxlength: "255", disabled: !chat, change: retitle });
  const { toggle, panel } = memoryPanel(signal);
  const talk = thread(scroller, signal);
  const write = composer(chat, ask, talk.stop);
  const hello = h("div", { class: "hello" });
  main.replaceChildren(
    h("div", { class: "chat" },
      h("section", { class: "chat-main", "aria-label": "Chat" },
        h("h1", { class: "visually-hidden" }, "Chat"),
        h("header", { class: "toolbar" }, title, toggle),
        scroller,
        h("div", { class: "composer-place" }, write.node)),
      panel));
  document.addEventListener("keydown", stopByKey, { signal });
  if (matchMedia("(pointer: fine)").matches) write.field.focus({ preventScroll: true });

  if (chat) await open();
  else greet();

  async function open() {
    try {
      const found = await call(`/chat/api/chats/${encodeURIComponent(chat)}`, { signal });
      if (found.workspace_id && found.workspace_id !== state.workspace && state.me.workspaces.some(({ id }) => id === found.workspace_id)) {
        state.workspace = found.workspace_id;
        note("workspace", state.workspace);
        tell("workspaces");
        tell("workspace");
        return;
      }
      name(found.title);
      await talk.open(chat);
      hello.remove();
      if (!talk.messages.children.length) greet();
      spotlight(place.query.get("message"));
      if (found.is_answering) rejoin();
    } catch (error) {
      if (signal.aborted) return;
      const isGone = error instanceof Refused && error.status === 404;
      write.node.hidden = isGone;
      title.placeholder = "";
      scroller.replaceChildren(isGone
        ? empty("chats", "This chat is not here", "It was deleted, or it belongs to another workspace.", h("a", { class: "button", href: "#/chats" }, "All chats"))
        : problem(/** @type {Error} */ (error), () => tell("workspace")));
      hear("back", () => tell("workspace"), signal);
    }
  }

  /** An answer goes on while one looks elsewhere: whoever comes back finds it, or waits for its end. */
  async function rejoin() {
    write.busy = true;
    await talk.follow().catch(() => {});
    write.busy = false;
    tell("memories");
  }

  function greet() {
    hello.replaceChildren(
      h("h2", {}, "What should be remembered?"),
      h("p", { class: "soft" }, state.me.models.length > 1 || state.me.default_model !== "recollect-librarian"
        ? "Tell it in one chat, ask for it in any other."
        : "The librarian answers here: it keeps what you tell it to remember and quotes it when you ask. Settings says how to connect a language model."),
      h("div", { class: "examples" }, EXAMPLES.map((text) => h("button", { type: "button", class: "example", click: () => write.fill(text) }, text))));
    scroller.append(hello);
  }

  /** @param {{ content: string, kind: string, model: string, temporary: boolean }} said */
  async function ask(said) {
    write.busy = true;
    hello.remove();
    try {
      if (!chat) await begin(said.content);
      await talk.run(said, { accepted: () => write.field.value.trim() === said.content && write.sent() });
      tell("memories");
      watchLearning();
    } catch (error) {
      toast(/** @type {Error} */ (error).message);
    } finally {
      write.busy = false;
    }
  }

  /** Escape leaves what is open; where nothing is, it ends the answer. @param {KeyboardEvent} event */
  function stopByKey(event) {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    const isElsewhere = event.target instanceof Element && event.target.closest("#memories-panel, #rail") !== null;
    if (isElsewhere || document.querySelector("dialog[open]")) return;
    talk.stop();
  }

  /** What is learnt of a turn in the background shows as soon as it is there. */
  function watchLearning() {
    for (const pause of LEARNING_MS) {
      setTimeout(async () => {
        const before = state.count;
        if (!signal.aborted) await recount().catch(() => {});
        if (!signal.aborted && state.count !== before) tell("memories");
      }, pause);
    }
  }

  /** @param {string} content */
  async function begin(content) {
    const made = await call("/chat/api/chats", { method: "POST", body: { title: cut(content.replaceAll(/\s+/g, " "), 60), workspace_id: state.workspace } });
    chat = made.id;
    talk.named(chat);
    rename(`#/chat/${chat}`);
    write.moved(chat);
    name(made.title);
    tell("chats");
    tell("place", { name: "chat", id: chat });
  }

  /** @param {string} told */
  function name(told) {
    title.value = called = told ?? "";
    title.disabled = false;
    tell("title", { title: told || "Chat" });
  }

  async function retitle() {
    if (!title.value.trim()) return (title.value = called);
    try {
      name((await call(`/chat/api/chats/${encodeURIComponent(chat)}`, { method: "PATCH", body: { title: title.value.trim() } })).title);
      tell("chats");
    } catch (error) {
      toast(/** @type {Error} */ (error).message);
    }
  }

  /** @param {string | null} id */
  function spotlight(id) {
    const message = id && talk.messages.querySelector(`[data-id="${CSS.escape(id)}"]`);
    if (!message) return;
    message.scrollIntoView({ block: "center" });
    message.classList.add("is-spotlit");
  }
}
