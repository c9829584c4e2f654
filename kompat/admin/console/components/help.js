/** The keys, told. */

import { listKeys } from "../keys.js";
import { h } from "../vdom.js";
import { openDialog } from "./dialog.js";

export function helpDialog() {
  const keys = listKeys();
  const rows = (items) =>
    items.map(({ keys: pressed, label }) =>
      h(
        "div",
        { key: `${pressed} ${label}` },
        h(
          "dt",
          null,
          pressed.split(" ").map((key) => h("kbd", null, key)),
        ),
        h("dd", null, label),
      ),
    );
  const jumps = keys.filter((each) => each.keys.startsWith("g "));
  const others = keys.filter((each) => !each.keys.startsWith("g "));
  openDialog({
    title: "Keyboard",
    isWide: true,
    draw: () =>
      h(
        "div",
        { class: "two-columns" },
        h("section", null, h("h3", null, "Go to"), h("dl", { class: "keys" }, rows(jumps))),
        h(
          "section",
          null,
          h("h3", null, "Here"),
          h(
            "dl",
            { class: "keys" },
            rows(others),
            h("div", null, h("dt", null, h("kbd", null, "Esc")), h("dd", null, "Close, or leave a field")),
          ),
        ),
      ),
  });
}
