/** The broker's samples of each second, gathered while a page is open: lines for charts. */

const SHORTEST = 60_000; // a line of two points a second apart tells nothing

/** How much time a chart of [[ms, …], …] shows: all there is, but a minute at least. */
export const lengthOf = (points) => Math.max(SHORTEST, (points.at(-1)?.[0] ?? 0) - (points[0]?.[0] ?? 0));

export class Samples {
  #samples = [];

  constructor(span) {
    this.span = span;
  }

  /** The time of the newest one; null: none yet. */
  get last() {
    return this.#samples.at(-1)?.at ?? null;
  }

  add({ samples }) {
    const { last } = this;
    this.#samples.push(...samples.filter(({ at }) => last === null || at > last));
    const from = (this.last ?? 0) - this.span;
    this.#samples = this.#samples.filter(({ at }) => at >= from);
  }

  get length() {
    return lengthOf(this.#samples.map(({ at }) => [at]));
  }

  newest(field) {
    return this.line(field).at(-1)?.[1] ?? null;
  }

  line(field) {
    return this.#samples
      .map((sample) => [sample.at, sample[field] ?? sample.latency?.[field] ?? null])
      .filter(([, value]) => value !== null);
  }
}
