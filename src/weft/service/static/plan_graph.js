// The plan as a graph: boxes are buttons, edges are SVG behind them.

import { fill, h, setText, svg } from "./dom.js";
import { compact, counted } from "./format.js";
import { live } from "./live.js";
import { BOX, label, layOut, pathOf, queryName } from "./plan_layout.js";

const ZOOM = { least: 0.3, most: 1.6, step: 1.2 };
const HEADINGS = {
  stream: "Streams",
  selection: "Selections",
  store: "Stores",
  join: "Joins",
  aggregate: "Aggregates",
  query: "Queries",
};

/** A graph with one tab stop: arrow keys go from box to box. `chosen` is told the box that was clicked, or null. */
export class PlanGraph {
  constructor({ chosen }) {
    this.chosen = chosen;
    this.zoom = null;
    this.pinned = null;
    this.boxes = new Map();
    this.edges = svg("svg", { class: "edges", "aria-hidden": "true" });
    this.board = h("div", { class: "board" });
    this.sizer = h("div", { class: "sizer" }, this.board);
    const name = "Shared plan; use the arrow keys to go from box to box";
    this.element = h("div", { class: "graph", role: "group", "aria-label": name }, this.sizer);
    this.board.addEventListener("pointerover", (event) => this.#light(this.#boxAt(event)));
    this.board.addEventListener("pointerleave", () => this.#light(null));
    this.board.addEventListener("focusin", (event) => this.#focused(this.#boxAt(event)));
    this.board.addEventListener("focusout", () => this.#light(null));
    this.board.addEventListener("click", (event) => this.#pin(this.#boxAt(event)));
    this.board.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
  }

  /** Draw a plan; focus and what is pinned stay on the boxes they are on. Where a box is gone, the focus stays in the
   *  graph: who uses the keyboard must not begin at the top of the page again. */
  show(plan) {
    const focused = document.activeElement?.dataset?.box;
    const pinned = this.pinned?.id;
    this.layout = layOut(plan);
    this.boxes = new Map(this.layout.boxes.map((box) => [box.id, box]));
    const { width, height } = this.layout;
    fill(this.edges, this.layout.edges.map((edge) => (edge.path = svg("path", { class: "edge", d: curve(edge) }))));
    this.edges.setAttribute("width", width);
    this.edges.setAttribute("height", height);
    fill(this.board, this.edges, this.layout.columns.map(heading), this.layout.boxes.map((box) => this.#button(box)));
    this.zoom ??= this.#fitting();
    this.setZoom(this.zoom);
    this.update();
    this.pinned = this.boxes.get(pinned) ?? null;
    this.pinned?.button.classList.add("pinned");
    const stop = this.boxes.get(focused) ?? this.pinned ?? this.layout.columns[0]?.[0];
    this.#stop(stop);
    if (focused && stop) stop.button.focus({ preventScroll: true });
    else this.#light(null);
  }

  /** Rates of the last tick, as numbers and as the width of edges. */
  update() {
    if (!this.layout) return;
    for (const box of this.layout.boxes) {
      box.rate = rateOf(box);
      setText(box.figure, box.rate === null ? "" : `${compact(box.rate)}/s`);
    }
    for (const { from, to, path } of this.layout.edges) {
      path.setAttribute("stroke-width", thickness(to.kind === "query" ? to.rate : (from.rate ?? to.rate)));
    }
  }

  /** Make everything larger or smaller. */
  setZoom(zoom) {
    this.zoom = Math.min(ZOOM.most, Math.max(ZOOM.least, zoom));
    this.board.style.transform = `scale(${this.zoom})`;
    for (const [side, size] of Object.entries({ width: this.layout.width, height: this.layout.height })) {
      this.board.style[side] = `${size}px`;
      this.sizer.style[side] = `${size * this.zoom}px`;
    }
  }

  zoomIn() {
    this.setZoom(this.zoom * ZOOM.step);
  }

  zoomOut() {
    this.setZoom(this.zoom / ZOOM.step);
  }

  fit() {
    this.setZoom(this.#fitting(ZOOM.least));
  }

  /** So that all columns are seen, unless they would become too small to read. */
  #fitting(least = 0.72) {
    return Math.max(least, Math.min(1, (this.element.clientWidth - 2) / this.layout.width));
  }

  #button(box) {
    const [text, name] = [label(box), described(box)];
    box.figure = h("span", { class: "figure" });
    box.button = h(
      "button",
      { type: "button", class: `box ${box.kind}`, title: name, "aria-label": name, data: { box: box.id } },
      h("span", { class: "kind" }, box.kind),
      box.figure,
      h("span", { class: "text" }, text),
    );
    box.button.tabIndex = -1;
    box.button.style.left = `${box.x}px`;
    box.button.style.top = `${box.y}px`;
    return box.button;
  }

  #boxAt(event) {
    return this.boxes.get(event.target.closest?.("[data-box]")?.dataset.box) ?? null;
  }

  /** Light up the path of a box; with none, that of the one with the focus, or of the pinned one. */
  #light(box) {
    const source = box ?? this.boxes.get(document.activeElement?.dataset?.box) ?? this.pinned;
    if (source === this.lit && source?.button.classList.contains("source")) return;
    this.lit = source;
    this.board.classList.toggle("lighting", source !== null);
    const path = source ? pathOf(source, this.layout) : null;
    for (const each of this.layout.boxes) {
      each.button.classList.toggle("lit", path?.boxes.has(each) ?? false);
      each.button.classList.toggle("source", each === source);
    }
    for (const edge of this.layout.edges) edge.path.classList.toggle("lit", path?.edges.has(edge) ?? false);
  }

  #focused(box) {
    if (!box) return;
    this.#stop(box);
    this.#light(box);
  }

  /** The one box that the tab key comes to. */
  #stop(box) {
    this.stop?.button.setAttribute("tabindex", "-1");
    this.stop = box ?? null;
    box?.button.setAttribute("tabindex", "0");
  }

  #pin(box) {
    this.pinned = box && box !== this.pinned ? box : null;
    for (const each of this.layout.boxes) each.button.classList.toggle("pinned", each === this.pinned);
    this.#light(box);
    this.chosen(this.pinned);
  }

  #key(event) {
    const box = this.#boxAt(event);
    if (!box) return;
    if (event.key === "Escape") this.#pin(null);
    const next = this.#neighbour(box, event.key);
    if (!next) return;
    event.preventDefault();
    next.button.focus();
    next.button.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #neighbour(box, key) {
    const { columns } = this.layout;
    const column = columns[box.column];
    const index = column.indexOf(box);
    const away = (other) => Math.abs(other.y - box.y);
    const nearest = (boxes) => boxes?.reduce((best, other) => (away(other) < away(best) ? other : best));
    switch (key) {
      case "ArrowUp":
        return column[index - 1];
      case "ArrowDown":
        return column[index + 1];
      case "ArrowLeft":
        return nearest(columns[box.column - 1]);
      case "ArrowRight":
        return nearest(columns[box.column + 1]);
      case "Home":
        return column[0];
      case "End":
        return column.at(-1);
      default:
        return undefined;
    }
  }

  #wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.setZoom(this.zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
  }
}

function rateOf({ members }) {
  const known = members.map(currentRate).filter((each) => typeof each === "number");
  return known.length ? known.reduce((sum, each) => sum + each, 0) : null;
}

/** Rows per second of a node now; ticks leave out operators that no row has come to lately. */
export function currentRate({ id, kind, title, rows_per_second }) {
  if (kind === "stream") return live.streams[title]?.rows_per_second ?? rows_per_second;
  if (kind === "query") return live.queries[queryName(id)]?.rows_per_second ?? rows_per_second;
  return live.operators[id] ?? (rows_per_second === null ? null : 0);
}

/** From 1 to 9 pixels, more with every ten times as many rows. */
function thickness(rows) {
  return Math.min(9, 1 + 1.6 * Math.log10(1 + Math.max(0, rows ?? 0) / 10)).toFixed(2);
}

function curve({ from, to }) {
  const [x1, y1] = [from.x + BOX.width, from.y + BOX.height / 2];
  const [x2, y2] = [to.x, to.y + BOX.height / 2];
  const bend = Math.max(24, (x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

function heading(column) {
  const kinds = [...new Set(column.map(({ kind }) => HEADINGS[kind] ?? kind))];
  const element = h("span", { class: "column" }, kinds.join(", "));
  element.style.left = `${column[0].x}px`;
  return element;
}

const several = (box) => box.members.length > 1;

function described(box) {
  const [first] = box.members;
  if (box.kind === "query") return several(box) ? `${label(box)} with the same operators` : `query ${label(box)}`;
  const users = counted(box.queries.size + (first.others ?? 0), "query", "queries");
  return [`${box.kind}: ${first.title}`, first.detail, `used by ${users}`].filter(Boolean).join("; ");
}
