// One query: its text, how it does, what it shares, and its rows.

import { api } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { editorLink } from "../examples.js";
import { Follow } from "../follow.js";
import { compact, count, counted, duration, moment } from "../format.js";
import { current, hasEnded, live, reloading } from "../live.js";
import { Plot } from "../plot.js";
import { coloured } from "../sql.js";
import {
  announce,
  badge,
  columnList,
  confirmDrop,
  emptyState,
  operatorText,
  problem,
  section,
  setBadge,
  table,
  usedBy,
} from "../widgets.js";

const FACTS = ["Rows/s", "Latency", "Rows so far", "Complete from", "Live after", "Reads"];

/** A page for the query of this name. */
export function showQuery(root, signal, name) {
  new QueryPage(root, signal, name);
}

class QueryPage {
  query = null;
  #state = "";
  #told = "";

  constructor(root, signal, name) {
    Object.assign(this, { root, signal, name });
    fill(root, h("div", { class: "title" }, h("h1", {}, name)), muted("Loading …"));
    this.reload = reloading(() => this.#load(), signal);
    live.listen("tick", () => this.query && this.#update(), signal);
  }

  async #load() {
    try {
      const query = await api.query(this.name, this.signal);
      const first = this.query === null;
      this.query = query;
      if (first) this.#build();
      this.#update();
      await this.#explain();
    } catch (error) {
      if (this.signal.aborted || this.query) return;
      const missing = error.status === 404 || error.code === "invalid_name";
      const said = missing ? unknown(this.name) : problem(error, { retry: () => this.reload() });
      fill(this.root, h("div", { class: "title" }, h("h1", {}, this.name)), said);
    }
  }

  #build() {
    const { query } = this;
    this.badge = badge(query.state);
    this.trouble = h("div", { "aria-live": "polite" });
    this.facts = Object.fromEntries(FACTS.map((title) => [title, h("dd", {})]));
    this.drop = h("button", { type: "button", class: "danger", on: { click: () => this.#drop() } }, "Drop");
    this.rates = new Plot({ title: "Result rows per second", format: compact });
    this.latencies = new Plot({ title: "Latency", format: duration, empty: "No batch with rows yet." });
    this.plan = h("div", {}, muted("Loading …"));
    this.follow = new Follow(query, this.signal);
    const copy = h("a", { class: "button", href: editorLink(query.sql) }, "Edit a copy");
    const actions = h("span", { class: "actions" }, copy, this.drop);
    const fact = ([title, value]) => h("div", {}, h("dt", {}, title), value);
    const text = h("pre", { class: "sql", tabindex: "0" }, coloured(query.sql));
    fill(
      this.root,
      h("div", { class: "title" }, h("h1", {}, query.name), this.badge, actions),
      this.trouble,
      h("dl", { class: "figures card" }, Object.entries(this.facts).map(fact)),
      h("div", { class: "two wide-left" }, section("SQL", text), section("Columns", columnList(query.columns))),
      this.follow.element,
      h("div", { class: "two" }, this.rates.element, this.latencies.element),
      section("What it shares", this.plan),
    );
  }

  #update() {
    const now = current(this.query);
    setBadge(this.badge, now.state);
    this.drop.hidden = hasEnded(now.state);
    setText(this.facts["Rows/s"], compact(now.rows_per_second));
    setText(this.facts.Latency, duration(now.latency_seconds));
    setText(this.facts["Rows so far"], count(now.rows));
    setText(this.facts["Complete from"], completeFrom(now));
    setText(this.facts["Live after"], now.deployment_ms === null ? "–" : duration(now.deployment_ms / 1000));
    setText(this.facts.Reads, (now.streams ?? []).join(", "));
    this.#troubles(now);
    const points = live.history(this.name, this.query.history);
    const times = points.map(({ at }) => at);
    this.rates.update(times, [{ name: "rows/s", values: points.map((point) => point.rows_per_second) }]);
    this.latencies.update(times, [{ name: "latency", values: points.map((point) => point.latency_seconds) }]);
    if (this.#state !== now.state && this.#state) announce(`Query ${this.name} is ${now.state}.`);
    this.#state = now.state;
  }

  /** What is wrong with it; drawn only when that changes. */
  #troubles({ error, sink_state, sink_error, notices = [] }) {
    const told = JSON.stringify([error, sink_state, sink_error, notices]);
    if (told === this.#told) return;
    this.#told = told;
    const guard = "Other queries go on. Guard the expression (NULLIF, CASE, TRY_CAST) in a copy and create that.";
    const command = `weft query resume-sink ${this.name}`;
    const resume = `It waits until somebody resumes it: ${command}. What is gone is noted as a gap.`;
    const again = "They stay readable here, and are delivered once the cause is removed.";
    const wait = sink_state === "failed" ? resume : again;
    fill(
      this.trouble,
      error && problem({ message: "the query has failed", detail: error, hint: guard }),
      sink_error && problem({ message: "its rows cannot be delivered", detail: sink_error, hint: wait }),
      notices.map((notice) => h("p", { class: "notice" }, notice)),
    );
  }

  async #explain() {
    try {
      const { text, operators } = await api.explain(this.name, this.signal);
      const open = this.plan.querySelector("details")?.open ?? false;
      const words = h("details", { open }, h("summary", {}, "Plan as text"), h("pre", { tabindex: "0" }, text));
      fill(this.plan, operatorTable(operators, this.name), words);
    } catch (error) {
      if (!this.signal.aborted) fill(this.plan, problem(error));
    }
  }

  async #drop() {
    if (!(await confirmDrop(this.name))) return;
    announce(`Query ${this.name} dropped.`);
    this.root.focus();
    this.reload();
  }
}

function operatorTable(operators, name) {
  const used = operators.filter(({ kind }) => kind !== "query");
  if (!used.length) return muted("It is not part of the plan at present.");
  const shared = used.filter((operator) => operator.queries.length + (operator.others ?? 0) > 1).length;
  const headings = ["Operator", "Rows/s", "Shared with"];
  const { element, body, row } = table("Operators of this query", headings, { numeric: [1] });
  const cells = (each) => [operatorText(each), compact(each.rows_per_second), usedBy(each, name)];
  body.append(...used.map((each) => row(cells(each))));
  const summary = `${shared} of ${counted(used.length, "operator")} are shared with other queries.`;
  return h("div", {}, muted(summary), element);
}

function completeFrom({ complete_from, state }) {
  if (complete_from) return moment(complete_from);
  return state === "pending" ? "–" : "the beginning";
}

function muted(text) {
  return h("p", { class: "muted" }, text);
}

function unknown(name) {
  const list = h("a", { href: "#/" }, "Go to the list of queries");
  const why = "It may have another name, or belong to another tenant.";
  return emptyState(`There is no query called ${name}`, h("p", {}, why), h("p", {}, list));
}
