// The frame of every page: the theme, which counts before anything is drawn, and the menu.
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
  const switchTheme = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, root.dataset.theme);
    } catch {
      // it holds for this page alone, then
    }
    show();
  };
  const switchMenu = (button) => {
    const isOpen = button.closest("header").toggleAttribute("data-open");
    button.setAttribute("aria-expanded", String(isOpen));
  };

  // What scrolls can be reached by keys, and only what scrolls is on their way.
  const reach = () => {
    for (const box of document.querySelectorAll(".wide")) {
      const scrolls = box.scrollWidth > box.clientWidth;
      box.toggleAttribute("tabindex", scrolls);
      if (!scrolls) continue;
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      const name = box.querySelector("caption")?.textContent || box.getAttribute("aria-label");
      box.setAttribute("aria-label", name || "Table");
    }
  };

  root.classList.remove("no-script");
  const chosen = stored();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-theme-switch]")) switchTheme();
    const menu = target.closest("[data-menu-switch]");
    if (menu) switchMenu(menu);
  });
  system.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    show();
    reach();
  });
  document.addEventListener("htmx:after:swap", reach);
  window.addEventListener("resize", reach);
}
