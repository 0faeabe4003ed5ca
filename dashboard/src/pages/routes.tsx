// Routes with what they did in the last ten seconds.

import { Fragment } from "preact";
import { bytes, duration, rate, share } from "../format";
import { live } from "../live";
import { Heading, Loading, Text, useTitle } from "../parts";
import { to } from "../router";
import { useStore } from "../store";
import { type Column, Table } from "../table";
import type { RouteFigures } from "../types";

const UPSTREAM: Column<RouteFigures> = {
  key: "upstream",
  label: "Upstream",
  minor: true,
  by: ({ upstreams }) => upstreams[0],
  cell: ({ upstreams }) =>
    upstreams.length === 0 ? (
      <Text of={null} />
    ) : (
      upstreams.map((upstream, place) => (
        <Fragment key={upstream}>
          {place > 0 && ", "}
          <a href={to(["upstreams", upstream])}>
            <Text of={upstream} />
          </a>
        </Fragment>
      ))
    ),
};

const COLUMNS: Column<RouteFigures>[] = [
  {
    key: "name",
    label: "Route",
    wide: true,
    by: ({ name }) => name,
    cell: ({ name }) => (
      <a href={to(["now"], { route: name })}>
        <Text of={name} />
      </a>
    ),
  },
  { key: "rate", label: "Requests", number: true, by: (it) => it.rate, cell: (it) => rate(it.rate) },
  {
    key: "errors",
    label: "Errors",
    title: "5xx, and requests without a whole response",
    number: true,
    by: (it) => it.error_share,
    cell: (it) => <span class={(it.error_share ?? 0) > 0 ? "bad" : ""}>{share(it.error_share)}</span>,
  },
  { key: "4xx", label: "4xx", number: true, by: (it) => it.client_error_share, cell: (it) => share(it.client_error_share) },
  { key: "p50", label: "p50", number: true, by: (it) => it.p50, cell: (it) => duration(it.p50) },
  { key: "p90", label: "p90", number: true, by: (it) => it.p90, cell: (it) => duration(it.p90) },
  { key: "p99", label: "p99", number: true, by: (it) => it.p99, cell: (it) => duration(it.p99) },
  {
    key: "out",
    label: "Sent",
    title: "Bytes to clients",
    number: true,
    minor: true,
    by: (it) => it.bytes_out_rate,
    cell: (it) => (it.bytes_out_rate === null ? bytes(null) : `${bytes(it.bytes_out_rate)}/s`),
  },
  {
    key: "requests",
    label: "Recorded",
    minor: true,
    cell: ({ name }) => (
      <a href={to(["requests"], { route: name === "(none)" ? "none" : name })}>
        requests
        <span class="unseen">
          {" "}
          of <Text of={name} />
        </span>
      </a>
    ),
  },
];

const [NAME, ...FIGURES] = COLUMNS;
const WITH_UPSTREAM = [NAME!, UPSTREAM, ...FIGURES];

export function Routes() {
  useTitle("Routes");
  const { routes } = useStore(live);
  return (
    <>
      <h1 class="unseen">Routes</h1>
      <Heading title="Routes">
        <span class="dim">over the last 10 s</span>
      </Heading>
      {routes === null ? (
        <Loading rows={8} />
      ) : (
        <Table
          label="Routes"
          columns={routes.some(({ upstreams }) => upstreams.length > 0) ? WITH_UPSTREAM : COLUMNS}
          rows={routes}
          id={({ name }) => name}
          text={({ name, upstreams }) => [name, ...upstreams].join(" ")}
          sort="rate"
          empty="The configuration has no routes: every request gets 404."
        />
      )}
    </>
  );
}
