// The little that is shared: who is here, in which workspace, and what has changed, in every tab.

/** @type {{ me: import("./types").Me, workspace: string, count: number | null }} */
export const state = { me: /** @type {any} */ (null), workspace: "", count: null };

const news = new EventTarget();
const tabs = new BroadcastChannel("recollect");
// What another tab should hear too.
const SHARED = new Set(["memories", "chats", "documents"]);

tabs.addEventListener("message", ({ data }) => news.dispatchEvent(new CustomEvent(data.name, { detail: { ...data.detail, isElsewhere: true } })));

/**
 * Say that something happened.
 * @param {string} name
 * @param {Record<string, unknown>} [detail]
 */
export function tell(name, detail = {}) {
  news.dispatchEvent(new CustomEvent(name, { detail }));
  if (SHARED.has(name)) tabs.postMessage({ name, detail: { workspace: state.workspace, ...detail } });
}

/**
 * Hear of it until the signal aborts.
 * @param {string} name
 * @param {(detail: any) => void} listener
 * @param {AbortSignal} [signal]
 */
export function hear(name, listener, signal) {
  news.addEventListener(name, (event) => listener(/** @type {CustomEvent} */ (event).detail), { signal });
}

/** The address of something in the current workspace. @param {string} path */
export function here(path) {
  return `/chat/api/workspaces/${encodeURIComponent(state.workspace)}${path}`;
}

/** @param {string} right */
export function may(right) {
  return state.me.rights.includes(right);
}

/**
 * A note on this device only; where storage is off, nothing is kept and nothing breaks.
 * @param {string} name
 * @returns {string | null}
 */
export function noted(name) {
  try {
    return localStorage.getItem("recollect." + name);
  } catch {
    return null;
  }
}

/**
 * @param {string} name
 * @param {string | null} value
 */
export function note(name, value) {
  try {
    if (value === null) localStorage.removeItem("recollect." + name);
    else localStorage.setItem("recollect." + name, value);
  } catch {
    // Full or switched off.
  }
}
