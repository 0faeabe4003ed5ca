// Upstreams with what they do, and how many of their endpoints get requests.

import { duration, rate, share } from "../format";
import { live } from "../live";
import { useLoad } from "../load";
import { Heading, Loading, Stale, State, Text, type Tone, Wrong, useTitle } from "../parts";
import { to } from "../router";
import { useStore } from "../store";
import { type Column, Table } from "../table";
import type { Breaker, Upstream, UpstreamFigures } from "../types";

interface Row {
  upstream: Upstream;
  figures: UpstreamFigures | undefined;
}

export const breakerTone = ({ state }: Breaker): Tone => (state === "closed" ? "good" : state === "open" ? "bad" : "warn");

const COLUMNS: Column<Row>[] = [
  {
    key: "name",
    label: "Upstream",
    wide: true,
    by: ({ upstream }) => upstream.name,
    cell: ({ upstream: { name } }) => (
      <a href={to(["upstreams", name])}>
        <Text of={name} />
      </a>
    ),
  },
  {
    key: "endpoints",
    label: "Endpoints",
    by: ({ upstream }) => healthy(upstream) / upstream.endpoints.length,
    cell: ({ upstream }) => <Endpoints of={upstream} />,
  },
  {
    key: "breaker",
    label: "Breaker",
    minor: true,
    by: ({ upstream: { breaker } }) => breaker?.state,
    cell: ({ upstream: { breaker } }) =>
      breaker ? <State tone={breakerTone(breaker)}>{breaker.state}</State> : <Text of={null} />,
  },
  {
    key: "rate",
    label: "Requests",
    number: true,
    by: ({ figures }) => figures?.rate,
    cell: ({ figures }) => rate(figures?.rate),
  },
  {
    key: "errors",
    label: "Errors",
    number: true,
    by: ({ figures }) => figures?.error_share,
    cell: ({ figures }) => <span class={(figures?.error_share ?? 0) > 0 ? "bad" : ""}>{share(figures?.error_share)}</span>,
  },
  {
    key: "first50",
    label: "First byte p50",
    number: true,
    by: ({ figures }) => figures?.first_byte_p50,
    cell: ({ figures }) => duration(figures?.first_byte_p50),
  },
  {
    key: "first99",
    label: "p99",
    title: "First byte, 99th percentile",
    alone: "First byte p99",
    number: true,
    by: ({ figures }) => figures?.first_byte_p99,
    cell: ({ figures }) => duration(figures?.first_byte_p99),
  },
  {
    key: "connect50",
    label: "Connect p50",
    number: true,
    minor: true,
    by: ({ figures }) => figures?.connect_p50,
    cell: ({ figures }) => duration(figures?.connect_p50),
  },
  {
    key: "connect99",
    label: "p99",
    title: "Connecting, 99th percentile",
    alone: "Connect p99",
    number: true,
    minor: true,
    by: ({ figures }) => figures?.connect_p99,
    cell: ({ figures }) => duration(figures?.connect_p99),
  },
];

const healthy = ({ endpoints }: Upstream) => endpoints.filter(({ state }) => state === "healthy").length;

function Endpoints({ of: upstream }: { of: Upstream }) {
  const { endpoints, panic } = upstream;
  const able = healthy(upstream);
  const tone: Tone = able === 0 ? "bad" : able < endpoints.length ? "warn" : "good";
  return (
    <State tone={tone}>
      {endpoints.length === 0 ? "none" : `${able} of ${endpoints.length} healthy`}
      {panic && ", all get requests"}
    </State>
  );
}

export function Upstreams() {
  useTitle("Upstreams");
  const { value, failure, again } = useLoad<{ upstreams: Upstream[] }>("/upstreams", 2);
  const { upstreams: figures } = useStore(live);
  const byName = new Map((figures ?? []).map((it) => [it.name, it]));
  const rows = (value?.upstreams ?? []).map((upstream): Row => ({ upstream, figures: byName.get(upstream.name) }));
  return (
    <>
      <h1 class="unseen">Upstreams</h1>
      <Heading title="Upstreams">
        <span class="dim">over the last 10 s</span>
        <Stale of={{ value, failure }} />
      </Heading>
      {failure && value === null && <Wrong failure={failure} again={again} />}
      {value === null ? (
        !failure && <Loading rows={8} />
      ) : (
        <Table
          label="Upstreams"
          columns={COLUMNS}
          rows={rows}
          id={({ upstream }) => upstream.name}
          text={({ upstream }) => `${upstream.name} ${upstream.endpoints.map((it) => it.address).join(" ")}`}
          empty="The configuration has no upstreams: routes respond by themselves."
        />
      )}
    </>
  );
}
