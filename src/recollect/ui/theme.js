// Runs before the first paint, so that a chosen theme never flashes the other one.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("recollect.theme");
  } catch {
    // Storage may be switched off; then the system decides.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
