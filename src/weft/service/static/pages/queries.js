// The list of queries.

import { api } from "../api.js";
import { debounce, fill, h, setText } from "../dom.js";
import { editorLink, examples } from "../examples.js";
import { compact, counted, duration } from "../format.js";
import { current, live, reloading } from "../live.js";
import { Sparkline } from "../plot.js";
import { sharing, sharingText } from "../sharing.js";
import { coloured } from "../sql.js";
import {
  announce,
  badge,
  confirmDrop,
  emptyState,
  noStreams,
  problem,
  queryLink,
  setBadge,
  table,
} from "../widgets.js";

const SHOWN = 100;
const HEADINGS = ["Query", "State", "Rows/s", "Latency", "Shares", "Actions"];
const ORDERS = {
  name: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }),
  "most rows/s": (a, b) => (b.rows_per_second ?? 0) - (a.rows_per_second ?? 0),
  "highest latency": (a, b) => (b.latency_seconds ?? -1) - (a.latency_seconds ?? -1),
  state: (a, b) => b.state.localeCompare(a.state),
};

/** A page of all queries that the tenant may see. */
export function showQueries(root, signal) {
  new QueryList(root, signal);
}

class QueryList {
  queries = [];
  shared = new Map();
  rows = new Map();
  most = SHOWN;

  constructor(root, signal) {
    this.signal = signal;
    this.table = table("Queries", HEADINGS, { numeric: [2] });
    this.summary = h("p", { class: "muted", role: "status" }, "Loading …");
    this.place = h("div", {});
    this.filter = h("input", { id: "filter", type: "search", placeholder: "Name or SQL", autocomplete: "off" });
    this.state = select("state", ["live", "ended", "all"]);
    this.order = select("order", Object.keys(ORDERS));
    root.append(
      h("div", { class: "title" }, h("h1", {}, "Queries"), this.summary),
      h(
        "div",
        { class: "toolbar", role: "search" },
        labelled("Filter", this.filter),
        labelled("Show", this.state),
        labelled("Order by", this.order),
      ),
      this.place,
    );
    this.filter.addEventListener("input", debounce(() => this.#show(), 150));
    this.order.addEventListener("change", () => this.#show());
    this.reload = reloading(() => this.#load(), signal);
    this.state.addEventListener("change", () => this.reload());
    live.listen("tick", () => this.#update(), signal);
  }

  async #load() {
    try {
      const [queries, plan] = await Promise.all([api.queries(this.state.value, this.signal), api.plan(this.signal)]);
      this.queries = queries;
      this.shared = sharing(plan);
      if (queries.length || this.state.value !== "live") this.#show();
      else await this.#showNothing();
    } catch (error) {
      if (this.signal.aborted) return;
      setText(this.summary, "");
      fill(this.place, problem(error, { retry: () => this.reload() }));
    }
  }

  #show() {
    const wanted = this.filter.value.trim().toLowerCase();
    const matching = this.queries
      .filter(({ name, sql }) => name.toLowerCase().includes(wanted) || sql.toLowerCase().includes(wanted))
      .map(current)
      .sort(ORDERS[this.order.value]);
    setText(this.summary, this.#counted(matching.length));
    const rows = matching.slice(0, this.most).map((query) => this.#row(query));
    const names = new Set(this.queries.map(({ name }) => name));
    for (const name of this.rows.keys()) if (!names.has(name)) this.rows.delete(name);
    const elements = rows.map(({ element }) => element);
    const before = [...this.table.body.children];
    if (elements.length !== before.length || elements.some((element, place) => element !== before[place])) {
      keepFocus(() => this.table.body.replaceChildren(...elements));
    }
    const left = matching.length - rows.length;
    const text = `Show ${Math.min(left, SHOWN)} more of ${left}`;
    const more = h("button", { type: "button", on: { click: () => this.#showMore() } }, text);
    const none = wanted ? `No query has “${this.filter.value}” in its name or text.` : "There are none.";
    const content = rows.length ? this.table.element : h("p", { class: "empty card" }, none);
    if (this.place.firstChild !== content || left > 0 || this.place.children.length > 1) {
      keepFocus(() => fill(this.place, content, left > 0 && h("p", { class: "more" }, more)));
    }
    this.#update();
  }

  #showMore() {
    this.most += SHOWN;
    this.#show();
  }

  #counted(matching) {
    const all = counted(this.queries.length, "query", "queries");
    const pending = this.queries.filter(({ state }) => state === "pending").length;
    const waiting = pending ? `, ${pending} pending` : "";
    return matching === this.queries.length ? `${all}${waiting}` : `${matching} of ${all}`;
  }

  async #showNothing() {
    setText(this.summary, "No live query");
    const streams = await api.streams(this.signal);
    const [first] = examples(streams);
    fill(this.place, first ? noQueries(first.sql) : noStreams());
  }

  #row(query) {
    const known = this.rows.get(query.name);
    if (known?.query.sql === query.sql) {
      known.query = query;
      return known;
    }
    const row = { query, ...rowParts(query) };
    row.element = this.table.row([row.name, row.badge, row.rate, row.latency, row.shares, row.drop]);
    row.drop.addEventListener("click", () => this.#drop(query.name));
    this.rows.set(query.name, row);
    return row;
  }

  async #drop(name) {
    if (!(await confirmDrop(name))) return;
    announce(`Query ${name} dropped.`);
    this.filter.focus();
    this.reload();
  }

  /** Only rows on the page cost anything with a tick. */
  #update() {
    for (const { query, ...row } of this.rows.values()) {
      if (!row.element.isConnected) continue;
      const now = current(query);
      setBadge(row.badge, now.state);
      setText(row.rate, compact(now.rows_per_second));
      setText(row.seconds, duration(now.latency_seconds));
      const points = live.history(query.name, query.history);
      row.spark.update(points.map(({ latency_seconds }) => latency_seconds), duration(now.latency_seconds));
      setText(row.shares, now.state === "live" ? sharingText(this.shared.get(query.name)) : "–");
      row.drop.hidden = now.state !== "live" && now.state !== "pending";
    }
  }
}

function noQueries(sql) {
  return emptyState(
    "No queries yet",
    h("p", {}, "Create one here, on the command line or over HTTP. For example:"),
    h("pre", { class: "sql" }, coloured(sql)),
    h("p", {}, h("a", { class: "button primary", href: editorLink(sql) }, "Open it in the editor")),
  );
}

function rowParts(query) {
  const spark = new Sparkline("Latency of the last batches");
  const text = query.sql.replace(/\s+/g, " ");
  const seconds = h("span", { class: "value" });
  return {
    name: h(
      "div",
      { class: "name" },
      h("a", { href: queryLink(query.name) }, query.name),
      h("code", { class: "snippet", title: query.sql }, text),
    ),
    badge: badge(query.state),
    rate: h("span", {}),
    seconds,
    spark,
    latency: h("div", { class: "latency" }, spark.element, seconds),
    shares: h("span", { class: "shares" }),
    drop: h("button", { type: "button", class: "quiet danger", "aria-label": `Drop ${query.name}` }, "Drop"),
  };
}

/** Elements that are moved lose the focus: give it back. */
function keepFocus(change) {
  const focused = document.activeElement;
  change();
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

function select(id, options) {
  return h("select", { id }, options.map((option) => h("option", { value: option }, option)));
}

function labelled(text, field) {
  return h("div", { class: "field" }, h("label", { for: field.id }, text), field);
}
