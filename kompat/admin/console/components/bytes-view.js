/** <bytes-view>: a value as JSON, text or hexadecimal, whichever is chosen; the most telling at first. Properties: `what` it is, `content` ({text, encoding}). */

import { bytes as size } from "../format.js";
import { h, render } from "../vdom.js";
import { bytesOf, hexDump, isJson, prettyJson } from "./bytes.js";
import { attempt } from "./toast.js";

const MOST_PIECES = 20_000; // of coloured JSON: more would make the page slow

class BytesView extends HTMLElement {
  what = "Value";
  #content = { text: null };
  #chosen = null;

  set content(content) {
    if (content.text === this.#content.text && content.encoding === this.#content.encoding) return;
    this.#content = content;
    this.#chosen = null;
    this.#draw();
  }

  connectedCallback() {
    this.#draw();
  }

  #draw() {
    if (!this.isConnected) return;
    const content = this.#content;
    const bytes = bytesOf(content);
    if (bytes === null) {
      render(this, h("p", { class: "muted" }, "null: a tombstone"));
      return;
    }
    const modes = [isJson(content) ? "JSON" : null, content.encoding === "base64" ? null : "Text", "Hex"].filter(
      Boolean,
    );
    const mode = modes.includes(this.#chosen) ? this.#chosen : modes[0];
    const choice = modes.map((each) =>
      h("button", { type: "button", "aria-pressed": String(each === mode), onclick: () => this.#choose(each) }, each),
    );
    const copy = h("button", { type: "button", class: "quiet", onclick: () => this.#copy() }, "Copy");
    render(
      this,
      h(
        "div",
        { class: "bytes-bar" },
        h("div", { class: "segments", role: "group", "aria-label": `Show the ${this.what.toLowerCase()} as` }, choice),
        h("span", { class: "muted" }, size(bytes.length)),
        copy,
      ),
      h("pre", { class: "bytes", tabindex: "0", "aria-label": `${this.what} as ${mode}` }, this.#body(mode, bytes)),
    );
  }

  #body(mode, bytes) {
    if (mode === "Hex") return hexDump(bytes);
    if (mode === "Text") return bytes.length === 0 ? h("span", { class: "muted" }, "empty") : this.#content.text;
    const pieces = prettyJson(this.#content.text);
    if (pieces.length > MOST_PIECES) return pieces.map(([, text]) => text).join("");
    return pieces.map(([kind, text]) =>
      kind === "space" || kind === "mark" ? text : h("span", { class: `json-${kind}` }, text),
    );
  }

  #choose(mode) {
    this.#chosen = mode;
    this.#draw();
  }

  #copy() {
    attempt(() => navigator.clipboard.writeText(this.#content.text), "Copied");
  }
}

customElements.define("bytes-view", BytesView);
