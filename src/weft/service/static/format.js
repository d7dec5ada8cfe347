// Numbers, durations and moments as people read them.

const NOTHING = "–";
const UNITS = [
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** 1234567 → "1.23M": three significant digits, for rates. */
export function compact(value) {
  if (!isNumber(value)) return NOTHING;
  for (const [size, unit] of UNITS) {
    if (Math.abs(value) >= size * 0.9995) return `${trim((value / size).toPrecision(3))}${unit}`;
  }
  return Math.abs(value) >= 100 || Number.isInteger(value) ? String(Math.round(value)) : trim(value.toPrecision(2));
}

/** 1234567 → "1,234,567". */
export function count(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en") : NOTHING;
}

/** "1 query", "2 queries". */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Rows per second with their unit. */
export function rate(value) {
  return isNumber(value) ? `${compact(value)} rows/s` : NOTHING;
}

/** 0.934 → "93 %"; never all or nothing unless it is. */
export function percent(share) {
  if (!isNumber(share)) return NOTHING;
  const whole = Math.round(share * 100);
  if (whole === 100 && share < 1) return "over 99 %";
  return whole === 0 && share > 0 ? "under 1 %" : `${whole} %`;
}

/** Seconds as ms, s, min or h. */
export function duration(seconds) {
  if (!isNumber(seconds)) return NOTHING;
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 0.9995) return `${trim((seconds * 1000).toPrecision(size < 0.0995 ? 2 : 3))} ms`;
  if (size < 100) return `${trim(seconds.toPrecision(3))} s`;
  if (size < 6000) return `${Math.round(seconds / 60)} min`;
  return `${compact(Math.round(seconds / 3600))} h`;
}

/** A moment as seconds since 1970, from a number or an ISO text; NaN if it is neither. */
export function toSeconds(moment) {
  return typeof moment === "number" ? moment : Date.parse(moment) / 1000;
}

/** A moment as local time of day. */
export function clock(seconds) {
  return Number.isFinite(seconds) ? new Date(seconds * 1000).toLocaleTimeString("en-GB") : NOTHING;
}

/** An ISO moment as "2026-11-16 12:09:26 UTC". */
export function moment(text) {
  if (!text) return NOTHING;
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? String(text) : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** A value of a row. */
export function cell(value) {
  if (value === null || value === undefined) return "NULL";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function trim(text) {
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : String(Number(text));
}
