// Runs before the first paint, so that the other theme never flashes.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("recollect.theme");
  } catch {
    // Storage may be disabled; then the system setting applies.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
