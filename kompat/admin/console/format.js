/** Numbers, sizes and times, as people read them. */

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const FRACTION = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const NOTHING = "–";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

const isMissing = (value) => value === null || value === undefined || Number.isNaN(value);

export const number = (value) => (isMissing(value) ? NOTHING : WHOLE.format(value));

/** For axes and tiles: 12.3K. */
export const short = (value) =>
  isMissing(value) ? NOTHING : Math.abs(value) < 10 ? FRACTION.format(value) : SHORT.format(value);

export function bytes(value) {
  if (isMissing(value)) return NOTHING;
  let unit = 0;
  let size = value;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? WHOLE.format(size) : FRACTION.format(size)} ${UNITS[unit]}`;
}

/** A length of time in milliseconds: 340 ms, 2.5 s, 3 min 20 s, 2 d 4 h. */
export function duration(ms) {
  if (isMissing(ms)) return NOTHING;
  const size = Math.abs(ms);
  const sign = ms < 0 ? "−" : "";
  if (size < 1 && size > 0) return `${sign}${Number(size.toPrecision(2))} ms`;
  if (size < 10 && !Number.isInteger(size)) return `${sign}${FRACTION.format(size)} ms`;
  if (size < 1000) return `${sign}${WHOLE.format(size)} ms`;
  if (size < 60_000) return `${sign}${FRACTION.format(size / 1000)} s`;
  if (size < 3_600_000) return sign + parts(size / 1000, 60, "min", "s");
  if (size < 86_400_000) return sign + parts(size / 60_000, 60, "h", "min");
  return sign + parts(size / 3_600_000, 24, "d", "h");
}

function parts(value, base, large, small) {
  const total = Math.round(value);
  const rest = total % base;
  return `${Math.floor(total / base)} ${large}${rest === 0 ? "" : ` ${rest} ${small}`}`;
}

const pad = (value, size = 2) => String(value).padStart(size, "0");

/** Where the reader is, to the millisecond: 2026-11-16 14:03:22.123. */
export function time(ms) {
  if (isMissing(ms) || ms < 0) return NOTHING;
  return `${date(ms)} ${clock(ms)}.${pad(new Date(ms).getMilliseconds(), 3)}`;
}

export function date(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}

export function clock(ms) {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** For narrow columns: the time of day today, else the date, too. */
export function moment(ms, now = Date.now()) {
  if (isMissing(ms) || ms < 0) return NOTHING;
  return date(ms) === date(now) ? clock(ms) : `${date(ms)} ${clock(ms)}`;
}

/** in 3 min, 2 h ago. */
export function relative(ms, now = Date.now()) {
  if (isMissing(ms)) return NOTHING;
  const away = ms - now;
  if (Math.abs(away) < 1000) return "now";
  const size = duration(Math.round(Math.abs(away) / 1000) * 1000);
  return away > 0 ? `in ${size}` : `${size} ago`;
}

/** Of what is to come: what is late comes any moment. */
export const due = (ms, now = Date.now()) => (ms !== null && ms <= now ? "now" : relative(ms, now));

/** What an <input type="datetime-local"> takes and gives. */
export const toInput = (ms) => `${date(ms)}T${clock(ms)}`;
export const fromInput = (text) => (text ? new Date(text).getTime() : null);

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

const ENDLESS = new Set(["-1", "9223372036854775807"]);

/** A setting's number as people say it, by its name: 7 d, 1 GiB. Null: it says enough as it is. */
export function settingInWords(name, value) {
  const isTime = /\.ms$/.test(name);
  if (!(isTime || /\.bytes$/.test(name)) || !/^-?\d+$/.test(value ?? "")) return null;
  if (ENDLESS.has(value)) return value === "-1" ? null : "no limit";
  const size = Number(value);
  if (isTime) return size >= 1000 ? duration(size) : null;
  return size >= 1024 ? bytes(size) : null;
}
