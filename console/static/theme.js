// The chosen theme counts before anything is drawn; without a choice the system's does.
"use strict";
{
  const KEY = "aerobee-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // where pages may keep nothing, the switch holds for this page
    }
  };
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const show = () => {
    for (const each of document.querySelectorAll("[data-theme-switch]")) {
      each.setAttribute("aria-pressed", String(isDark()));
    }
    document.dispatchEvent(new CustomEvent("aerobee:theme"));
  };

  const chosen = stored();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-switch]")) return;
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, root.dataset.theme);
    } catch {
      // it holds for this page alone, then
    }
    show();
  });
  system.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", show);
}
