// What happens now: how much, how well, and what is wrong.

import { useEffect, useMemo, useState } from "preact/hooks";
import { path } from "../api";
import { Chart, type Line, type Range } from "../chart";
import { UNKNOWN, count, duration, rate, share } from "../format";
import { live } from "../live";
import { useLoad } from "../load";
import { Bar, Choice, Empty, Heading, Loading, Moment, Stale, State, Text, Wrong, useTitle } from "../parts";
import { change, to, usePlace } from "../router";
import { useStore } from "../store";
import { type Column, Table } from "../table";
import { visible, withoutSince } from "../text";
import type { Figure, Figures, Now, Problem, Worker } from "../types";

const WINDOWS = [
  ["60", "1 min"],
  ["300", "5 min"],
  ["3600", "1 h"],
  ["86400", "24 h"],
] as const;
type Window = (typeof WINDOWS)[number][0];

/** The shortest window that the gateway has figures for; shorter ones are its end. */
const SHORTEST = 300;

export function NowPage() {
  useTitle("Now");
  const { now } = useStore(live);
  return (
    <>
      <h1 class="unseen">Now</h1>
      <Problems now={now} />
      <Tiles now={now} />
      <Charts />
      <Workers now={now} />
    </>
  );
}

function Problems({ now }: { now: Now | null }) {
  // A trial that ends by itself has a notice of its own, on every page.
  const isTold = now?.configuration.to_confirm_until != null;
  const problems = (now?.problems ?? []).filter(({ about }) => !(isTold && about.kind === "trial"));
  return (
    <section class="problems" aria-label="What is wrong" aria-live="polite">
      {now === null ? (
        <p class="calm">
          <State tone="idle">Waiting for the first figures</State>
        </p>
      ) : problems.length === 0 ? (
        <p class="calm">
          <State tone="good">Nothing is wrong</State>
        </p>
      ) : (
        <ul>
          {problems.slice(0, MOST_PROBLEMS).map((problem) => (
            <li
              key={`${problem.about.kind} ${problem.about.name} ${problem.text}`}
              class={problem.severity === "error" ? "bad" : "warn"}
            >
              <ProblemLine problem={problem} />
            </li>
          ))}
          {problems.length > MOST_PROBLEMS && <li>{problems.length - MOST_PROBLEMS} more</li>}
        </ul>
      )}
    </section>
  );
}

const MOST_PROBLEMS = 50;

function ProblemLine({ problem: { severity, about, since, text } }: { problem: Problem }) {
  const link = placeOf(about);
  // The moment stands beside it, in the time of the reader.
  const said = since === null ? text : withoutSince(text);
  return (
    <>
      <State tone={severity === "error" ? "bad" : "warn"}>
        <span class="unseen">{severity}: </span>
        <Text of={said} />
      </State>
      <span class="apart dim">
        {since !== null && (
          <>
            since <Moment at={since} />{" "}
          </>
        )}
        {link && (
          <a href={link}>
            Look
            <span class="unseen">
              {" "}
              at <Text of={said} />
            </span>
          </a>
        )}
      </span>
    </>
  );
}

/** Where the reader sees more of it. */
function placeOf({ kind, name }: Problem["about"]): string | null {
  switch (kind) {
    case "upstream":
      return to(["upstreams", name]);
    case "route":
      return to(["routes"], { filter: name });
    case "certificate":
      return to(["configuration", "certificates"]);
    case "reload":
    case "trial":
    case "history":
      return to(["configuration", "history"]);
    default:
      return null;
  }
}

function Tiles({ now }: { now: Now | null }) {
  const connections = Object.entries(now?.connections ?? {});
  return (
    <dl class="tiles">
      <Tile label="Requests" value={rate(now?.rate)} />
      <Tile label="Errors" value={share(now?.error_share)} tone={(now?.error_share ?? 0) >= 0.01 ? "bad" : undefined} />
      <Tile label="p50" value={duration(now?.p50)} />
      <Tile label="p90" value={duration(now?.p90)} />
      <Tile label="p99" value={duration(now?.p99)} />
      <div class="tile connections">
        <dt>Connections</dt>
        <dd>
          {connections.length === 0 && UNKNOWN}
          {connections.slice(0, 8).map(([protocol, open]) => (
            <span key={protocol}>
              <b>{count(open)}</b> <Text of={protocol} />
            </span>
          ))}
        </dd>
      </div>
    </dl>
  );
}

function Tile({ label, value, tone }: { label: string; value: string; tone?: string | undefined }) {
  return (
    <div class={`tile ${tone ?? ""}`}>
      <dt>{label}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Charts() {
  const { query } = usePlace();
  const { routes } = useStore(live);
  const window = WINDOWS.find(([value]) => value === query.get("window"))?.[0] ?? "300";
  const route = query.get("route") ?? "";
  const asked = path(["figures"], { window: Math.max(SHORTEST, Number(window)), route });
  const { value, failure, again } = useFigures(asked, Number(window));
  const [zoom, setZoom] = useState<Range | null>(null);
  useEffect(() => setZoom(null), [window, route]);
  const names = (routes ?? []).map((it) => it.name).slice(0, MOST_ROUTES);
  if (route !== "" && !names.includes(route)) names.unshift(route);
  return (
    <section aria-label="By time">
      <Heading title="By time">
        <label class="inline">
          Route
          <select value={route} onChange={(event) => change({ route: event.currentTarget.value })}>
            <option value="">all of them</option>
            {names.map((name) => (
              <option key={name} value={name}>
                {visible(name)}
              </option>
            ))}
          </select>
        </label>
        <Choice<Window>
          label="Window"
          value={window}
          of={WINDOWS}
          choose={(value) => change({ window: value === "300" ? null : value })}
        />
        <button type="button" class={zoom ? "" : "hidden"} disabled={!zoom} onClick={() => setZoom(null)}>
          Whole window
        </button>
        <Stale of={{ value, failure }} />
      </Heading>
      {failure && value === null && <Wrong failure={failure} again={again} />}
      <ThreeCharts figures={value} window={Number(window)} zoom={zoom} onZoom={setZoom} />
    </section>
  );
}

const MOST_ROUTES = 500;

/** Asked for again whenever there can be another point. */
function useFigures(asked: string, window: number) {
  const every = window <= SHORTEST ? 2 : window <= 3600 ? 10 : 60;
  return useLoad<Figures>(asked, every);
}

interface ChartsProps {
  figures: Figures | null;
  window: number;
  zoom: Range | null;
  onZoom: (zoom: Range | null) => void;
}

function ThreeCharts({ figures, window, zoom, onZoom }: ChartsProps) {
  const drawn = useMemo(() => figures && prepare(figures, window), [figures, window]);
  if (!drawn)
    return (
      <div class="charts">
        {[0, 1, 2].map((it) => (
          <div key={it} class="chart-place" />
        ))}
      </div>
    );
  const { times, range, requests, errors, durations } = drawn;
  const shared = { times, range, zoom, onZoom };
  return (
    <div class="charts">
      <Chart {...shared} title="Requests" unit="requests a second" lines={requests} format={rate} />
      <Chart {...shared} title="Errors" unit="share of requests" lines={errors} format={share} />
      <Chart
        {...shared}
        title="Durations"
        unit="time from request to the end of the response"
        lines={durations}
        format={duration}
      />
    </div>
  );
}

function prepare({ from, step, now, series }: Figures, window: number) {
  const all = series.rate.map((_, index) => from + index * step);
  const start = now - window;
  const skip = Math.max(
    0,
    all.findIndex((time) => time >= start - step),
  );
  const cut = (values: Figure[]) => values.slice(skip);
  const ofAll = (values: Figure[]) => cut(values.map((value, index) => portion(value, series.rate[index])));
  const requests: Line[] = [{ label: "requests", colour: "line-1", values: cut(series.rate), fill: true }];
  const errors: Line[] = [
    { label: "5xx and failed", colour: "line-bad", values: ofAll(series.errors), fill: true },
    { label: "4xx", colour: "line-warn", values: ofAll(series.client_errors), dash: [6, 3] },
  ];
  const durations: Line[] = [
    { label: "p50", colour: "line-1", values: cut(series.p50) },
    { label: "p90", colour: "line-2", values: cut(series.p90), dash: [6, 3] },
    { label: "p99", colour: "line-3", values: cut(series.p99), dash: [2, 3] },
  ];
  return { times: all.slice(skip), range: [start, now] as Range, requests, errors, durations };
}

function portion(part: Figure, whole: Figure | undefined): Figure {
  if (part === null || whole === null || whole === undefined) return null;
  return whole > 0 ? Math.min(1, part / whole) : 0;
}

const WORKERS: Column<Worker>[] = [
  { key: "worker", label: "Worker", cell: ({ worker }) => worker, by: ({ worker }) => worker },
  {
    key: "busy",
    label: "Busy",
    title: "Share of its time that it works",
    number: true,
    by: ({ busy }) => busy,
    cell: ({ busy }) => (
      <>
        <Bar of={busy} tone={(busy ?? 0) > 0.9 ? "bad" : (busy ?? 0) > 0.7 ? "warn" : "good"} /> {share(busy)}
      </>
    ),
  },
  {
    key: "lag",
    label: "Lag",
    title: "How late its timers are",
    number: true,
    cell: ({ lag }) => duration(lag),
    by: ({ lag }) => lag,
  },
  {
    key: "connections",
    label: "Connections",
    number: true,
    cell: ({ connections }) => count(connections),
    by: ({ connections }) => connections,
  },
];

function Workers({ now }: { now: Now | null }) {
  return (
    <section aria-label="Workers">
      <Heading title="Workers" />
      {now === null ? (
        <Loading rows={3} />
      ) : now.workers.length === 0 ? (
        <Empty>No worker has told of itself yet.</Empty>
      ) : (
        <Table label="Workers" columns={WORKERS} rows={now.workers} id={({ worker }) => worker} empty="" narrow />
      )}
    </section>
  );
}
