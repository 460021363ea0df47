// The sign-in form. After signing in it returns to the page named after the `#` in the address.

const form = /** @type {HTMLFormElement} */ (document.getElementById("login"));
const problem = /** @type {HTMLElement} */ (document.getElementById("problem"));
const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.hidden = true;
  const data = new FormData(form);
  const username = String(data.get("username") ?? "").trim();
  const password = String(data.get("password") ?? "");
  if (!username || !password) return showError("Enter your username and password.");
  button.disabled = true;
  try {
    const response = await fetch("/login", {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify({ username, password }),
    });
    if (response.ok) {
      location.replace("/" + location.hash);
      return;
    }
    showError(await reason(response));
  } catch {
    showError("The server cannot be reached. Check that it is running.");
  } finally {
    button.disabled = false;
  }
});

/** @param {Response} response */
async function reason(response) {
  if (response.status === 429) {
    const seconds = Number(response.headers.get("retry-after")) || 60;
    return `Too many attempts. Wait ${seconds < 90 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`} and try again.`;
  }
  try {
    const { error } = await response.json();
    return error.message;
  } catch {
    return response.status === 401 || response.status === 200
      ? "Wrong username or password."
      : "Sign-in failed. Try again in a moment.";
  }
}

/** @param {string} message */
function showError(message) {
  problem.textContent = message;
  problem.hidden = false;
  const field = /** @type {HTMLInputElement} */ (form.elements.namedItem("password"));
  field.focus();
  field.select();
}
