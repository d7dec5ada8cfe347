// Small parts that several pages use.

import { api } from "./api.js";
import { fill, h } from "./dom.js";
import { counted } from "./format.js";

/** The address of a query's page. */
export function queryLink(name) {
  return `#/queries/${encodeURIComponent(name)}`;
}

/** A state as a word on its colour. */
export function badge(state) {
  return h("span", { class: `badge ${state}` }, state);
}

/** Change a badge in place. */
export function setBadge(element, state) {
  if (element.textContent === state) return;
  element.className = `badge ${state}`;
  element.textContent = state;
}

/** What went wrong and what to do: an error of the service, or of a query. */
export function problem(error, { retry } = {}) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", {}, h("strong", {}, sentence(error.message))),
    error.detail && h("p", {}, error.detail),
    error.hint && h("p", { class: "hint" }, error.hint),
    retry && h("p", {}, h("button", { type: "button", on: { click: retry } }, "Try again")),
  );
}

/** A message of weft begins in lower case and has no full stop. */
export function sentence(message) {
  const text = String(message);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A place that holds nothing yet, and what to do about it. */
export function emptyState(title, ...children) {
  return h("div", { class: "empty-state card" }, h("h2", {}, title), children);
}

/** What to do where no stream is declared. */
export function noStreams() {
  const part = h("code", {}, "[[streams]]");
  return emptyState(
    "No streams yet",
    h("p", {}, "Queries read streams, and none is declared. Add ", part, " to the service’s configuration."),
    h("p", {}, "An administrator can also add one while it runs, with ", h("code", {}, "POST /v1/streams"), "."),
  );
}

/** A part of a page with a heading of its own. */
export function section(title, ...children) {
  const id = `${title.toLowerCase().replace(/\W+/g, "-")}-title`;
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), children);
}

/** Columns as a list of name and type; `time` is the one of the event time, if there is one. */
export function columnList(columns, time = null) {
  if (!columns?.length) return h("p", { class: "muted" }, "No columns.");
  const type = (column) => `${column.type}${column.name === time ? ", event time" : ""}`;
  return h(
    "ul",
    { class: "columns" },
    columns.map((column) => h("li", {}, h("code", {}, column.name), " ", h("span", { class: "type" }, type(column)))),
  );
}

/** A table whose rows become cards where there is little room: every cell knows the name of its column. */
export function table(caption, headings, { numeric = [] } = {}) {
  const body = h("tbody", { role: "rowgroup" });
  const head = h(
    "tr",
    { role: "row" },
    headings.map((text, place) =>
      h("th", { scope: "col", role: "columnheader", class: numeric.includes(place) ? "number" : null }, text),
    ),
  );
  const element = h(
    "table",
    { class: "cards", role: "table" },
    h("caption", { class: "hidden" }, caption),
    h("thead", { role: "rowgroup" }, head),
    body,
  );
  const row = (cells) =>
    h(
      "tr",
      { role: "row" },
      cells.map((content, place) =>
        h(
          "td",
          { role: "cell", class: numeric.includes(place) ? "number" : null, data: { label: headings[place] } },
          content,
        ),
      ),
    );
  return { element, body, row };
}

/** An operator in words; `more` is added below. */
export function operatorText({ kind, title, detail }, ...more) {
  return h(
    "div",
    { class: "operator" },
    h("span", { class: `kind ${kind}` }, kind),
    h("b", {}, title),
    detail && h("small", {}, detail),
    more.map((text) => h("small", {}, text)),
  );
}

/** Who else uses an operator, as text; `self` is left out. */
export function usedBy(operator, self = null) {
  const names = operator.queries.filter((name) => name !== self);
  const total = names.length + (operator.others ?? 0);
  if (!total) return self === null ? "no query" : "nobody else";
  const shown = names.slice(0, 5).join(", ");
  const left = total - Math.min(names.length, 5);
  if (!shown) return `${counted(total, "query", "queries")} of other tenants`;
  return left ? `${shown} and ${left} more` : shown;
}

/** Ask before dropping a query; resolves to whether it was dropped. */
export function confirmDrop(name) {
  return new Promise((resolve) => {
    const message = h("div", { "aria-live": "assertive" });
    const drop = h("button", { type: "button", class: "danger" }, "Drop query");
    const cancel = h("button", { type: "button", autofocus: true, on: { click: () => dialog.close() } }, "Keep it");
    const dialog = h(
      "dialog",
      { class: "confirm", "aria-labelledby": "confirm-title" },
      h("h2", { id: "confirm-title" }, "Drop ", h("code", {}, name), "?"),
      h("p", {}, "It stops at the next batch. Rows it has committed stay readable; other queries go on."),
      message,
      h("div", { class: "actions" }, cancel, drop),
    );
    let dropped = false;
    drop.addEventListener("click", async () => {
      drop.disabled = true;
      try {
        await api.drop(name);
        dropped = true;
        dialog.close();
      } catch (error) {
        drop.disabled = false;
        fill(message, problem(error));
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dropped);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Say something to those who listen to the page instead of looking at it. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}
