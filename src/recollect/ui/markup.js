// The only code that inserts markup: Markdown that the server rendered and sanitised.

const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("recollect-markdown", {
  createHTML: (/** @type {string} */ html) => html,
});

/**
 * @param {string} html only a message's `html`
 * @returns {DocumentFragment}
 */
export function fromServer(html) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return template.content;
}
