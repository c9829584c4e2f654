/**
 * <line-chart>: lines over time, in SVG. Properties: `series` ([{name, points: [[ms, value], …]}]), `format`, `label`, `span` (ms that are shown), `base` (1024 for bytes).
 * Pointer and arrow keys read values off it; without them the newest are told.
 */

import { clock } from "../format.js";
import { h, render } from "../vdom.js";

const HEIGHT = 148;
const LEFT = 58;
const BOTTOM = 18;
const TOP = 8;

class LineChart extends HTMLElement {
  #series = [];
  #cursor = null; // a time
  #watcher = new ResizeObserver(() => this.#draw());
  format = String;
  label = "";
  span = 0;
  base = 10;

  set series(series) {
    this.#series = series;
    this.#draw();
  }

  connectedCallback() {
    this.tabIndex = 0;
    this.setAttribute("role", "figure");
    this.#watcher.observe(this);
    this.onpointermove = (event) => this.#point(event);
    this.onpointerleave = () => this.#moveTo(null);
    this.onblur = () => this.#moveTo(null);
    this.onkeydown = (event) => this.#key(event);
  }

  disconnectedCallback() {
    this.#watcher.disconnect();
  }

  #moveTo(time) {
    this.#cursor = time;
    this.#draw();
  }

  #point(event) {
    const { left, width } = this.querySelector("svg").getBoundingClientRect();
    const part = (event.clientX - left - LEFT) / (width - LEFT);
    const { from, to } = this.#times();
    this.#moveTo(from + Math.max(0, Math.min(1, part)) * (to - from));
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const times = this.#series[0]?.points.map(([time]) => time) ?? [];
    if (event.key === "Escape") this.#moveTo(null);
    if (!step || times.length === 0) return;
    event.preventDefault();
    const at = this.#cursor === null ? times.length - 1 : nearest(times, this.#cursor) + step;
    this.#moveTo(times[Math.max(0, Math.min(times.length - 1, at))]);
  }

  #times() {
    const times = this.#series.flatMap(({ points }) => points.map(([time]) => time));
    const to = times.length > 0 ? Math.max(...times) : Date.now();
    const from = this.span > 0 ? to - this.span : Math.min(...times, to - 1000);
    return { from, to };
  }

  #draw() {
    if (!this.isConnected) return;
    const width = Math.max(200, this.clientWidth);
    const { from, to } = this.#times();
    const most = niceMost(
      Math.max(
        0,
        ...this.#series.flatMap(({ points }) => points.filter(([time]) => time >= from).map(([, value]) => value ?? 0)),
      ),
      this.base,
    );
    const x = (time) => LEFT + ((time - from) / (to - from)) * (width - LEFT - 2);
    const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
    const told = this.#series.map((series) => ({ ...series, at: valueAt(series.points, this.#cursor) }));
    this.setAttribute(
      "aria-label",
      `${this.label}: ${told.map(({ name, at }) => `${name} ${at ? this.format(at[1]) : "no data"}`).join(", ")}`,
    );
    render(
      this,
      h(
        "div",
        { class: "legend" },
        told.map(({ name, at }, index) =>
          h("span", { class: `key series-${index + 1}` }, name, h("b", null, at ? this.format(at[1]) : "–")),
        ),
        this.#cursor === null ? null : h("span", { class: "cursor-time" }, clock(this.#cursor)),
      ),
      h(
        "svg",
        { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" },
        [0, 0.5, 1].map((part) =>
          h(
            "g",
            { class: "grid" },
            h("line", { x1: LEFT, x2: width, y1: y(part * most), y2: y(part * most) }),
            h("text", { x: LEFT - 6, y: y(part * most) + 4, "text-anchor": "end" }, this.format(part * most)),
          ),
        ),
        h("text", { class: "tick", x: LEFT, y: HEIGHT - 4 }, clock(from)),
        h("text", { class: "tick", x: width, y: HEIGHT - 4, "text-anchor": "end" }, clock(to)),
        told.map(({ points }, index) =>
          drawLine(
            points.filter(([time]) => time >= from),
            index,
            x,
            y,
          ),
        ),
        this.#cursor === null
          ? null
          : h("line", { class: "cursor", x1: x(this.#cursor), x2: x(this.#cursor), y1: TOP, y2: HEIGHT - BOTTOM }),
        this.#cursor === null
          ? null
          : told.map(({ at }, index) =>
              at ? h("circle", { class: `dot series-${index + 1}`, cx: x(at[0]), cy: y(at[1]), r: 3.5 }) : null,
            ),
      ),
    );
  }
}

function drawLine(points, index, x, y) {
  const known = points.filter(([, value]) => value !== null && value !== undefined);
  if (known.length === 0) return null;
  if (known.length === 1)
    return h("circle", { class: `dot series-${index + 1}`, cx: x(known[0][0]) - 4, cy: y(known[0][1]), r: 3.5 });
  const line = known
    .map(([time, value], at) => `${at === 0 ? "M" : "L"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`)
    .join("");
  const area = `${line}L${x(known.at(-1)[0]).toFixed(1)} ${y(0)}L${x(known[0][0]).toFixed(1)} ${y(0)}Z`;
  return h(
    "g",
    { class: `series-${index + 1}` },
    h("path", { class: "area", d: area }),
    h("path", { class: "line", d: line }),
  );
}

function valueAt(points, time) {
  const known = points.filter(([, value]) => value !== null && value !== undefined);
  if (known.length === 0) return null;
  return time === null
    ? known.at(-1)
    : known[
        nearest(
          known.map(([at]) => at),
          time,
        )
      ];
}

function nearest(times, time) {
  let best = 0;
  times.forEach((each, at) => {
    if (Math.abs(each - time) < Math.abs(times[best] - time)) best = at;
  });
  return best;
}

/** The next 1, 2 or 5 with zeros: axes that people can read. */
export function niceMost(value, base = 10) {
  if (!(value > 0)) return 1;
  if (base === 1024) {
    const unit = 1024 ** Math.floor(Math.log(Math.max(1, value)) / Math.log(1024));
    const most = niceMost(value / unit);
    return unit * (most === 1000 ? 1024 : most);
  }
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * size).find((each) => each >= value);
}

customElements.define("line-chart", LineChart);
