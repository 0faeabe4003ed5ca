// Figures with their units. What is not known is a dash.

import type { Author, Figure } from "./types";

export const UNKNOWN = "–";
/** Keeps a figure and its unit on one line. */
const GAP = "\u00a0";

/** Three digits that matter. */
function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 0.01) return value.toFixed(2);
  return value.toPrecision(1);
}

function scaled(value: number, step: number, units: readonly string[]): [string, string] {
  let unit = 0;
  while (Math.abs(value) >= step * 0.9995 && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  return [digits(value), units[unit]!];
}

function isKnown(value: Figure | undefined): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** A count: `1.24k`. */
export function count(value: Figure | undefined): string {
  if (!isKnown(value)) return UNKNOWN;
  if (Number.isInteger(value) && Math.abs(value) < 10_000) return String(value);
  return scaled(value, 1000, ["", "k", "M", "G"]).join("");
}

/** `812/s`. */
export function rate(value: Figure | undefined): string {
  return isKnown(value) ? `${scaled(value, 1000, ["", "k", "M", "G"]).join("")}/s` : UNKNOWN;
}

/** `3.2 MiB`. */
export function bytes(value: Figure | undefined): string {
  return isKnown(value) ? scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]).join(GAP) : UNKNOWN;
}

/** A share of 1 as `0.2 %`; a share that is there is never shown as none. */
export function share(value: Figure | undefined): string {
  if (!isKnown(value)) return UNKNOWN;
  const percent = value * 100;
  if (percent > 0 && percent < 0.01) return `<0.01${GAP}%`;
  if (percent < 100 && percent > 99.99) return `>99.9${GAP}%`;
  return `${digits(percent)}${GAP}%`;
}

/** What a request takes, in seconds: `1.4 ms`. */
export function duration(value: Figure | undefined): string {
  if (!isKnown(value)) return UNKNOWN;
  if (value === 0) return `0${GAP}ms`;
  if (Math.abs(value) >= 60) return span(value);
  const units = ["µs", "ms", "s"];
  return scaled(value * 1e6, 1000, units).join(GAP);
}

/** Milliseconds, as records have them. */
export function milliseconds(value: number | undefined): string {
  return duration(value === undefined ? null : value / 1000);
}

/** A time that passes for people: `3 d 4 h`. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const parts: [number, string][] = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first < 0) return `0${GAP}s`;
  const shown = parts.slice(first, first + 2).filter(([value], index) => index === 0 || value > 0);
  return shown.map(([value, unit]) => value + GAP + unit).join(" ");
}

/** Who asked for a change. */
export function author(author: Author | null): string {
  if (author === null) return UNKNOWN;
  if (typeof author === "string") return author;
  if ("token" in author) return `token ${author.token}`;
  if ("source" in author) return `source ${author.source}`;
  const { uid, pid } = author.peer;
  return pid === null ? `uid ${uid}` : `uid ${uid} (pid ${pid})`;
}
