/** A short word about what was done; what went wrong stays longer. */

export function toast(text, { isBad = false } = {}) {
  const node = document.createElement("div");
  node.className = isBad ? "toast bad" : "toast";
  node.textContent = text;
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), isBad ? 10_000 : 4000);
}

/** Do something that needs no dialog, and say how it went. */
export async function attempt(task, done) {
  try {
    const value = await task();
    if (done) toast(typeof done === "function" ? done(value) : done);
    return value;
  } catch (problem) {
    if (problem.name !== "AbortError") toast(problem.detail ?? problem.message, { isBad: true });
    return null;
  }
}
