// State shared by the whole page: the user, the workspace, and events between parts and tabs.

/** @type {{ me: import("./types").Me, workspace: string, count: number | null }} */
export const state = { me: /** @type {any} */ (null), workspace: "", count: null };

const events = new EventTarget();
const tabs = new BroadcastChannel("recollect");
// Events that are also sent to other tabs.
const SHARED = new Set(["memories", "chats", "documents"]);

tabs.addEventListener("message", ({ data }) => events.dispatchEvent(new CustomEvent(data.name, { detail: { ...data.detail, isOtherTab: true } })));

/**
 * Emit an event.
 * @param {string} name
 * @param {Record<string, unknown>} [detail]
 */
export function emit(name, detail = {}) {
  events.dispatchEvent(new CustomEvent(name, { detail }));
  if (SHARED.has(name)) tabs.postMessage({ name, detail: { workspace: state.workspace, ...detail } });
}

/**
 * Listen to an event until the signal aborts.
 * @param {string} name
 * @param {(detail: any) => void} listener
 * @param {AbortSignal} [signal]
 */
export function listen(name, listener, signal) {
  events.addEventListener(name, (event) => listener(/** @type {CustomEvent} */ (event).detail), { signal });
}

/** The API path of something in the current workspace. @param {string} path */
export function workspacePath(path) {
  return `/chat/api/workspaces/${encodeURIComponent(state.workspace)}${path}`;
}

/** @param {string} right */
export function hasRight(right) {
  return state.me.rights.includes(right);
}

/**
 * Read a value stored in this browser; null if storage is unavailable.
 * @param {string} name
 * @returns {string | null}
 */
export function readStored(name) {
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
export function writeStored(name, value) {
  try {
    if (value === null) localStorage.removeItem("recollect." + name);
    else localStorage.setItem("recollect." + name, value);
  } catch {
    // Storage is full or disabled.
  }
}
