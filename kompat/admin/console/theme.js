/* A classic script, run before anything is drawn: a page that should be dark never flashes white. */
(() => {
  const KEY = "kompat.theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  const chosen = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage may be forbidden: then the system decides
    }
  };
  const current = () => chosen() ?? (system.matches ? "dark" : "light");
  const apply = () => (root.dataset.theme = current());

  window.kompatTheme = {
    current,
    toggle() {
      const next = current() === "dark" ? "light" : "dark";
      try {
        // What the system says anyway need not be remembered: so the page follows it again.
        if (next === (system.matches ? "dark" : "light")) localStorage.removeItem(KEY);
        else localStorage.setItem(KEY, next);
      } catch {
        /* this page only, then */
      }
      root.dataset.theme = next;
      return next;
    },
  };
  system.addEventListener("change", apply);
  apply();
})();
