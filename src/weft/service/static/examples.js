// Queries to begin with, made from the streams that are declared.

const NUMBER = /^(tinyint|smallint|int|integer|bigint|float|double|decimal)/i;
const EXACT = /^(tinyint|smallint|int|integer|bigint|string|boolean)/i;

/** Examples {title, sql}: a selection, an aggregation and, if two streams have a column in common, a join. */
export function examples(streams) {
  if (!streams.length) return [];
  const [stream] = streams;
  return [
    { title: `Rows of ${stream.name}`, sql: selection(stream) },
    { title: `Counts of ${stream.name} every 10 seconds`, sql: aggregation(stream) },
    ...joins(streams),
  ];
}

/** The address of the editor with this text in it. */
export function editorLink(sql) {
  return `#/new?sql=${encodeURIComponent(sql)}`;
}

function selection(stream) {
  const column = stream.columns.find(({ type }) => NUMBER.test(type));
  return `SELECT *\nFROM ${quoted(stream.name)}${column ? `\nWHERE ${quoted(column.name)} > 10` : ""}`;
}

function aggregation(stream) {
  const key = stream.columns.find(({ name, type }) => name !== stream.time && EXACT.test(type));
  const window = `FROM ${quoted(stream.name)} [TUMBLE 10 SECONDS]`;
  if (!key) return `SELECT window_start, COUNT(*) AS n\n${window}`;
  return `SELECT ${quoted(key.name)}, window_start, COUNT(*) AS n\n${window}\nGROUP BY ${quoted(key.name)}`;
}

function joins(streams) {
  for (const [place, left] of streams.entries()) {
    for (const right of streams.slice(place + 1)) {
      const same = ({ name, type }) => right.columns.some((other) => other.name === name && other.type === type);
      const key = left.columns.find((column) => column.name !== left.time && EXACT.test(column.type) && same(column));
      if (key) return [{ title: `Join of ${left.name} and ${right.name}`, sql: join(left, right, quoted(key.name)) }];
    }
  }
  return [];
}

function join(left, right, key) {
  return [
    `SELECT l.${key}, l.${quoted(left.time)} AS left_time, r.${quoted(right.time)} AS right_time`,
    `FROM ${quoted(left.name)} [RANGE 10 SECONDS] l`,
    `JOIN ${quoted(right.name)} [RANGE 10 SECONDS] r ON l.${key} = r.${key}`,
  ].join("\n");
}

function quoted(name) {
  return /^[A-Za-z_]\w*$/.test(name) ? name : `\`${name.replaceAll("`", "``")}\``;
}
