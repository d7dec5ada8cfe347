// How the engine does: throughput, latency, where the time of batches goes, and its streams.

import { api } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { compact, count, duration, moment } from "../format.js";
import { live, reloading } from "../live.js";
import { Plot } from "../plot.js";
import { columnList, noStreams, problem, section, table } from "../widgets.js";

const LOST = ["Late", "Ahead", "Missed", "Bad rows", "Bad files"];
const HEADINGS = ["Stream", "Rows/s", "Rows", ...LOST, "Lateness", "Watermark"];
const MEANINGS = {
  Late: "Rows older than the watermark: dropped",
  Ahead: "Rows too far ahead of the clock: set aside",
  Missed: "Rows that joins or windows over other streams did not wait for",
  "Bad rows": "Rows that could not be read: set aside",
  "Bad files": "Files that could not be read: set aside",
};
const STREAMS_EVERY = 10000; // what ticks do not tell of them

/** A page of plots over the last batches, and of the streams. */
export function showMetrics(root, signal) {
  const plots = {
    rates: new Plot({ title: "Throughput: input rows per second", format: compact }),
    latencies: new Plot({ title: "Latency: event time to commit", format: duration }),
    phases: new Plot({ title: "Time of batches by phase", format: duration, stacked: true }),
    queries: new Plot({ title: "Live queries", format: compact }),
  };
  const streams = h("div", {}, h("p", { class: "muted" }, "Loading …"));
  root.append(
    h("div", { class: "title" }, h("h1", {}, "Metrics"), h("p", { class: "muted" }, "The last 120 batches")),
    h("div", { class: "two" }, Object.values(plots).map(({ element }) => element)),
    section("Streams", streams),
  );
  const draw = () => drawPlots(plots, live.batches);
  live.listen("tick", draw, signal);
  draw();
  showStreams(streams, signal);
}

function drawPlots({ rates, latencies, phases, queries }, batches) {
  const times = batches.map(({ at }) => at);
  const values = (name) => [{ name, values: batches.map((batch) => batch[name]) }];
  rates.update(times, values("rows_per_second"));
  latencies.update(times, values("latency_seconds"));
  queries.update(times, values("queries"));
  phases.update(times, phaseSeries(batches));
}

/** A series for each phase that any batch has, and one for the time that none accounts for. */
export function phaseSeries(batches) {
  const names = [...new Set(batches.flatMap(({ phases }) => Object.keys(phases ?? {})))];
  const series = names.map((name) => ({ name, values: batches.map(({ phases }) => phases?.[name] ?? 0) }));
  const other = batches.map(({ seconds, phases }) => Math.max(0, seconds - sum(Object.values(phases ?? {}))));
  return other.some((value) => value > 0.0005) ? [...series, { name: "other", values: other }] : series;
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

function showStreams(place, signal) {
  let cells = new Map();
  const load = reloading(async () => {
    try {
      cells = drawStreams(place, await api.streams(signal));
    } catch (error) {
      if (!signal.aborted) fill(place, problem(error, { retry: load }));
    }
  }, signal);
  const timer = setInterval(load, STREAMS_EVERY);
  signal.addEventListener("abort", () => clearInterval(timer));
  const update = () => {
    for (const [name, { rows, rows_per_second }] of Object.entries(live.streams)) {
      if (!cells.has(name)) continue;
      setText(cells.get(name).rate, compact(rows_per_second));
      setText(cells.get(name).rows, count(rows));
    }
  };
  live.listen("tick", update, signal);
}

function drawStreams(place, streams) {
  const cells = new Map();
  if (!streams.length) {
    fill(place, noStreams());
    return cells;
  }
  const open = new Set([...place.querySelectorAll("details[open]")].map(({ dataset }) => dataset.name));
  const { element, body, row } = table("Streams", HEADINGS, { numeric: [1, 2, 3, 4, 5, 6, 7, 8] });
  for (const heading of element.querySelectorAll("th")) heading.title = MEANINGS[heading.textContent] ?? "";
  for (const stream of streams) {
    const parts = { rate: h("span", {}, compact(stream.rows_per_second)), rows: h("span", {}, count(stream.rows)) };
    cells.set(stream.name, parts);
    const name = h(
      "details",
      { open: open.has(stream.name), data: { name: stream.name } },
      h("summary", {}, h("b", {}, stream.name), " ", h("span", { class: "type" }, stream.format)),
      columnList(stream.columns, stream.time),
    );
    const { late_rows, ahead_rows, missed_rows, bad_rows, bad_files } = stream;
    const lost = [late_rows, ahead_rows, missed_rows, bad_rows, bad_files];
    const warned = lost.map((value) => h("span", { class: value ? "warned" : null }, count(value)));
    const times = [duration(stream.lateness_seconds), moment(stream.watermark)];
    body.append(row([name, parts.rate, parts.rows, ...warned, ...times]));
  }
  const focused = document.activeElement?.closest("details")?.dataset.name;
  fill(place, element);
  if (focused) place.querySelector(`details[data-name="${CSS.escape(focused)}"] summary`)?.focus();
  return cells;
}
