/** Keys: single ones, and two after another (`g t`). Never while somebody types, nor under an open dialog. */

const bindings = [];
let first = null;
let forget = null;

/** [{keys: "g t", label: "Topics", run}]; what is bound last comes first. */
export function bindKeys(added) {
  bindings.unshift(...added);
  return () => {
    for (const each of added) bindings.splice(bindings.indexOf(each), 1);
  };
}

export const listKeys = () => bindings.filter((each) => each.label);

function isTyping(target) {
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape" && isTyping(event.target) && !event.target.closest("dialog")) {
    event.target.blur();
    return;
  }
  if (isTyping(event.target) && !["checkbox", "radio"].includes(event.target.type)) return;
  if (document.querySelector("dialog[open]")) return;
  const pressed = first === null ? event.key : `${first} ${event.key}`;
  clearTimeout(forget);
  first = null;
  const found = bindings.find((each) => each.keys === pressed);
  if (found) {
    event.preventDefault();
    found.run(event);
  } else if (bindings.some((each) => each.keys.startsWith(`${pressed} `))) {
    first = pressed;
    forget = setTimeout(() => (first = null), 1500);
  }
}

document.addEventListener("keydown", onKey);

/** The page's own search, if it has one. */
export function focusSearch() {
  const found = document.querySelector("#page [data-search]");
  found?.focus();
  found?.select?.();
}

/** From row to row of a table, by its links and buttons. */
export function moveRow(step) {
  const rows = [...document.querySelectorAll("#page [data-row]")];
  const at = rows.findIndex((row) => row.contains(document.activeElement) || row === document.activeElement);
  const next = rows[at === -1 ? (step > 0 ? 0 : rows.length - 1) : at + step];
  if (!next) return;
  const target = next.matches("a, button") ? next : (next.querySelector("a, button, input") ?? next);
  target.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}
