// A value that several parts of the page show.

import { useEffect, useReducer } from "preact/hooks";

export class Store<T> {
  #value: T;
  readonly #readers = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const reader of [...this.#readers]) reader();
  }

  change(change: (value: T) => T): void {
    this.set(change(this.#value));
  }

  /** Returns what ends it. */
  subscribe(reader: () => void): () => void {
    this.#readers.add(reader);
    return () => void this.#readers.delete(reader);
  }
}

/** The value now; the component is drawn again when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [, again] = useReducer((count: number, _: void) => (count + 1) | 0, 0);
  const shown = store.value;
  useEffect(() => {
    const end = store.subscribe(() => again());
    // It may have changed since this was drawn: effects come later.
    if (store.value !== shown) again();
    return end;
  }, [store]);
  return shown;
}
