// Plots over time, drawn as SVG: lines, or stacked bars. The arrow keys read them point by point.

import { fill, h, setText, svg } from "./dom.js";
import { clock } from "./format.js";

const HEIGHT = 190;
const MARGIN = { left: 54, right: 10, top: 10, bottom: 22 };

/** Round numbers from zero up to at least `most`. */
export function scale(most, wanted = 4) {
  if (!(most > 0)) return [0, 1];
  const rough = most / wanted;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 2.5, 5, 10].find((factor) => factor * size >= rough * 0.999);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, index) => index * step);
}

/** A path through points; where a value is missing the line is broken. */
export function linePath(xs, ys) {
  let path = "";
  let broken = true;
  ys.forEach((y, index) => {
    if (y === null) {
      broken = true;
      return;
    }
    path += `${broken ? "M" : "L"}${xs[index].toFixed(1)} ${y.toFixed(1)}`;
    broken = false;
  });
  return path;
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** A small line without axes: `values` may have gaps. */
export class Sparkline {
  constructor(label) {
    this.label = label;
    this.line = svg("path", { class: "line" });
    this.dot = svg("circle", { class: "dot", r: 2 });
    this.element = svg("svg", { class: "sparkline", viewBox: "0 0 100 24", role: "img" }, this.line, this.dot);
  }

  /** Draw these values; `text` says the newest to those who cannot see the line. */
  update(values, text) {
    const most = Math.max(...values.filter(isNumber), 1e-9);
    const step = 94 / Math.max(values.length - 1, 1);
    const xs = values.map((_, index) => 97 - (values.length - 1 - index) * step);
    const ys = values.map((value) => (isNumber(value) ? 21 - (value / most) * 18 : null));
    this.line.setAttribute("d", linePath(xs, ys));
    const last = ys.at(-1) ?? null;
    this.dot.setAttribute("visibility", last === null ? "hidden" : "visible");
    if (last !== null) {
      this.dot.setAttribute("cx", xs.at(-1).toFixed(1));
      this.dot.setAttribute("cy", last.toFixed(1));
    }
    this.element.setAttribute("aria-label", `${this.label}: ${text}`);
  }
}

/** A plot with axes, a legend if there are several series, and a reading of the point under the pointer. */
export class Plot {
  constructor({ title, format, stacked = false, empty = "No batch has run yet." }) {
    Object.assign(this, { title, format, stacked, empty });
    this.times = [];
    this.series = [];
    this.at = null;
    this.canvas = h("div", { class: "canvas", tabindex: "0", role: "img" });
    this.reading = h("span", { class: "reading" });
    this.legend = h("ul", { class: "legend" });
    this.element = h(
      "figure",
      { class: "plot card" },
      h("figcaption", {}, h("h3", {}, title), this.reading),
      this.canvas,
      this.legend,
    );
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("pointerleave", () => this.#select(null));
    this.canvas.addEventListener("blur", () => this.#select(null));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    this.observer = new ResizeObserver(() => this.#draw());
    this.observer.observe(this.canvas);
  }

  /** Show `series` ({name, values}) at `times` (seconds since 1970). */
  update(times, series) {
    this.times = times;
    this.series = series;
    if (this.at !== null && this.at >= times.length) this.at = null;
    this.#draw();
  }

  #draw() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    this.#describe();
    if (!this.times.length) {
      fill(this.canvas, h("p", { class: "empty" }, this.empty));
      fill(this.legend);
      return;
    }
    const ticks = scale(this.#most());
    const top = ticks.at(-1);
    const inner = { width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
    const y = (value) => MARGIN.top + inner.height * (1 - value / top);
    this.xs = this.#places(inner.width);
    const marks = this.stacked ? this.#bars(y, inner.width) : this.#lines(y);
    const drawing = svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" });
    drawing.append(...this.#axes(ticks, y, width), ...marks, ...this.#cursor(y, inner));
    fill(this.canvas, drawing);
    this.#label();
  }

  /** Where points are from left to right: bars by number, lines by time. */
  #places(width) {
    const [first, last] = [this.times[0], this.times.at(-1)];
    if (this.stacked || !(last > first)) {
      return this.times.map((_, index) => MARGIN.left + (width * (index + 0.5)) / this.times.length);
    }
    return this.times.map((time) => MARGIN.left + (width * (time - first)) / (last - first));
  }

  #most() {
    if (!this.stacked) return Math.max(0, ...this.series.flatMap(({ values }) => values.filter(isNumber)));
    return Math.max(0, ...this.times.map((_, index) => this.#total(index)));
  }

  #total(index) {
    return this.series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0);
  }

  #axes(ticks, y, width) {
    const right = width - MARGIN.right;
    const lines = ticks.flatMap((tick) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick) }),
      svg("text", { class: "tick", x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, this.format(tick)),
    ]);
    const ends = [
      [0, "start", MARGIN.left],
      [this.times.length - 1, "end", right],
    ];
    const labels = this.times.length > 1 ? ends : [[0, "middle", (MARGIN.left + right) / 2]];
    return [
      ...lines,
      ...labels.map(([index, anchor, x]) =>
        svg("text", { class: "tick", x, y: HEIGHT - 4, "text-anchor": anchor }, clock(this.times[index])),
      ),
    ];
  }

  #lines(y) {
    return this.series.flatMap(({ values }, place) => {
      const ys = values.map((value) => (isNumber(value) ? y(value) : null));
      const colour = `series-${place % 8}`;
      const points = ys.flatMap((each, index) => (each === null ? [] : [index]));
      const alone = points.length === 1 ? points : []; // a line of one point would not be seen
      return [
        svg("path", { class: `line ${colour}`, d: linePath(this.xs, ys) }),
        ...alone.map((index) => svg("circle", { class: `dot ${colour}`, cx: this.xs[index], cy: ys[index], r: 3 })),
      ];
    });
  }

  #bars(y, width) {
    const thick = Math.max(1, Math.min(18, (width / this.times.length) * 0.8));
    const below = this.times.map(() => 0);
    return this.series.map(({ values }, place) => {
      const path = values.map((value, index) => {
        if (!(value > 0)) return "";
        const left = this.xs[index] - thick / 2;
        const ends = [y(below[index]), y((below[index] += value))];
        const [low, high] = ends.map((end) => end.toFixed(1));
        return `M${left.toFixed(1)} ${low}V${high}h${thick.toFixed(1)}V${low}Z`;
      });
      return svg("path", { class: `bar series-${place % 8}`, d: path.join("") });
    });
  }

  #cursor(y, inner) {
    if (this.at === null) return [];
    const x = this.xs[this.at];
    const dots = this.stacked ? [] : this.series.filter(({ values }) => isNumber(values[this.at]));
    return [
      svg("line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: MARGIN.top + inner.height }),
      ...dots.map(({ values }) => svg("circle", { class: "dot", cx: x, cy: y(values[this.at]), r: 3 })),
    ];
  }

  /** The legend carries the values of the point that is read, or of the newest one. */
  #label() {
    const index = this.at ?? this.times.length - 1;
    const several = this.series.length > 1;
    const item = ({ name, values }, place) =>
      h("li", {}, h("span", { class: `key series-${place % 8}` }), `${name} `, h("b", {}, this.format(values[index])));
    fill(this.legend, several && this.series.map(item));
  }

  #describe() {
    const index = this.at ?? this.times.length - 1;
    const value = this.stacked ? this.#total(index) : this.series[0]?.values[index];
    const text = this.times.length ? `${this.format(value)} at ${clock(this.times[index])}` : "";
    setText(this.reading, text);
    const most = this.times.length ? `, at most ${this.format(this.#most())}` : "";
    this.canvas.setAttribute("aria-label", `${this.title}: ${text || this.empty}${most}`);
  }

  #select(index) {
    if (index === this.at) return;
    this.at = index;
    this.#draw();
  }

  #point(event) {
    if (!this.times.length || !this.xs) return;
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    const distances = this.xs.map((place) => Math.abs(place - x));
    this.#select(distances.indexOf(Math.min(...distances)));
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !this.times.length) return;
    event.preventDefault();
    const last = this.times.length - 1;
    this.#select(Math.max(0, Math.min(last, (this.at ?? last) + (this.at === null ? 0 : step))));
  }
}
