/** What a view lives in: it draws, loads and waits for as long as the page is open, and no longer. */

import { Problem } from "./api.js";
import { bindKeys } from "./keys.js";
import { h, render } from "./vdom.js";
import { problemBox } from "./components/states.js";

export class Page {
  #leaving = new AbortController();
  #draw = null;
  #isQueued = false;
  #followsScroll = false;

  constructor(root, { params, query, setQuery }) {
    this.root = root;
    this.params = params;
    this.query = query;
    this.setQuery = setQuery;
    this.signal = this.#leaving.signal;
  }

  open(view) {
    const draw = view(this);
    this.#draw = draw;
    this.redraw();
  }

  leave() {
    this.#leaving.abort();
  }

  get isOpen() {
    return !this.signal.aborted;
  }

  set title(text) {
    document.title = text ? `${text} · kompat` : "kompat";
  }

  /** Soon, and once, however often it is asked for. */
  redraw = () => {
    if (this.#isQueued || !this.isOpen) return;
    this.#isQueued = true;
    queueMicrotask(() => {
      this.#isQueued = false;
      if (!this.isOpen || this.#draw === null) return;
      try {
        render(this.root, h("div", { class: "view", key: this }, this.#draw()));
      } catch (error) {
        console.error(error);
        render(this.root, problemBox(new Problem({ title: "This page has an error", detail: String(error) })));
      }
    });
  };

  /** Again and again, the next time `ms` after the last one has ended; not while nobody looks. */
  every(ms, task) {
    let timer = null;
    const run = async () => {
      clearTimeout(timer);
      if (!this.isOpen) return;
      if (!document.hidden) await task();
      if (this.isOpen) timer = setTimeout(run, ms);
    };
    document.addEventListener("visibilitychange", () => !document.hidden && run(), { signal: this.signal });
    this.signal.addEventListener("abort", () => clearTimeout(timer));
    run();
    return run;
  }

  /**
   * Something that is loaded: `data`, `error`, `isLoading`, and `reload()`. Data that was there stays while it is loaded anew.
   */
  resource(load, { every = 0 } = {}) {
    const found = { data: null, error: null, isLoading: true, at: null };
    let newest = new AbortController();
    const fetchOnce = async () => {
      newest.abort(); // what was asked for before must not come after this, nor change anything
      newest = new AbortController();
      const signal = AbortSignal.any([this.signal, newest.signal]);
      found.isLoading = true;
      try {
        const data = await load(signal);
        if (signal.aborted) return;
        Object.assign(found, { data, error: null, at: Date.now() });
      } catch (error) {
        if (signal.aborted || error.name === "AbortError") return;
        found.error = error;
        if (!(error instanceof Problem)) console.error(error);
      }
      found.isLoading = false;
      this.redraw();
    };
    found.reload = () => {
      const done = fetchOnce();
      this.redraw();
      return done;
    };
    found.clear = () => Object.assign(found, { data: null, error: null });
    if (every > 0) this.every(every, fetchOnce);
    else fetchOnce();
    return found;
  }

  keys(bindings) {
    const unbind = bindKeys(bindings);
    this.signal.addEventListener("abort", unbind);
  }

  /** Long tables draw what is in sight, and so have to be drawn as the page is scrolled. */
  followScroll() {
    if (this.#followsScroll) return;
    this.#followsScroll = true;
    addEventListener("scroll", this.redraw, { signal: this.signal, passive: true });
    addEventListener("resize", this.redraw, { signal: this.signal, passive: true });
  }
}
