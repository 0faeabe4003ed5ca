// Small parts that several pages are made of.

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { Failure } from "./api";
import { UNKNOWN, span } from "./format";
import { gatewayTime, live } from "./live";
import { zone as zones } from "./settings";
import { useStore } from "./store";
import { pieces, visible } from "./text";
import { exactClock, moment } from "./time";

/** Text from the gateway or from the network: isolated, with invisible characters written out. */
export function Text({ of, mono }: { of: string | null | undefined; mono?: boolean }) {
  if (of === null || of === undefined || of === "") return <span class="dim">{UNKNOWN}</span>;
  const shown = pieces(of);
  return (
    <bdi class={mono ? "mono" : undefined}>
      {shown.map(({ text, escaped }, index) =>
        escaped ? (
          <span key={index} class="escaped" title="a character that cannot be seen">
            {text}
          </span>
        ) : (
          text
        ),
      )}
    </bdi>
  );
}

/** A moment in the zone of the reader. */
export function Moment({ at, exact }: { at: number | null | undefined; exact?: boolean }) {
  const zone = useStore(zones);
  if (at === null || at === undefined || !Number.isFinite(at)) return <span class="dim">{UNKNOWN}</span>;
  const iso = new Date(at * 1000).toISOString();
  return (
    <time dateTime={iso} title={iso}>
      {exact ? exactClock(at, zone) : moment(at, zone)}
    </time>
  );
}

/** How long ago that was, or how long it is until then. */
export function Ago({ at }: { at: number }) {
  useStore(live);
  const passed = gatewayTime() - at;
  return <span class="number">{passed >= 0 ? `${span(passed)} ago` : `in ${span(-passed)}`}</span>;
}

export type Tone = "good" | "warn" | "bad" | "idle";

const MARKS: Record<Tone, string> = { good: "●", warn: "▲", bad: "✕", idle: "○" };

/** A state: its mark and its word say the same as its colour. */
export function State({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <span class={`state ${tone}`}>
      <span aria-hidden="true">{MARKS[tone]}</span> {children}
    </span>
  );
}

const ENDPOINT_TONES: Record<string, Tone> = { healthy: "good", draining: "warn" };
export const endpointTone = (state: string): Tone => ENDPOINT_TONES[state] ?? "bad";

/** What is wrong, and the way on. */
export function Wrong({ failure, again }: { failure: Failure; again?: () => void }) {
  return (
    <div class="notice bad" role="alert">
      <Text of={failure.message} />
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** What is shown is not the latest: it could not be loaded again. Takes no room from what it is about. */
export function Stale({ of: { value, failure } }: { of: { value: unknown; failure: Failure | null } }) {
  if (value === null || failure === null) return null;
  return (
    <State tone="warn">
      not up to date: <Text of={failure.message} />
    </State>
  );
}

/** There is nothing to show; says why, and what to do. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="empty">{children}</div>;
}

/** Holds the place of what is being loaded. */
export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div class="loading" style={{ minHeight: `${rows * 2}rem` }} aria-busy="true">
      <span class="unseen">Loading</span>
    </div>
  );
}

export function Heading({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="heading">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** The title of the window; a name in it may come from the network. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${visible(title)} · Titan`;
  }, [title]);
}

/** One of several: a row of buttons, of which one is pressed. */
export function Choice<T extends string>(props: {
  label: string;
  value: T;
  of: readonly (readonly [T, string])[];
  choose: (value: T) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.of.map(([value, text]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.choose(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** A part of 1 as a bar, beside its figure. */
export function Bar({ of, tone = "good" }: { of: number | null; tone?: Tone }) {
  const part = Math.min(1, Math.max(0, of ?? 0));
  return (
    <span class={`bar ${tone}`} aria-hidden="true">
      <span style={{ width: `${(part * 100).toFixed(1)}%` }} />
    </span>
  );
}
