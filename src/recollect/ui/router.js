// Maps addresses such as `#/memories?view=graph` to pages. A page's code loads when it is needed, or earlier when the browser is idle.

/** @typedef {{ name: string, id: string, query: URLSearchParams }} Route */
/** @typedef {(main: HTMLElement, route: Route, signal: AbortSignal) => Promise<void> | void} Show */

/** @type {Record<string, { title: string, load: () => Promise<{ page: Show }> }>} */
export const PAGES = {
  chat: { title: "Chat", load: () => import("./pages/chat.js") },
  chats: { title: "Chats", load: () => import("./pages/chats.js") },
  memories: { title: "Memories", load: () => import("./pages/memories.js") },
  memory: { title: "Memories", load: () => import("./pages/memories.js") },
  documents: { title: "Documents", load: () => import("./pages/documents.js") },
  timeline: { title: "Timeline", load: () => import("./pages/timeline.js") },
  search: { title: "Search", load: () => import("./pages/search.js") },
  jobs: { title: "Jobs", load: () => import("./pages/jobs.js") },
  usage: { title: "Usage", load: () => import("./pages/usage.js") },
  settings: { title: "Settings", load: () => import("./pages/settings.js") },
};

/**
 * @param {string} hash
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [name, id] = path.split("/");
  return { name: name in PAGES ? name : "chat", id: decode(id ?? ""), query: new URLSearchParams(query) };
}

/** A typed address may be malformed. @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The value in the address if it is one of the choices, else the first choice.
 * @param {Route} route
 * @param {string} name
 * @param {string[]} choices
 */
export function oneOf({ query }, name, choices) {
  const given = query.get(name) ?? choices[0];
  return choices.includes(given) ? given : choices[0];
}

/** @param {string} hash */
export function go(hash) {
  if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}

/**
 * Change the address without leaving the page. Does nothing if the user has already moved on from `from`.
 * @param {string} hash
 * @param {string} [from]
 */
export function replaceHash(hash, from = location.hash) {
  if (location.hash === from) history.replaceState(null, "", hash);
}
