// Server-sent events out of a body that is still arriving.

/** @typedef {{ name: string, data: any }} Event_ */

/** Cuts text into events, however the pieces fall. */
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
    return parts.map(read).filter((event) => event !== null);
  }
}

/**
 * @param {string} block
 * @returns {Event_ | null}
 */
function read(block) {
  let name = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  if (!data.length) return null;
  const whole = data.join("\n");
  if (whole === "[DONE]") return { name: "done", data: null };
  return { name, data: JSON.parse(whole) };
}

/**
 * @param {Response} answer
 * @returns {AsyncGenerator<Event_>}
 */
export async function* eventsOf(answer) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
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
