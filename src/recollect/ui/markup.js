// The one place where markup enters the page: Markdown that the server rendered and cleaned.

const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("recollect-markdown", {
  createHTML: (/** @type {string} */ html) => html,
});

/**
 * @param {string} html a message's `html`, and nothing else
 * @returns {DocumentFragment}
 */
export function fromServer(html) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return template.content;
}
