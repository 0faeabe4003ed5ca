// Loading what a page shows, once or again and again.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Failure, get } from "./api";

export interface Loaded<T> {
  /** The latest that was loaded; stays while it is loaded again, or cannot be. */
  value: T | null;
  failure: Failure | null;
  loading: boolean;
  again: () => void;
}

/** What GET `path` responds with; nothing is asked for while it is null. With `every` again after so many seconds. */
export function useLoad<T>(path: string | null, every = 0): Loaded<T> {
  const [state, setState] = useState<{ path: string | null; value: T | null; failure: Failure | null; loading: boolean }>({
    path,
    value: null,
    failure: null,
    loading: path !== null,
  });
  const load = useRef<() => void>(() => {});
  useEffect(() => {
    if (path === null) return;
    const end = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      clearTimeout(timer);
      setState((before) =>
        before.path === path ? { ...before, loading: true } : { path, value: null, failure: null, loading: true },
      );
      try {
        const value = await get<T>(path, end.signal);
        if (!end.signal.aborted) setState({ path, value, failure: null, loading: false });
      } catch (error) {
        if (end.signal.aborted) return;
        const failure = error instanceof Failure ? error : new Failure(0, String(error));
        setState((before) => ({ ...before, failure, loading: false }));
      }
      if (every > 0 && !end.signal.aborted) timer = setTimeout(() => (document.hidden ? wait() : void ask()), every * 1000);
    };
    const wait = () => document.addEventListener("visibilitychange", () => void ask(), { once: true, signal: end.signal });
    load.current = () => void ask();
    void ask();
    return () => {
      end.abort();
      clearTimeout(timer);
    };
  }, [path, every]);
  const again = useCallback(() => load.current(), []);
  const current = state.path === path;
  return {
    value: current ? state.value : null,
    failure: current ? state.failure : null,
    loading: current ? state.loading : path !== null,
    again,
  };
}
