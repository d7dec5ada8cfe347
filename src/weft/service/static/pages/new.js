// The editor for a new query: checked as it is typed, and what it would add is shown before it is created.

import { api } from "../api.js";
import { debounce, fill, h } from "../dom.js";
import { SqlEditor, lineOf } from "../editor.js";
import { examples } from "../examples.js";
import { counted, percent, rate } from "../format.js";
import {
  announce,
  columnList,
  noStreams,
  operatorText,
  problem,
  queryLink,
  section,
  sentence,
  usedBy,
} from "../widgets.js";

const DELAY = 300;

let draft = { sql: "", name: "" }; // what was typed is there again after a look at another page

/** A page to write a query on; the address may bring its text. */
export function showNew(root, signal) {
  const given = new URLSearchParams(location.hash.split("?")[1] ?? "").get("sql");
  if (given !== null) draft = { sql: given, name: "" };
  new Editor(root, signal);
}

class Editor {
  constructor(root, signal) {
    this.signal = signal;
    this.verdict = h("div", { id: "verdict", class: "verdict", role: "status", "aria-live": "polite" });
    this.panel = h("div", { class: "what-if" });
    this.samples = h("div", { class: "samples" });
    this.streams = h("div", {});
    this.check = debounce(() => this.#check(), DELAY);
    this.sql = new SqlEditor({
      label: "SQL",
      describedBy: "verdict",
      changed: () => this.#changed(),
      submit: () => this.#create(),
    });
    this.name = h("input", {
      id: "name",
      autocomplete: "off",
      spellcheck: "false",
      maxlength: "128",
      pattern: "[A-Za-z0-9_][A-Za-z0-9_.\\-]*",
      "aria-describedby": "name-help",
      on: { input: () => (draft.name = this.name.value) },
    });
    this.button = h("button", { class: "primary", type: "submit" }, "Create query");
    this.trouble = h("div", { "aria-live": "assertive" });
    this.#lay(root);
    this.sql.value = draft.sql;
    this.name.value = draft.name;
    this.sql.focus();
    this.#check();
    this.#help();
  }

  #lay(root) {
    const submit = (event) => {
      event.preventDefault();
      this.#create();
    };
    const name = h(
      "div",
      { class: "field" },
      h("label", { for: "name" }, "Name ", h("span", { class: "muted" }, "(optional)")),
      this.name,
      h("small", { id: "name-help", class: "muted" }, "Letters, digits, underscores, dots and dashes."),
    );
    const keys = h("span", { class: "muted keys" }, h("kbd", {}, "Ctrl"), "+", h("kbd", {}, "Enter"));
    root.append(
      h("div", { class: "title" }, h("h1", {}, "New query")),
      h(
        "div",
        { class: "two wide-left" },
        h(
          "form",
          { class: "card", on: { submit } },
          this.samples,
          this.sql.element,
          this.verdict,
          name,
          this.trouble,
          h("div", { class: "actions" }, this.button, keys),
        ),
        section("What it would add", this.panel),
      ),
      section("Streams", this.streams),
    );
  }

  #changed() {
    draft.sql = this.sql.value;
    this.checking?.abort();
    this.check();
  }

  /** Ask whether the text is a query, and if so what creating it would add; an answer to older text is of no use. */
  async #check() {
    this.check.cancel();
    this.checking?.abort();
    const checking = new AbortController();
    this.checking = checking;
    const { signal } = checking;
    this.signal.addEventListener("abort", () => checking.abort(), { once: true });
    const sql = this.sql.value;
    if (!sql.trim()) {
      this.#judge("", "Write a query, or begin with an example.");
      fill(this.panel, muted("Which operators it would share with others, and which would be new."));
      return;
    }
    try {
      const checked = await api.validate(sql, signal);
      if (!checked.ok) {
        this.#refuse(checked);
        return;
      }
      this.#judge("good", `Valid: ${counted(checked.columns.length, "column")}.`, checked.notices);
      this.#show(await api.whatIf(sql, signal));
    } catch (error) {
      if (signal.aborted) return;
      if (error.status >= 400 && error.status < 500) this.#refuse(error);
      else fill(this.panel, problem(error, { retry: () => this.#check() }));
    }
  }

  #refuse({ message, detail, hint }) {
    this.sql.mark(lineOf(message));
    this.sql.area.setAttribute("aria-invalid", "true");
    this.#judge("bad", sentence(message), [detail, hint]);
    fill(this.panel, muted("Shown once the query is valid."));
  }

  #judge(kind, text, more = []) {
    this.verdict.className = `verdict ${kind}`;
    fill(this.verdict, h("p", {}, text), (more ?? []).filter(Boolean).map((line) => h("p", { class: "hint" }, line)));
  }

  #show({ columns, notices, operators, cost_alone, cost_added, text }) {
    const used = operators.filter(({ kind }) => kind !== "query");
    const fresh = used.filter((operator) => operator.new);
    const shared = used.length - fresh.length;
    fill(
      this.panel,
      h("p", {}, h("b", {}, `${shared} shared, ${fresh.length} new`), ` of ${counted(used.length, "operator")}`),
      h("p", { class: "cost" }, costText(cost_added, cost_alone)),
      (notices ?? []).map((notice) => h("p", { class: "notice" }, notice)),
      h("ul", { class: "operators" }, used.map(operatorItem)),
      h("h3", {}, "Output columns"),
      columnList(columns),
      h("details", {}, h("summary", {}, "Plan as text"), h("pre", { tabindex: "0" }, text)),
    );
  }

  async #create() {
    if (this.button.disabled) return;
    if (!this.name.checkValidity()) {
      this.name.reportValidity();
      return;
    }
    this.button.disabled = true;
    fill(this.trouble);
    const name = this.name.value.trim();
    try {
      const query = await api.create({ sql: this.sql.value, ...(name ? { name } : {}) });
      draft = { sql: "", name: "" };
      announce(`Query ${query.name} created.`);
      if (!this.signal.aborted) location.hash = queryLink(query.name);
    } catch (error) {
      this.button.disabled = false;
      fill(this.trouble, problem(error));
      (error.code === "duplicate_query" || error.code === "invalid_name" ? this.name : this.sql).focus();
    }
  }

  /** Examples and the columns of streams, to write with. */
  async #help() {
    try {
      const streams = await api.streams(this.signal);
      fill(this.streams, streams.length ? h("div", { class: "stream-help" }, streams.map(streamHelp)) : noStreams());
      const button = ({ title, sql }) =>
        h("button", { type: "button", class: "quiet", on: { click: () => this.#take(sql) } }, title);
      if (streams.length) fill(this.samples, h("span", { class: "muted" }, "Examples:"), examples(streams).map(button));
    } catch (error) {
      if (!this.signal.aborted) fill(this.streams, problem(error));
    }
  }

  #take(sql) {
    this.sql.value = sql;
    draft.sql = sql;
    this.sql.focus();
    this.#check();
  }
}

function muted(text) {
  return h("p", { class: "muted" }, text);
}

/** The marginal cost of a query, beside what it would cost without the others. */
function costText(added, alone) {
  if (!alone) return "What it costs is known once its streams have rows.";
  const saved = 1 - added / alone;
  const than = `, ${percent(saved)} less than the ${rate(alone)} it would be alone.`;
  return [h("b", {}, `Adds ${rate(added)} of work`), saved > 0 ? than : ": nothing of it is shared."];
}

function operatorItem(operator) {
  const used = operator.new ? `${rate(operator.takes)}, for this query only` : `with ${usedBy(operator)}`;
  const word = operator.new ? "new" : "shared";
  return h("li", {}, h("span", { class: `badge ${word}` }, word), operatorText(operator, used));
}

function streamHelp({ name, columns, time, format }) {
  return h(
    "details",
    { open: true },
    h("summary", {}, h("b", {}, name), " ", h("span", { class: "type" }, format)),
    columnList(columns, time),
  );
}
