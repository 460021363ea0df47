// What can be done with a memory, said to the server and then to every part of the page.

import { call } from "./api.js";
import { cut } from "./format.js";
import { here, state, tell } from "./state.js";
import { toast } from "./parts/toasts.js";

/** @typedef {import("./types").Memory} Memory */

/**
 * @param {string} id
 * @param {string} content
 * @returns {Promise<Memory>}
 */
export async function correct(id, content) {
  const changed = await call(here(`/memories/${id}`), { method: "PATCH", body: { content } });
  tell("memories", { changed });
  return changed;
}

/**
 * @param {string} id
 * @param {boolean} pinned
 */
export async function pin(id, pinned) {
  const changed = await call(here(`/memories/${id}/pin`), { method: "POST", body: { pinned } });
  tell("memories", { changed });
  return changed;
}

/**
 * Forget a memory, with a way back.
 * @param {string} id
 * @param {string} content
 */
export async function forget(id, content) {
  await call(here(`/memories/${id}`), { method: "DELETE" });
  tell("memories", { removed: id });
  toast(`Forgotten: “${cut(content, 60)}”`, { label: "Undo", act: () => restore(id).catch((error) => toast(error.message)) });
}

/** @param {string} id */
export async function restore(id) {
  const added = await call(here(`/memories/${id}/restore`), { method: "POST" });
  tell("memories", { added, isRestored: true });
}

/**
 * @param {string} content
 * @param {string} [category]
 */
export async function keep(content, category) {
  const added = await call(here("/memories"), { method: "POST", body: { content, category: category || null } });
  tell("memories", { added });
  return added;
}

/** How many there are, counted by the server. */
export async function recount() {
  const workspace = state.workspace;
  const { count } = await call(here("/memories/count"));
  if (workspace !== state.workspace) return;
  state.count = count;
  tell("count");
}

/**
 * Undo a memory that was saved by itself, beside where it was announced.
 * @param {string} id
 * @param {HTMLButtonElement} button
 * @param {HTMLElement} line
 */
export async function restoreOrForget(id, button, line) {
  const isGone = line.classList.contains("is-gone");
  button.disabled = true;
  try {
    if (isGone) await restore(id);
    else await call(here(`/memories/${id}`), { method: "DELETE" });
    if (!isGone) tell("memories", { removed: id });
    line.classList.toggle("is-gone", !isGone);
    button.textContent = isGone ? "Undo" : "Keep it after all";
  } catch (error) {
    toast(/** @type {Error} */ (error).message);
  } finally {
    button.disabled = false;
  }
}
