// Formats dates, numbers and scores for people. Pure: the current time is a parameter.

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
 * The date, with the year if it is not the current year.
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
    if (value >= unit) return `${round(value / unit)}${sign}`;
  }
  return round(value);
}

/** @param {number} value */
function round(value) {
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
 * A passage without its first line if that line repeats the title.
 * @param {string} passage
 * @param {string} title
 */
export function withoutTitle(passage, title) {
  const [first, ...rest] = passage.split("\n");
  const heading = first.replace(/^#+\s*/, "");
  const isRepeated = heading !== "" && title.endsWith(heading) && rest.join("").trim() !== "";
  return (isRepeated ? rest.join("\n") : passage).trim();
}

/**
 * Split a text so that every second piece starts with a word of the query.
 * @param {string} text
 * @param {string} query
 */
export function splitAtMatches(text, query) {
  const words = query.match(/[\p{L}\p{N}]{4,}/gu) ?? [];
  if (!words.length) return [text];
  return text.split(new RegExp(`(?<![\\p{L}\\p{N}])((?:${words.join("|")})[\\p{L}\\p{N}]*)`, "giu"));
}

/**
 * The beginning of a text, cut at a word boundary.
 * @param {string} text
 * @param {number} limit
 */
export function truncate(text, limit) {
  const letters = [...text];
  if (letters.length <= limit) return text;
  const head = letters.slice(0, limit).join("");
  const space = head.lastIndexOf(" ");
  return (space > limit / 2 ? head.slice(0, space) : head) + "…";
}
