/** The broker's samples of each second, gathered while a page is open: lines for charts. */

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

  /** How much time charts show: all there is, but a minute at least. */
  get length() {
    const first = this.#samples[0]?.at ?? 0;
    return Math.max(60_000, (this.last ?? 0) - first);
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
