// Dates, numbers and scores as people say them. Pure: the present moment is handed in.

const MINUTE = 60_000;
const DAY = 86_400_000;

/**
 * @param {string | Date} when
 * @param {Date} [now]
 * @returns {string}
 */
export function ago(when, now = new Date()) {
  const then = new Date(when);
  const passed = now.getTime() - then.getTime();
  if (passed < MINUTE && passed > -MINUTE) return "just now";
  if (passed > 0 && passed < 60 * MINUTE) return `${Math.floor(passed / MINUTE)} min ago`;
  const days = Math.round((startOfDay(now) - startOfDay(then)) / DAY);
  if (days === 0) return `today, ${clock(then)}`;
  if (days === 1) return `yesterday, ${clock(then)}`;
  return day(then, now);
}

/**
 * The day, with its year where that is not this year.
 * @param {string | Date} when
 * @param {Date} [now]
 */
export function day(when, now = new Date()) {
  const then = new Date(when);
  const year = then.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return then.toLocaleDateString("en-GB", { day: "numeric", month: "short", year });
}

/** @param {string | Date} when */
export function exact(when) {
  return new Date(when).toLocaleString("en-GB", { dateStyle: "full", timeStyle: "medium" });
}

/** @param {Date} then */
function clock(then) {
  return then.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** @param {Date} then */
function startOfDay(then) {
  return new Date(then.getFullYear(), then.getMonth(), then.getDate()).getTime();
}

/** @param {number} value */
export function count(value) {
  return Math.round(value).toLocaleString("en-GB");
}

/**
 * A number in few characters: 950, 1.2k, 34k, 5.6M.
 * @param {number} value
 */
export function brief(value) {
  for (const [unit, sign] of /** @type {[number, string][]} */ ([[1e9, "B"], [1e6, "M"], [1e3, "k"]])) {
    if (value >= unit) return `${trimmed(value / unit)}${sign}`;
  }
  return trimmed(value);
}

/** @param {number} value */
function trimmed(value) {
  return value >= 10 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1).replace(/\.0$/, "");
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const units = ["kB", "MB", "GB"];
  let value = bytes / 1000;
  while (value >= 1000 && units.length > 1) {
    value /= 1000;
    units.shift();
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[0]}`;
}

/** @param {number | null | undefined} value */
export function score(value) {
  return typeof value === "number" ? value.toFixed(2) : "";
}

/**
 * @param {number} number
 * @param {string} one
 * @param {string} [many]
 */
export function plural(number, one, many = one + "s") {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/**
 * What a passage says under its title, which often begins it.
 * @param {string} passage
 * @param {string} title
 */
export function gist(passage, title) {
  const [first, ...rest] = passage.split("\n");
  const heading = first.replace(/^#+\s*/, "");
  const isRepeated = heading !== "" && title.endsWith(heading) && rest.join("").trim() !== "";
  return (isRepeated ? rest.join("\n") : passage).trim();
}

/**
 * A text in pieces, every second of which begins with a word that was looked for.
 * @param {string} text
 * @param {string} wanted
 */
export function sought(text, wanted) {
  const words = wanted.match(/[\p{L}\p{N}]{4,}/gu) ?? [];
  if (!words.length) return [text];
  return text.split(new RegExp(`(?<![\\p{L}\\p{N}])((?:${words.join("|")})[\\p{L}\\p{N}]*)`, "giu"));
}

/**
 * The beginning of a text, cut at a word.
 * @param {string} text
 * @param {number} most
 */
export function cut(text, most) {
  const letters = [...text];
  if (letters.length <= most) return text;
  const head = letters.slice(0, most).join("");
  const space = head.lastIndexOf(" ");
  return (space > most / 2 ? head.slice(0, space) : head) + "…";
}
