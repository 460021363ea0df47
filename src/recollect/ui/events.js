// Parses server-sent events from a response body as it arrives.

/** @typedef {{ name: string, data: any }} Event_ */

/** Splits text into events, regardless of how it is chunked. */
export class Events {
  #rest = "";

  /**
   * @param {string} text
   * @returns {Event_[]}
   */
  push(text) {
    this.#rest += text;
    const parts = this.#rest.split(/\r?\n\r?\n/);
    this.#rest = parts.pop() ?? "";
    return parts.map(parseBlock).filter((event) => event !== null);
  }
}

/**
 * @param {string} block
 * @returns {Event_ | null}
 */
function parseBlock(block) {
  let name = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  if (!data.length) return null;
  const text = data.join("\n");
  if (text === "[DONE]") return { name: "done", data: null };
  return { name, data: JSON.parse(text) };
}

/**
 * @param {Response} response
 * @returns {AsyncGenerator<Event_>}
 */
export async function* eventsOf(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  const events = new Events();
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) return;
      yield* events.push(/** @type {any} */ (value));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
