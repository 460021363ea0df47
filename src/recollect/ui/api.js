// All requests to the server. Handles error responses, ended sessions and an unreachable server.

import { emit } from "./state.js";

const RETRY_MS = 1500;

/** An error response, with the server's own message. */
export class ServerError extends Error {
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

/** The server did not respond. */
export class Unreachable extends Error {
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
  const response = await send(path, ask);
  if (response.status === 204) return null;
  return response.json();
}

/**
 * @param {string} path
 * @param {{ method?: string, body?: unknown, query?: Record<string, unknown>, signal?: AbortSignal }} ask
 * @returns {Promise<Response>}
 */
export async function send(path, { method = "GET", body, query, signal }) {
  const headers = /** @type {Record<string, string>} */ ({ accept: "application/json" });
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path + asQuery(query), { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
    watch();
    throw new Unreachable();
  }
  await check(response);
  return response;
}

/**
 * Upload a file and report the progress.
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
      const response = parseJson(request.responseText);
      if (request.status < 300) resolve(response);
      else reject(new ServerError(request.status, response?.error?.code ?? "", response?.error?.message ?? `The server returned status ${request.status}.`));
    });
    request.addEventListener("error", () => {
      watch();
      reject(new Unreachable());
    });
    request.addEventListener("abort", () => reject(new DOMException("Stopped", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** @param {Response} response */
async function check(response) {
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("text/html")) {
    toSignIn();
    await new Promise(() => {}); // never resolves: the browser is leaving this page
  }
  if (response.ok) return;
  const body = type.includes("json") ? await response.json().catch(() => null) : null;
  const error = body?.error;
  throw new ServerError(response.status, error?.code ?? "", error?.message ?? `The server returned status ${response.status}.`);
}

/** Go to the sign-in page, which returns to this page. */
export function toSignIn() {
  location.assign("/login" + location.hash);
}

/** @param {Record<string, unknown> | undefined} query */
function asQuery(query) {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return pairs.length ? "?" + new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])) : "";
}

/** @param {string} text */
function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

let isWatching = false;

/** Poll until the server is back, then emit "back" so that pages load what they lack. */
export function watch() {
  if (isWatching) return;
  isWatching = true;
  emit("away");
  const poll = async () => {
    try {
      const response = await fetch("/health/live", { cache: "no-store" });
      if (response.ok) {
        isWatching = false;
        emit("back");
        return;
      }
    } catch {
      // Still unreachable.
    }
    setTimeout(poll, RETRY_MS);
  };
  setTimeout(poll, RETRY_MS);
}
