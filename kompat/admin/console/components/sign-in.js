/** Who are you? Asked when the broker wants to know. */

import { h } from "../vdom.js";
import { openDialog } from "./dialog.js";
import { field, input } from "./parts.js";
import { problemBox } from "./states.js";

export function signInDialog(wereRefused) {
  const given = { user: "", password: "" };
  const draw = (dialog) =>
    h(
      "form",
      { method: "dialog", onsubmit: (event) => (event.preventDefault(), given.user && dialog.close(given)) },
      wereRefused ? problemBox({ title: "The user name or the password is wrong" }) : null,
      h(
        "p",
        { class: "muted" },
        "This broker requires authentication. The password is kept in this tab until it is closed.",
      ),
      field("User", input(given, "user", { autocomplete: "username", required: true, name: "user" })),
      field(
        "Password",
        input(given, "password", { type: "password", autocomplete: "current-password", name: "password" }),
      ),
      h("div", { class: "actions end" }, h("button", { type: "submit", class: "primary" }, "Sign in")),
    );
  return openDialog({ title: "Sign in", draw }).closed;
}
