/**
 * <bar-chart>: how many there are in each of some ranges of time. Properties: `bars` ([{from, to, count}]), `label`, `onpick(bar)`.
 * Pointer and arrow keys tell each bar; Enter or a click picks it.
 */

import { duration, moment, plural } from "../format.js";
import { h, render } from "../vdom.js";
import { niceMost } from "./line-chart.js";

const HEIGHT = 132;
const LEFT = 40;
const BOTTOM = 18;
const TOP = 8;

class BarChart extends HTMLElement {
  #bars = [];
  #at = null;
  #watcher = new ResizeObserver(() => this.#draw());
  label = "";
  noun = "record";
  onpick = null;

  set bars(bars) {
    this.#bars = bars;
    this.#draw();
  }

  connectedCallback() {
    this.tabIndex = 0;
    this.setAttribute("role", "figure");
    this.#watcher.observe(this);
    this.onpointermove = (event) => this.#moveTo(this.#barAt(event.clientX));
    this.onpointerleave = () => this.#moveTo(null);
    this.onblur = () => this.#moveTo(null);
    this.onclick = () => this.#pick();
    this.onkeydown = (event) => this.#key(event);
  }

  disconnectedCallback() {
    this.#watcher.disconnect();
  }

  #barAt(clientX) {
    const { left, width } = this.querySelector("svg").getBoundingClientRect();
    const at = Math.floor(((clientX - left - LEFT) / (width - LEFT)) * this.#bars.length);
    return at >= 0 && at < this.#bars.length ? at : null;
  }

  #moveTo(at) {
    this.#at = at;
    this.#draw();
  }

  #pick() {
    const bar = this.#bars[this.#at];
    if (bar?.count > 0) this.onpick?.(bar);
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Enter") this.#pick();
    if (!step || this.#bars.length === 0) return;
    event.preventDefault();
    this.#moveTo(
      Math.max(0, Math.min(this.#bars.length - 1, (this.#at ?? (step > 0 ? -1 : this.#bars.length)) + step)),
    );
  }

  #told() {
    const bar = this.#bars[this.#at];
    if (bar) return `${moment(bar.from)} to ${moment(bar.to)}: ${plural(bar.count, this.noun)}`;
    const total = this.#bars.reduce((sum, each) => sum + each.count, 0);
    const step = this.#bars.length > 0 ? this.#bars[0].to - this.#bars[0].from : 0;
    return `${plural(total, this.noun)}, one bar is ${duration(step)}`;
  }

  #draw() {
    if (!this.isConnected) return;
    const width = Math.max(200, this.clientWidth);
    const most = niceMost(Math.max(0, ...this.#bars.map(({ count }) => count)));
    const step = (width - LEFT) / Math.max(1, this.#bars.length);
    const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
    this.setAttribute("aria-label", `${this.label}: ${this.#told()}`);
    render(
      this,
      h("div", { class: "legend" }, this.#told()),
      h(
        "svg",
        { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" },
        [0, 1].map((part) =>
          h(
            "g",
            { class: "grid" },
            h("line", { x1: LEFT, x2: width, y1: y(part * most), y2: y(part * most) }),
            h("text", { x: LEFT - 6, y: y(part * most) + 4, "text-anchor": "end" }, part * most),
          ),
        ),
        this.#bars.map(({ count }, at) =>
          h("rect", {
            class: at === this.#at ? "due is-at" : "due",
            x: LEFT + at * step + 0.5,
            width: Math.max(1, step - 1),
            y: count > 0 ? Math.min(y(count), y(0) - 2) : y(0),
            height: count > 0 ? Math.max(2, y(0) - y(count)) : 0,
          }),
        ),
        this.#bars.length > 0
          ? [
              h("text", { class: "tick", x: LEFT, y: HEIGHT - 4 }, moment(this.#bars[0].from)),
              h("text", { class: "tick", x: width, y: HEIGHT - 4, "text-anchor": "end" }, moment(this.#bars.at(-1).to)),
            ]
          : null,
      ),
    );
  }
}

customElements.define("bar-chart", BarChart);
