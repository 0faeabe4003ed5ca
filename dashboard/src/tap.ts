// Requests as they end, from the gateway's tap: the latest of them, held while the reader looks.

import { address } from "./api";
import { Store } from "./store";
import type { Exchange } from "./types";

/** A page that stays open for a week keeps no more than this. */
export const KEPT = 500;
/** Drawn at most so often, however many come. */
const DRAW = 250;

export interface Tapped extends Exchange {
  /** Counts what has come, so that rows can be told apart. */
  number: number;
}

export interface TapState {
  link: "connecting" | "open" | "lost";
  /** The latest first. */
  shown: Tapped[];
  /** What has come during a pause. */
  waiting: number;
  isPaused: boolean;
  /** What the gateway has left out: more came than it sends in a second. */
  skipped: number;
}

export class Tap {
  readonly state = new Store<TapState>({ link: "connecting", shown: [], waiting: 0, isPaused: false, skipped: 0 });
  #stream: EventSource | null = null;
  /** The oldest first. */
  #held: Tapped[] = [];
  #count = 0;
  /** How many had come when the pause began. */
  #pausedAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
    this.#open();
  }

  #open(): void {
    this.#stream?.close();
    const stream = new EventSource(address(this.#path));
    this.#stream = stream;
    stream.onopen = () => this.#change({ link: "open" });
    stream.onerror = () => {
      this.#change({ link: "lost" });
      // A stream that was refused does not try again by itself.
      if (stream.readyState === EventSource.CLOSED) this.#later(() => this.#open(), AGAIN);
    };
    stream.addEventListener("skipped", (event: MessageEvent<string>) => this.#skip(event.data));
    stream.addEventListener("exchange", (event: MessageEvent<string>) => this.#take(event.data));
  }

  #take(data: string): void {
    let exchange: Exchange;
    try {
      exchange = JSON.parse(data) as Exchange;
    } catch {
      return;
    }
    this.#count += 1;
    this.#held.push({ ...exchange, number: this.#count });
    if (this.#held.length > KEPT) this.#held.shift();
    this.#timer ??= setTimeout(() => this.#draw(), DRAW);
  }

  #skip(data: string): void {
    const { skipped } = JSON.parse(data) as { skipped: number };
    this.#change({ skipped: this.state.value.skipped + skipped });
  }

  #later(what: () => void, after: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      what();
    }, after);
  }

  #draw(): void {
    this.#timer = undefined;
    if (this.state.value.isPaused) this.#change({ waiting: this.#count - this.#pausedAt });
    else this.#change({ shown: [...this.#held].reverse() });
  }

  pause(isPaused: boolean): void {
    this.#pausedAt = this.#count;
    this.#change({ isPaused, waiting: 0 });
    if (!isPaused) this.#draw();
  }

  clear(): void {
    this.#held = [];
    this.#pausedAt = this.#count;
    this.#change({ shown: [], waiting: 0, skipped: 0 });
  }

  close(): void {
    this.#stream?.close();
    clearTimeout(this.#timer);
  }

  #change(change: Partial<TapState>): void {
    this.state.change((before) => ({ ...before, ...change }));
  }
}

const AGAIN = 5_000;
