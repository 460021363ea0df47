// The sign-in form. It comes back to where the person was, which the address keeps after its `#`.

const form = /** @type {HTMLFormElement} */ (document.getElementById("login"));
const problem = /** @type {HTMLElement} */ (document.getElementById("problem"));
const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.hidden = true;
  const given = new FormData(form);
  const username = String(given.get("username") ?? "").trim();
  const password = String(given.get("password") ?? "");
  if (!username || !password) return complain("Enter your name and your password.");
  button.disabled = true;
  try {
    const answer = await fetch("/login", {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify({ username, password }),
    });
    if (answer.ok) {
      location.replace("/" + location.hash);
      return;
    }
    complain(await reason(answer));
  } catch {
    complain("The server cannot be reached. Is it running?");
  } finally {
    button.disabled = false;
  }
});

/** @param {Response} answer */
async function reason(answer) {
  if (answer.status === 429) {
    const seconds = Number(answer.headers.get("retry-after")) || 60;
    return `Too many tries. Wait ${seconds < 90 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`} and try again.`;
  }
  try {
    const { error } = await answer.json();
    return error.message;
  } catch {
    return answer.status === 401 || answer.status === 200
      ? "The name or the password is wrong."
      : "Signing in did not work. Try again in a moment.";
  }
}

/** @param {string} message */
function complain(message) {
  problem.textContent = message;
  problem.hidden = false;
  const wrong = /** @type {HTMLInputElement} */ (form.elements.namedItem("password"));
  wrong.focus();
  wrong.select();
}
