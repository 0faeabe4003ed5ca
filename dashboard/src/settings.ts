// What the reader has chosen about this page, kept in the browser.

import { Store } from "./store";
import type { Zone } from "./time";

export type Theme = "auto" | "light" | "dark";

const ZONE = "titan.zone";
const THEME = "titan.theme";

export const theme = new Store<Theme>(oneOf(recall(THEME), ["auto", "light", "dark"]));
export const zone = new Store<Zone>(oneOf(recall(ZONE), ["local", "utc"]));
/** Changes whenever colours do. */
export const colours = new Store(0);

function oneOf<T extends string>(value: string | null, known: readonly [T, ...T[]]): T {
  return known.find((it) => it === value) ?? known[0];
}

/** A browser may keep nothing for us; then the choice lasts as long as the page. */
function recall(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // See `recall`.
  }
}

/** Called before anything is drawn, so that nothing flashes in the wrong colours. */
export function applySettings(): void {
  const apply = () => {
    if (theme.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
    colours.change((count) => count + 1);
  };
  theme.subscribe(() => {
    keep(THEME, theme.value);
    apply();
  });
  zone.subscribe(() => keep(ZONE, zone.value));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}

/** What a colour of the style sheet is at the moment, for canvases. */
export function colour(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
