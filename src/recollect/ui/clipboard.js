// The clipboard. Browsers allow it only on localhost and over https.

/**
 * @param {string} text
 * @returns {Promise<boolean>} whether the text was copied
 */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
