// What changes by itself: figures from the gateway's stream of events, or asked for again and again where there is none.

import { address, get, session } from "./api";
import { Store } from "./store";
import type { AllRoutes, AllUpstreams, Now, RouteFigures, UpstreamFigures } from "./types";

export type Link = "connecting" | "live" | "polling" | "lost";

export interface Live {
  now: Now | null;
  routes: RouteFigures[] | null;
  upstreams: UpstreamFigures[] | null;
  link: Link;
  /** Since when the link is as it is, in seconds of this machine. */
  since: number;
  /** What the clock of the gateway is ahead of this machine's, in seconds. */
  ahead: number;
}

const nothing = (): Live => ({
  now: null,
  routes: null,
  upstreams: null,
  link: "connecting",
  since: Date.now() / 1000,
  ahead: 0,
});

export const live = new Store<Live>(nothing());

/** The time of the gateway, in seconds. */
export const gatewayTime = (): number => Date.now() / 1000 + live.value.ahead;

/** Without an event for so long a stream is taken for dead. The gateway sends one every 2 s. */
const SILENCE = 9_000;
/** How often figures are asked for where there is no stream. */
const POLL = 5_000;
/** When a stream that was refused is asked for again. */
const AGAIN = 10_000;

let stream: EventSource | null = null;
let watchdog: ReturnType<typeof setTimeout> | undefined;
let poll: ReturnType<typeof setTimeout> | undefined;
let retry: ReturnType<typeof setTimeout> | undefined;

/** Follows the gateway while somebody is signed in and looks at the page. */
export function follow(): void {
  const decide = () => {
    if (session.value && !document.hidden) return start();
    stop();
    // Whoever comes next begins with nothing of it.
    if (!session.value) live.set(nothing());
  };
  session.subscribe(decide);
  document.addEventListener("visibilitychange", decide);
  decide();
}

function start(): void {
  if (stream || poll || retry) return;
  open();
}

function stop(): void {
  close();
  clearTimeout(poll);
  clearTimeout(retry);
  poll = retry = undefined;
}

function open(): void {
  close();
  stream = new EventSource(address("/figures/live"));
  stream.addEventListener("now", (event) => take(event, (now: Now) => ({ now, ahead: ahead(now) })));
  stream.addEventListener("routes", (event) => take(event, ({ routes }: AllRoutes) => ({ routes })));
  stream.addEventListener("upstreams", (event) => take(event, ({ upstreams }: AllUpstreams) => ({ upstreams })));
  stream.onerror = broken;
  watch();
}

function close(): void {
  clearTimeout(watchdog);
  stream?.close();
  stream = null;
}

function watch(): void {
  clearTimeout(watchdog);
  watchdog = setTimeout(broken, SILENCE);
}

function take<T>(event: MessageEvent<string>, change: (value: T) => Partial<Live>): void {
  watch();
  clearTimeout(poll);
  poll = undefined;
  let value: T;
  try {
    value = JSON.parse(event.data) as T;
  } catch {
    return;
  }
  update({ ...change(value), link: "live" });
}

/** The stream ends, is refused or says nothing: figures are asked for until there is one again. */
function broken(): void {
  close();
  clearTimeout(retry);
  retry = setTimeout(() => {
    retry = undefined;
    open();
  }, AGAIN);
  if (!poll) void ask();
}

async function ask(): Promise<void> {
  poll = setTimeout(() => void ask(), POLL);
  const mine = poll;
  try {
    const [now, routes, upstreams] = await Promise.all([
      get<Now>("/figures/now"),
      get<AllRoutes>("/figures/routes"),
      get<AllUpstreams>("/figures/upstreams"),
    ]);
    if (poll !== mine) return;
    update({ now, ahead: ahead(now), routes: routes.routes, upstreams: upstreams.upstreams, link: "polling" });
  } catch {
    if (poll === mine) update({ link: "lost" });
  }
}

const ahead = (now: Now): number => {
  const found = now.at - Date.now() / 1000;
  // What the network takes is no difference of clocks.
  return Math.abs(found) < 2 ? 0 : found;
};

function update(change: Partial<Live>): void {
  live.change((before) => {
    const since = change.link && change.link !== before.link ? Date.now() / 1000 : before.since;
    return { ...before, ...change, since };
  });
}
