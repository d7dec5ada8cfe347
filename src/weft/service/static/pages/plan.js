// The shared plan: a graph, what is known of the box that was chosen, and the plan as text.

import { api } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { editorLink, examples } from "../examples.js";
import { counted, rate } from "../format.js";
import { live, reloading } from "../live.js";
import { PlanGraph, currentRate } from "../plan_graph.js";
import { label } from "../plan_layout.js";
import { emptyState, problem, queryLink } from "../widgets.js";

/** A page of the plan that all queries share. */
export function showPlan(root, signal) {
  new PlanPage(root, signal);
}

class PlanPage {
  constructor(root, signal) {
    this.signal = signal;
    this.summary = h("p", { class: "muted", role: "status" }, "Loading …");
    this.details = h("aside", { class: "card chosen", "aria-live": "polite", "aria-label": "Chosen box" });
    this.details.hidden = true;
    this.graph = new PlanGraph({ chosen: (box) => this.#choose(box) });
    this.text = h("pre", { tabindex: "0" });
    this.words = h("details", { class: "card" }, h("summary", {}, "Plan as text"), this.text);
    this.place = h("div", {});
    const button = (text, name, click) => h("button", { type: "button", "aria-label": name, on: { click } }, text);
    this.tools = h(
      "div",
      { class: "toolbar" },
      button("−", "Zoom out", () => this.graph.zoomOut()),
      button("+", "Zoom in", () => this.graph.zoomIn()),
      button("Fit", "Fit to width", () => this.graph.fit()),
      h("span", { class: "muted keys" }, "Hover or use the arrow keys; Enter shows more."),
    );
    this.content = [this.tools, this.graph.element, this.details, this.words];
    root.append(h("div", { class: "title" }, h("h1", {}, "Shared plan"), this.summary), this.place);
    this.reload = reloading(() => this.#load(), signal);
    live.listen("tick", () => this.graph.update(), signal);
  }

  async #load() {
    try {
      this.plan = await api.plan(this.signal);
      if (this.plan.nodes.every(({ kind }) => kind === "stream")) await this.#showNothing();
      else this.#show();
    } catch (error) {
      if (this.signal.aborted) return;
      setText(this.summary, "");
      fill(this.place, problem(error, { retry: () => this.reload() }));
    }
  }

  #show() {
    const { nodes, text } = this.plan;
    const number = (kind) => nodes.filter((node) => node.kind === kind).length;
    const operators = nodes.length - number("query") - number("stream");
    const [queries, streams] = [counted(number("query"), "query", "queries"), counted(number("stream"), "stream")];
    setText(this.summary, `${queries} on ${counted(operators, "operator")} over ${streams}`);
    if (!this.graph.element.isConnected) fill(this.place, this.content);
    this.graph.show(this.plan);
    this.#choose(this.graph.pinned);
    setText(this.text, text);
    this.words.hidden = !text; // only administrators are told all of it
  }

  async #showNothing() {
    setText(this.summary, "");
    const [first] = examples(await api.streams(this.signal));
    const link = h("a", { class: "button primary", href: first ? editorLink(first.sql) : "#/new" }, "Create a query");
    const text = h("p", {}, "It shows how queries share their work, once there are any.");
    fill(this.place, emptyState("The plan is empty", text, h("p", {}, link)));
  }

  #choose(box) {
    this.details.hidden = !box;
    if (!box) return;
    const isQuery = box.kind === "query";
    const [{ others = 0, detail }] = box.members;
    const used = `Used by ${counted(box.queries.size, "query", "queries")}`;
    fill(
      this.details,
      h("h2", {}, h("span", { class: `kind ${box.kind}` }, box.kind), " ", label(box)),
      !isQuery && h("p", {}, detail, " ", h("span", { class: "type" }, rate(currentRate(box.members[0])))),
      h("h3", {}, isQuery ? "Queries with exactly these operators" : used),
      h("ul", { class: "names" }, [...box.queries].map((name) => h("li", {}, h("a", { href: queryLink(name) }, name)))),
      others > 0 && h("p", { class: "muted" }, `and by ${counted(others, "query", "queries")} of other tenants`),
    );
  }
}
