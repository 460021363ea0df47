// Actions on a memory: each calls the server and then notifies the rest of the page.

import { call } from "./api.js";
import { truncate } from "./format.js";
import { emit, state, workspacePath } from "./state.js";
import { toast } from "./parts/toasts.js";

/** @typedef {import("./types").Memory} Memory */

/**
 * @param {string} id
 * @param {string} content
 * @returns {Promise<Memory>}
 */
export async function updateContent(id, content) {
  const changed = await call(workspacePath(`/memories/${id}`), { method: "PATCH", body: { content } });
  emit("memories", { changed });
  return changed;
}

/**
 * @param {string} id
 * @param {boolean} pinned
 */
export async function pin(id, pinned) {
  const changed = await call(workspacePath(`/memories/${id}/pin`), { method: "POST", body: { pinned } });
  emit("memories", { changed });
  return changed;
}

/**
 * Forget a memory and offer to undo it.
 * @param {string} id
 * @param {string} content
 */
export async function forget(id, content) {
  await call(workspacePath(`/memories/${id}`), { method: "DELETE" });
  emit("memories", { removed: id });
  toast(`Forgotten: “${truncate(content, 60)}”`, { label: "Undo", act: () => restore(id).catch((error) => toast(error.message)) });
}

/** @param {string} id */
export async function restore(id) {
  const added = await call(workspacePath(`/memories/${id}/restore`), { method: "POST" });
  emit("memories", { added, isRestored: true });
}

/**
 * @param {string} content
 * @param {string} [category]
 */
export async function saveMemory(content, category) {
  const added = await call(workspacePath("/memories"), { method: "POST", body: { content, category: category || null } });
  emit("memories", { added });
  return added;
}

/** Update the number of memories from the server. */
export async function recount() {
  const workspace = state.workspace;
  const { count } = await call(workspacePath("/memories/count"));
  if (workspace !== state.workspace) return;
  state.count = count;
  emit("count");
}

/**
 * Forget an automatically saved memory, or restore it, from the line that announced it.
 * @param {string} id
 * @param {HTMLButtonElement} button
 * @param {HTMLElement} line
 */
export async function restoreOrForget(id, button, line) {
  const isGone = line.classList.contains("is-gone");
  button.disabled = true;
  try {
    if (isGone) await restore(id);
    else await call(workspacePath(`/memories/${id}`), { method: "DELETE" });
    if (!isGone) emit("memories", { removed: id });
    line.classList.toggle("is-gone", !isGone);
    button.textContent = isGone ? "Undo" : "Restore";
  } catch (error) {
    toast(/** @type {Error} */ (error).message);
  } finally {
    button.disabled = false;
  }
}
