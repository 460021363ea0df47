// The only place that fetches. It knows the server's errors, a session that ended, a server that is away.

import { tell } from "./state.js";

const AGAIN_MS = 1500;

/** The server said no, in its own words. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Nobody answered. */
export class Away extends Error {
  constructor() {
    super("The server cannot be reached.");
  }
}

/**
 * @param {string} path
 * @param {{ method?: string, body?: unknown, query?: Record<string, unknown>, signal?: AbortSignal }} [ask]
 * @returns {Promise<any>}
 */
export async function call(path, ask = {}) {
  const answer = await send(path, ask);
  if (answer.status === 204) return null;
  return answer.json();
}

/**
 * @param {string} path
 * @param {{ method?: string, body?: unknown, query?: Record<string, unknown>, signal?: AbortSignal }} ask
 * @returns {Promise<Response>}
 */
export async function send(path, { method = "GET", body, query, signal }) {
  const headers = /** @type {Record<string, string>} */ ({ accept: "application/json" });
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path + asQuery(query), { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
    watch();
    throw new Away();
  }
  await check(answer);
  return answer;
}

/**
 * Send files, telling how far they are.
 * @param {string} path
 * @param {File} file
 * @param {(share: number) => void} progress
 * @param {AbortSignal} signal
 * @returns {Promise<any>}
 */
export function upload(path, file, progress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const form = new FormData();
    form.append("file", file, file.name);
    request.open("POST", path);
    request.responseType = "text";
    request.upload.addEventListener("progress", (event) => progress(event.total ? event.loaded / event.total : 0));
    request.addEventListener("load", () => {
      const type = request.getResponseHeader("content-type") ?? "";
      if (type.startsWith("text/html")) return toSignIn();
      const answer = parsed(request.responseText);
      if (request.status < 300) resolve(answer);
      else reject(new Refused(request.status, answer?.error?.code ?? "", answer?.error?.message ?? `The server answered ${request.status}.`));
    });
    request.addEventListener("error", () => {
      watch();
      reject(new Away());
    });
    request.addEventListener("abort", () => reject(new DOMException("Stopped", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** @param {Response} answer */
async function check(answer) {
  const type = answer.headers.get("content-type") ?? "";
  if (type.startsWith("text/html")) {
    toSignIn();
    await new Promise(() => {}); // the page is being left; nobody shall act on half an answer
  }
  if (answer.ok) return;
  const said = type.includes("json") ? await answer.json().catch(() => null) : null;
  const error = said?.error;
  throw new Refused(answer.status, error?.code ?? "", error?.message ?? `The server answered ${answer.status}.`);
}

/** Leave for the sign-in page, which comes back to this place. */
export function toSignIn() {
  location.assign("/login" + location.hash);
}

/** @param {Record<string, unknown> | undefined} query */
function asQuery(query) {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return pairs.length ? "?" + new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])) : "";
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

let isWatching = false;

/** Ask until the server is back, then say so: pages that lack something load it again. */
export function watch() {
  if (isWatching) return;
  isWatching = true;
  tell("away");
  const again = async () => {
    try {
      const answer = await fetch("/health/live", { cache: "no-store" });
      if (answer.ok) {
        isWatching = false;
        tell("back");
        return;
      }
    } catch {
      // Still away.
    }
    setTimeout(again, AGAIN_MS);
  };
  setTimeout(again, AGAIN_MS);
}
