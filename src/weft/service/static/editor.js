// A text area for SQL with line numbers and colours. The text area itself stays what the browser makes of it.

import { fill, h } from "./dom.js";
import { coloured } from "./sql.js";

const FEWEST_LINES = 7;
const MOST_LINES = 22;

/** An editor; `changed` is called with every change of its text, `submit` for Ctrl+Enter. */
export class SqlEditor {
  constructor({ label, describedBy, changed, submit }) {
    this.gutter = h("pre", { class: "gutter", "aria-hidden": "true" });
    this.colours = h("pre", { class: "colours", "aria-hidden": "true" });
    this.area = h("textarea", {
      id: "sql",
      wrap: "off",
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      "aria-describedby": describedBy,
      placeholder: "SELECT … FROM … WHERE …",
    });
    this.element = h(
      "div",
      { class: "editor-box" },
      h("label", { for: "sql" }, label),
      h("div", { class: "editor" }, this.gutter, h("div", { class: "code" }, this.colours, this.area)),
    );
    this.wrong = 0;
    this.area.addEventListener("input", () => {
      this.mark(0);
      changed();
    });
    this.area.addEventListener("scroll", () => this.#scroll());
    this.area.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      submit();
    });
    this.#draw();
  }

  get value() {
    return this.area.value;
  }

  set value(text) {
    this.area.value = text;
    this.mark(0);
  }

  /** Mark the line that is wrong; 0 for none. */
  mark(line) {
    this.wrong = line;
    this.area.setAttribute("aria-invalid", String(line > 0));
    this.#draw();
  }

  focus() {
    this.area.focus();
  }

  #draw() {
    const lines = this.value.split("\n").length;
    this.area.rows = Math.min(MOST_LINES, Math.max(FEWEST_LINES, lines));
    const numbers = Array.from({ length: lines }, (_, index) =>
      h("span", { class: index + 1 === this.wrong ? "wrong" : null }, `${index + 1}\n`),
    );
    fill(this.gutter, numbers);
    fill(this.colours, coloured(this.value), "\n");
    this.#scroll();
  }

  #scroll() {
    this.colours.scrollTop = this.gutter.scrollTop = this.area.scrollTop;
    this.colours.scrollLeft = this.area.scrollLeft;
  }
}

/** The line that a message of weft names; 0 if it names none. */
export function lineOf(message) {
  return Number(/\bline (\d+), column \d+/.exec(message)?.[1] ?? 0);
}
