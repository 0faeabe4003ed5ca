// Where the reader is: `#/upstreams/api?sort=rate`. What a page shows is in its address, so that it can be sent to others.

import { Store, useStore } from "./store";

export interface Place {
  /** The parts of the path, decoded. */
  path: string[];
  query: URLSearchParams;
}

const place = new Store<Place>(read());

function read(): Place {
  const [path = "", query = ""] = split(location.hash.replace(/^#\/?/, ""));
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function split(hash: string): string[] {
  const at = hash.indexOf("?");
  return at < 0 ? [hash] : [hash.slice(0, at), hash.slice(at + 1)];
}

/** What somebody typed into the address may be no encoding. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

addEventListener("hashchange", () => place.set(read()));

export const usePlace = (): Place => useStore(place);

export type Query = Record<string, string | number | boolean | null | undefined>;

/** The address of a place. */
export function to(path: readonly (string | number)[], query: Query = {}): string {
  const kept = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== "" && value !== false,
  );
  const text = new URLSearchParams(kept.map(([name, value]): [string, string] => [name, String(value)])).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

/** Goes there. */
export function go(address: string): void {
  location.hash = address;
}

/** Changes what the address says about the page that is shown; the way back leads to the page before it. */
export function change(query: Query): void {
  const { path, query: before } = place.value;
  const address = to(path, { ...Object.fromEntries(before), ...query });
  if (address === location.hash) return;
  history.replaceState(null, "", address);
  place.set(read());
}
