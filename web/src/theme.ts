// Light, dark, or as the system says; remembered on this machine only.
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const NAME = "ethogram-theme";

function remembered(): Theme {
  try {
    const said = localStorage.getItem(NAME);
    return said === "light" || said === "dark" ? said : "system";
  } catch {
    return "system"; // a page on disk may have no storage
  }
}

export const theme = signal<Theme>(remembered());

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem(NAME, theme.value);
  } catch {
    /* not remembered */
  }
});

export function nextTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const shown = theme.value === "system" ? (dark ? "dark" : "light") : theme.value;
  theme.value = shown === "dark" ? "light" : "dark";
}
