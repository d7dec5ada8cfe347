// The newest rows of a query, as they are committed.

import { queryPath } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { cell, counted } from "./format.js";
import { EventStream } from "./stream.js";
import { sentence } from "./widgets.js";

const KEPT = 200;
const FEW = 5000; // so many rows that were committed before are read again without being asked for
const NUMBER = /^(tinyint|smallint|int|bigint|float|double|decimal)/i;

/** A table of the last rows of a query, with buttons to pause and to begin again. */
export class Follow {
  constructor(query, signal) {
    this.query = query;
    this.columns = query.columns ?? [];
    this.paused = false;
    this.#build();
    signal.addEventListener("abort", () => this.stream?.stop());
    this.begin(query.rows !== null && query.rows <= FEW);
  }

  #build() {
    this.pause = h("button", { type: "button", "aria-pressed": "false", on: { click: () => this.#toggle() } }, "Pause");
    const again = h("button", { type: "button", on: { click: () => this.begin(true) } }, "From the beginning");
    const now = h("button", { type: "button", on: { click: () => this.begin(false) } }, "New rows only");
    this.state = h("p", { class: "muted", role: "status" });
    this.notice = h("p", { class: "notice", role: "status", hidden: true });
    this.numbers = h("p", { class: "muted" });
    this.head = h("tr", {});
    this.body = h("tbody", {});
    const caption = h("caption", { class: "hidden" }, "Newest rows first");
    const rows = h("table", { class: "rows" }, caption, h("thead", {}, this.head), this.body);
    this.element = h(
      "section",
      { class: "card follow", "aria-labelledby": "follow-title" },
      h("div", { class: "title" }, h("h2", { id: "follow-title" }, "Results"), this.state),
      h("div", { class: "toolbar" }, this.pause, again, now, this.numbers),
      this.notice,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows" }, rows),
    );
  }

  /** Read the rows from the first on, or only those that are still to come. */
  begin(fromTheBeginning) {
    this.stream?.stop();
    this.rows = [];
    this.seen = 0;
    this.whole = fromTheBeginning;
    this.ended = false;
    this.notice.hidden = true;
    this.#setPaused(false);
    this.#draw();
    this.stream = new EventStream(queryPath(this.query.name, `/follow${fromTheBeginning ? "" : "?after=now"}`), {
      on: {
        columns: (columns) => this.#name(columns),
        rows: ({ rows }) => this.#add(rows),
        gap: ({ message }) => this.#tell(message),
        throttled: ({ message }) => this.#tell(message),
        end: (end) => this.#end(end),
      },
      state: (state, { error } = {}) => this.#connected(state, error),
    });
  }

  #connected(state, error) {
    const texts = {
      connecting: "Connecting …",
      open: "Following",
      lost: "Connection lost; trying again …",
      denied: sentence(error?.message ?? "not allowed"),
    };
    setText(this.state, texts[state]);
    this.#draw();
  }

  #name(columns) {
    this.columns = columns;
    this.#draw();
  }

  #add(rows) {
    this.seen += rows.length;
    this.rows = [...rows.slice(-KEPT).reverse(), ...this.rows].slice(0, KEPT);
    this.#draw();
  }

  #tell(message) {
    this.notice.hidden = false;
    setText(this.notice, sentence(message));
  }

  #end({ state, error }) {
    this.stream.stop();
    const why = state === "failed" && error ? `The query has failed: ${error}` : `The query is ${state}`;
    setText(this.state, `${why}; nothing more will come.`);
    this.ended = true;
    this.#draw();
  }

  #toggle() {
    this.#setPaused(!this.paused);
    this.#draw();
  }

  /** While paused the table stays as it is; the connection goes on, and so does the count. */
  #setPaused(paused) {
    this.paused = paused;
    this.seenWhenPaused = this.seen;
    this.pause.setAttribute("aria-pressed", String(paused));
    setText(this.pause, paused ? "Resume" : "Pause");
  }

  /** Rows may come faster than screens change. */
  #draw() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = 0;
      this.#drawNow();
    });
  }

  #drawNow() {
    if (this.paused) {
      setText(this.numbers, `Paused; ${counted(this.seen - this.seenWhenPaused, "newer row")}`);
      return;
    }
    const kept = this.seen > KEPT ? `, the last ${KEPT} are shown` : "";
    setText(this.numbers, `${counted(this.seen, "row")} read${kept}`);
    const numeric = this.columns.map(({ type }) => NUMBER.test(type));
    if (this.head.dataset.names !== JSON.stringify(this.columns)) {
      this.head.dataset.names = JSON.stringify(this.columns);
      const heading = ({ name, type }, place) =>
        h("th", { scope: "col", title: type, class: numeric[place] ? "number" : null }, name);
      fill(this.head, this.columns.map(heading));
    }
    const cells = (row) => row.map((value, place) => h("td", { class: cellClass(value, numeric[place]) }, cell(value)));
    fill(this.body, this.rows.length ? this.rows.map((row) => h("tr", {}, cells(row))) : this.#none());
  }

  #none() {
    const text = this.ended
      ? `It has no rows${this.whole ? "" : " that are new; choose “From the beginning”"}.`
      : "No row has come yet. Rows appear with the next batch that finds any.";
    return h("tr", {}, h("td", { class: "empty", colspan: String(Math.max(1, this.columns.length)) }, text));
  }
}

function cellClass(value, numeric) {
  if (value === null) return "null";
  return numeric ? "number" : null;
}
