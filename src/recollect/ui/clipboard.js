// The clipboard, which browsers lend only to pages of their own machine and of https.

/**
 * @param {string} text
 * @returns {Promise<boolean>} whether it is there now
 */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
