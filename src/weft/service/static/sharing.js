// What queries share, read from the plan.

import { counted } from "./format.js";

/** For each query: how many operators it shares, streams apart, and with how many other queries. */
export function sharing(plan) {
  const shared = plan.nodes.filter((node) => node.kind !== "query" && users(node) > 1);
  const operators = new Map();
  shared.forEach((node, place) => {
    for (const name of node.queries) {
      if (!operators.has(name)) operators.set(name, []);
      operators.get(name).push(place);
    }
  });
  const known = new Map(); // queries that share the same are counted once
  const result = new Map();
  for (const [name, places] of operators) {
    const key = places.join(",");
    if (!known.has(key)) known.set(key, counts(places.map((place) => shared[place])));
    result.set(name, known.get(key));
  }
  return result;
}

function users(node) {
  return node.queries.length + (node.others ?? 0);
}

function counts(nodes) {
  const streams = nodes.filter(({ kind }) => kind === "stream");
  const operators = nodes.filter(({ kind }) => kind !== "stream");
  return { operators: operators.length, queries: partners(operators), streamQueries: partners(streams) };
}

/** Queries besides the one itself. Which ones of other tenants are the same is not told, so the most of them count. */
function partners(nodes) {
  const names = new Set(nodes.flatMap(({ queries }) => queries));
  return Math.max(0, names.size - 1) + Math.max(0, ...nodes.map(({ others }) => others ?? 0));
}

/** The same as words. */
export function sharingText(counts) {
  if (!counts) return "shares nothing";
  if (counts.operators) {
    return `shares ${counted(counts.operators, "operator")} with ${counted(counts.queries, "query", "queries")}`;
  }
  return `shares only reading, with ${counted(counts.streamQueries, "query", "queries")}`;
}
