// The plan as boxes and where they are: queries that use the same operators are one box. No elements here.

const KINDS = ["stream", "selection", "store", "join", "aggregate", "query"];
const SWEEPS = 6;

export const BOX = { width: 168, height: 52 };
const GAP = { x: 52, y: 12 };
const MARGIN = { x: 12, top: 34, bottom: 12 };
const FIRST_SCREEN = 460; // short columns are centred in what is seen without scrolling

/** Boxes {id, kind, members, queries, column, x, y} and edges {from, to} (boxes), with the size of the whole. */
export function layOut(plan) {
  const { boxes, edges } = grouped(plan);
  const columns = order(inColumns(boxes, edges), edges);
  const heights = columns.map(({ length }) => length * (BOX.height + GAP.y) - GAP.y);
  const tallest = Math.max(0, ...heights);
  columns.forEach((column, place) => {
    const top = MARGIN.top + Math.max(0, (Math.min(tallest, FIRST_SCREEN) - heights[place]) / 2);
    const x = MARGIN.x + place * (BOX.width + GAP.x);
    column.forEach((box, index) => Object.assign(box, { column: place, x, y: top + index * (BOX.height + GAP.y) }));
  });
  return {
    boxes,
    edges,
    columns,
    width: 2 * MARGIN.x + Math.max(1, columns.length) * (BOX.width + GAP.x) - GAP.x,
    height: MARGIN.top + tallest + MARGIN.bottom,
  };
}

/** The boxes and edges to draw. */
export function grouped({ nodes, edges }) {
  const used = operatorsByQuery(nodes);
  const drawn = new Map(); // the id of the node that each is drawn as
  const first = new Map();
  for (const { id, kind } of nodes) {
    const way = kind === "query" ? (used.get(queryName(id)) ?? []).join() : id;
    if (!first.has(way)) first.set(way, id);
    drawn.set(id, first.get(way));
  }
  const boxes = boxesOf(nodes, drawn);
  return { boxes: [...boxes.values()], edges: edgesOf(edges, drawn, boxes) };
}

/** The name of a query from the id of its node. */
export function queryName(id) {
  return id.replace(/^query:/, "");
}

function operatorsByQuery(nodes) {
  const used = new Map();
  for (const { id, kind, queries } of nodes) {
    if (kind === "query") continue;
    for (const name of queries) {
      if (!used.has(name)) used.set(name, []);
      used.get(name).push(id);
    }
  }
  return used;
}

function boxesOf(nodes, drawn) {
  const boxes = new Map();
  for (const node of nodes) {
    const id = drawn.get(node.id);
    if (!boxes.has(id)) boxes.set(id, { id, kind: node.kind, members: [], queries: new Set() });
    const box = boxes.get(id);
    box.members.push(node);
    const names = node.kind === "query" ? [queryName(node.id)] : node.queries;
    for (const name of names) box.queries.add(name);
  }
  return boxes;
}

function edgesOf(edges, drawn, boxes) {
  const seen = new Set();
  const result = [];
  for (const [from, to] of edges) {
    const ends = [drawn.get(from), drawn.get(to)];
    const key = ends.join("\n");
    if (!ends.every((end) => boxes.has(end)) || seen.has(key)) continue;
    seen.add(key);
    result.push({ from: boxes.get(ends[0]), to: boxes.get(ends[1]) });
  }
  return result;
}

/** Columns from left to right: by kind, but always to the right of what a box reads; queries come last. */
function inColumns(boxes, edges) {
  const inputs = new Map(boxes.map((box) => [box, []]));
  for (const { from, to } of edges) inputs.get(to).push(from);
  const ranks = new Map();
  const rank = (box) => {
    if (!ranks.has(box)) {
      ranks.set(box, Math.max(0, KINDS.indexOf(box.kind))); // what is found on a cycle
      ranks.set(box, Math.max(ranks.get(box), ...inputs.get(box).map((input) => rank(input) + 1)));
    }
    return ranks.get(box);
  };
  const last = 1 + Math.max(-1, ...boxes.filter(({ kind }) => kind !== "query").map(rank));
  const columns = Array.from({ length: last + 1 }, () => []);
  for (const box of boxes) columns[box.kind === "query" ? last : ranks.get(box)].push(box);
  return columns.filter(({ length }) => length);
}

/** Boxes near those they are connected with: each column by the mean place of its neighbours, back and forth. */
function order(columns, edges) {
  const near = new Map(columns.flat().map((box) => [box, []]));
  for (const { from, to } of edges) {
    near.get(from).push(to);
    near.get(to).push(from);
  }
  const places = new Map();
  const settle = (column) => column.forEach((box, index) => places.set(box, (index + 0.5) / column.length));
  for (const column of columns) {
    column.sort((a, b) => label(a).localeCompare(label(b), "en", { numeric: true }));
    settle(column);
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      const wanted = (box) => mean(near.get(box).map((other) => places.get(other))) ?? places.get(box);
      const means = new Map(column.map((box) => [box, wanted(box)]));
      column.sort((a, b) => means.get(a) - means.get(b));
      settle(column);
    }
  }
  return columns;
}

function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

/** What is written on a box. */
export function label({ kind, members }) {
  if (kind !== "query") return members[0].title;
  return members.length > 1 ? `${members.length} queries` : queryName(members[0].id);
}

/** What lights up with a box: the operators of a query; the queries of an operator and what lies on their way. */
export function pathOf(box, { boxes, edges }) {
  const related = (other) => [...box.queries].some((name) => other.queries.has(name));
  if (box.kind === "query") {
    const lit = new Set(boxes.filter((other) => other === box || (other.kind !== "query" && related(other))));
    return { boxes: lit, edges: new Set(edges.filter(({ from, to }) => lit.has(from) && lit.has(to))) };
  }
  const before = reach(box, edges, "to", "from");
  const after = reach(box, edges, "from", "to");
  const kept = (found) => new Set([...found].filter((other) => other === box || related(other)));
  const [left, right] = [kept(before), kept(after)];
  const lit = new Set([...left, ...right, ...boxes.filter((other) => other.kind === "query" && related(other))]);
  const along = ({ from, to }) => (left.has(from) && left.has(to)) || (right.has(from) && right.has(to));
  return { boxes: lit, edges: new Set(edges.filter(along)) };
}

function reach(box, edges, near, far) {
  const found = new Set([box]);
  for (const each of found) for (const edge of edges) if (edge[near] === each) found.add(edge[far]);
  return found;
}
