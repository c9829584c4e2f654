/** The broker's samples of each second, gathered while a page is open: lines for charts. */

const SHORTEST = 60_000; // a line of two points a second apart tells nothing

/** How much time a chart of [[ms, …], …] shows: all there is, but a minute at least. */
export const lengthOf = (points) => Math.max(SHORTEST, (points.at(-1)?.[0] ?? 0) - (points[0]?.[0] ?? 0));

const MOST_KEPT = 50; // of things that were looked at
const kept = new Map();

/** What was seen of something as [[ms, …], …], for whoever comes back to its page. Add to it by `sampled`. */
export function samplesOf(name) {
  const found = kept.get(name) ?? [];
  kept.delete(name);
  kept.set(name, found); // the newest at the end
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return found;
}

export function sampled(samples, seen, span) {
  samples.push([Date.now(), seen]);
  while (samples[0][0] < Date.now() - span) samples.shift();
}

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
