// SQL with colours: words, strings, numbers and windows.

import { h } from "./dom.js";

const WORDS = new Set(
  `ALL AND AS BETWEEN BY CASE CAST CROSS DATE DAY DAYS DISTINCT DIV ELSE END EXTRACT FALSE FROM GROUP HAVING HOUR HOURS
  ILIKE IN INNER INTERVAL IS JOIN LIKE MILLISECOND MILLISECONDS MINUTE MINUTES NOT NULL ON OR RANGE RLIKE SECOND SECONDS
  SELECT SESSION SLIDE THEN TIMESTAMP TRUE TRY_CAST TUMBLE UNBOUNDED USING WHEN WHERE`.split(/\s+/),
);
const PARTS = {
  comment: /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/,
  string: /'(?:[^'\\]|\\.)*'?/,
  name: /`[^`]*`?/,
  number: /\b\d[\w.]*/,
  word: /[A-Za-z_]\w*/,
  window: /[[\]]/,
};
const TOKEN = new RegExp(
  Object.entries(PARTS)
    .map(([kind, { source }]) => `(?<${kind}>${source})`)
    .join("|"),
  "g",
);

/** The text in parts {text, kind}; kind is empty for what has no colour. */
export function tokens(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [kind] = Object.entries(match.groups).find(([, value]) => value !== undefined);
    const plain = kind === "word" && !WORDS.has(match[0].toUpperCase());
    if (match.index > end) parts.push({ text: text.slice(end, match.index), kind: "" });
    parts.push({ text: match[0], kind: plain ? "" : kind });
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push({ text: text.slice(end), kind: "" });
  return parts;
}

/** The text as elements. */
export function coloured(text) {
  return tokens(text).map((part) => (part.kind ? h("span", { class: `sql-${part.kind}` }, part.text) : part.text));
}
