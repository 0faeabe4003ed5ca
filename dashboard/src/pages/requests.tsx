// Requests of the last minutes, found by what they were, and those that end now.

import { useEffect, useMemo, useState } from "preact/hooks";
import { path } from "../api";
import { bytes, count, milliseconds } from "../format";
import { gatewayTime, live } from "../live";
import { useLoad } from "../load";
import { Empty, Heading, Loading, Moment, State, Text, type Tone, Wrong, useTitle } from "../parts";
import { change, go, to, usePlace } from "../router";
import { useStore } from "../store";
import { KEPT, Tap } from "../tap";
import { visible } from "../text";
import { seconds } from "../time";
import type { Exchange, Recorded } from "../types";

/** What can be asked for; the names are those of the admin interface. */
const FILTERS = ["route", "upstream", "path", "status", "client", "slower_than", "failed"] as const;
type Filters = Record<(typeof FILTERS)[number], string>;

const LIMIT = 100;
const SINCE = [
  ["", "as long as there is"],
  ["60", "last minute"],
  ["300", "last 5 minutes"],
  ["900", "last 15 minutes"],
  ["3600", "last hour"],
] as const;

export function Requests() {
  useTitle("Requests");
  const { query } = usePlace();
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""])) as Filters;
  const isLive = query.get("live") === "1";
  return (
    <>
      <h1 class="unseen">Requests</h1>
      <ById />
      <FilterForm
        key={FILTERS.map((name) => filters[name]).join("\n")}
        filters={filters}
        since={query.get("since") ?? ""}
        isLive={isLive}
      />
      {isLive ? <Tapped filters={filters} /> : <Found filters={filters} since={query.get("since") ?? ""} />}
    </>
  );
}

function ById() {
  const [id, setId] = useState("");
  return (
    <form
      class="filter"
      onSubmit={(event) => {
        event.preventDefault();
        if (id.trim() !== "") go(to(["requests", id.trim()]));
      }}
    >
      <label class="inline">
        Request id
        <input
          class="mono"
          size={40}
          maxLength={256}
          spellcheck={false}
          placeholder="as responses and error documents have it"
          value={id}
          onInput={(event) => setId(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Find</button>
    </form>
  );
}

function FilterForm({ filters, since, isLive }: { filters: Filters; since: string; isLive: boolean }) {
  const { routes, upstreams } = useStore(live);
  const [draft, setDraft] = useState(filters);
  const set = (name: keyof Filters) => (event: { currentTarget: { value: string } }) =>
    setDraft({ ...draft, [name]: event.currentTarget.value });
  const apply = () => change({ ...draft });
  return (
    <form
      class="filters"
      aria-label="Filters"
      onSubmit={(event) => {
        event.preventDefault();
        apply();
      }}
    >
      <label>
        Route
        <input list="routes" maxLength={256} value={draft.route} onInput={set("route")} />
      </label>
      <label>
        Upstream
        <input list="upstreams" maxLength={256} value={draft.upstream} onInput={set("upstream")} />
      </label>
      <label>
        Path begins with
        <input size={14} maxLength={1024} spellcheck={false} placeholder="/items/" value={draft.path} onInput={set("path")} />
      </label>
      <label>
        Status
        <input size={6} maxLength={16} placeholder="5xx, 404" value={draft.status} onInput={set("status")} />
      </label>
      <label>
        Client
        <input size={16} maxLength={64} placeholder="10.0.0.0/8" value={draft.client} onInput={set("client")} />
      </label>
      <label>
        Slower than, seconds
        <input
          size={8}
          inputMode="decimal"
          maxLength={12}
          placeholder="0.5"
          value={draft.slower_than}
          onInput={set("slower_than")}
        />
      </label>
      {!isLive && (
        <label>
          Since
          <select value={since} onChange={(event) => change({ since: event.currentTarget.value })}>
            {SINCE.map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
      )}
      <label class="check">
        <input
          type="checkbox"
          checked={draft.failed !== ""}
          onChange={(event) => change({ ...draft, failed: event.currentTarget.checked ? "true" : null })}
        />
        Failed only
      </label>
      <span class="buttons">
        <button type="submit" class="main">
          Filter
        </button>
        <button type="button" onClick={() => change({ ...Object.fromEntries(FILTERS.map((name) => [name, null])), since: null })}>
          Clear
        </button>
        <button type="button" aria-pressed={isLive} onClick={() => change({ ...draft, live: isLive ? null : 1 })}>
          Live
        </button>
      </span>
      <datalist id="routes">
        {(routes ?? []).slice(0, 500).map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <datalist id="upstreams">
        {(upstreams ?? []).slice(0, 500).map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </form>
  );
}

function Found({ filters, since }: { filters: Filters; since: string }) {
  // Asked for once: what comes later is not slipped into a list that somebody reads.
  const [asked, setAsked] = useState(0);
  const from = useMemo(() => gatewayTime(), [since, asked]);
  const earliest = since === "" ? null : (from - Number(since)).toFixed(3);
  const { value, failure, again } = useLoad<Recorded>(path(["recorder"], { ...filters, since: earliest, limit: LIMIT }));
  return (
    <section aria-label="Requests that were found">
      <Heading title="Recorded">
        <button type="button" onClick={() => (since === "" ? again() : setAsked(asked + 1))}>
          Refresh
        </button>
        {value && <Covers covers={value.covers} />}
      </Heading>
      {failure && <Wrong failure={failure} again={again} />}
      {value === null ? (
        !failure && <Loading rows={10} />
      ) : value.exchanges.length === 0 ? (
        <Empty>
          No request that is recorded fits. The recorder keeps the latest, and failed and slow ones for longer; ask for fewer
          things at once, or look live.
        </Empty>
      ) : (
        <>
          <List exchanges={value.exchanges} id={(exchange, index) => `${exchange.time} ${exchange.request_id} ${index}`} />
          {value.has_more && <p class="empty">There are more before these. Filter to see others.</p>}
        </>
      )}
    </section>
  );
}

function Covers({ covers: { since, bytes: size, bytes_at_most } }: { covers: Recorded["covers"] }) {
  return (
    <span class="dim">
      {since !== null && (
        <>
          everything since <Moment at={since} />, failed and slow ones for longer;{" "}
        </>
      )}
      {bytes(size)} of at most {bytes(bytes_at_most)}
    </span>
  );
}

function Tapped({ filters }: { filters: Filters }) {
  const asked = path(["tap"], { ...filters });
  const [tap, setTap] = useState<Tap | null>(null);
  useEffect(() => {
    const made = new Tap(asked);
    setTap(made);
    return () => made.close();
  }, [asked]);
  return tap && <TapShown tap={tap} />;
}

function TapShown({ tap }: { tap: Tap }) {
  const { link, shown, waiting, isPaused, skipped } = useStore(tap.state);
  return (
    <section aria-label="Requests that end now">
      <Heading title="Live">
        <button type="button" aria-pressed={isPaused} onClick={() => tap.pause(!isPaused)}>
          Pause
        </button>
        <button type="button" onClick={() => tap.clear()}>
          Clear the list
        </button>
        <span class="dim number">
          {link === "lost"
            ? "The tap has ended; it is opened again in a moment. There may be too many others."
            : isPaused
              ? `paused; ${count(waiting)} came since`
              : `the latest ${KEPT} at most, newest first`}
          {skipped > 0 && `; ${count(skipped)} left out, because there are too many a second`}
        </span>
      </Heading>
      {shown.length === 0 ? (
        <Empty>{link === "connecting" ? "Opening the tap…" : "Waiting for a request that fits."}</Empty>
      ) : (
        <List exchanges={shown} id={(exchange) => (exchange as { number?: number }).number ?? 0} />
      )}
    </section>
  );
}

export function statusTone(exchange: Exchange): Tone {
  const { status, complete, event } = exchange;
  if (event === "tunnel_opened") return "good";
  if (event === CONNECTION) return complete ? "good" : "bad";
  if (status === undefined || status >= 500 || !complete) return "bad";
  return status >= 400 ? "warn" : "good";
}

function List({ exchanges, id }: { exchanges: Exchange[]; id: (exchange: Exchange, index: number) => string | number }) {
  return (
    <table class="cards requests" role="table" aria-label="Requests">
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader" scope="col">
            Time
          </th>
          <th role="columnheader" scope="col">
            Status
          </th>
          <th role="columnheader" scope="col" class="wide">
            Request
          </th>
          <th role="columnheader" scope="col" class="number">
            Took
          </th>
          <th role="columnheader" scope="col">
            Route
          </th>
          <th role="columnheader" scope="col" class="minor">
            Endpoint
          </th>
          <th role="columnheader" scope="col" class="minor">
            Client
          </th>
          <th role="columnheader" scope="col" class="minor number">
            Sent
          </th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {exchanges.map((exchange, index) => (
          <Row key={id(exchange, index)} exchange={exchange} />
        ))}
      </tbody>
    </table>
  );
}

/** Host, path and query. */
export function addressOf({ host = "", path = "", query = "" }: Exchange): string {
  return host + path + (query && `?${query}`);
}

/** Method and address; what else it was where there are none. */
export function requestOf(exchange: Exchange): string {
  return exchange.method === undefined ? withoutHead(exchange) : `${exchange.method} ${addressOf(exchange)}`;
}

/** A request whose head could not be read, or a connection without HTTP. */
export function withoutHead({ event, protocol, sni }: Exchange): string {
  if (event !== CONNECTION) return "no request head";
  return sni === undefined ? `${protocol} connection` : `${protocol} connection to ${sni}`;
}

/** Its status; how a connection without HTTP has ended. */
export function statusOf({ status, complete, event }: Exchange): string | number | undefined {
  return status ?? (event === CONNECTION ? (complete ? "closed" : "failed") : undefined);
}

const CONNECTION = "connection";

function Row({ exchange }: { exchange: Exchange }) {
  const { time, method, duration_ms, route, upstream, endpoint, client, response_bytes, error, request_id } = exchange;
  const name =
    method === undefined ? (
      <span class="dim">
        <Text of={withoutHead(exchange)} />
      </span>
    ) : (
      <>
        <b>
          <Text of={method} />
        </b>{" "}
        <Text of={addressOf(exchange)} />
      </>
    );
  return (
    <tr role="row">
      <td role="cell" data-label="Time">
        <Moment at={seconds(time)} exact />
      </td>
      <td role="cell" data-label="Status">
        <State tone={statusTone(exchange)}>{statusOf(exchange) ?? "none"}</State>
        {error !== undefined && (
          <span class="code">
            {" "}
            <Text of={error} />
          </span>
        )}
      </td>
      <th role="rowheader" scope="row" class="wide target">
        {request_id === undefined ? (
          name
        ) : (
          <a href={to(["requests", request_id])} title={visible(requestOf(exchange))}>
            {name}
          </a>
        )}
      </th>
      <td role="cell" class="number" data-label="Took">
        {milliseconds(duration_ms)}
      </td>
      <td role="cell" data-label="Route">
        <Text of={route} />
      </td>
      <td role="cell" class="minor" data-label="Endpoint">
        <Text of={endpoint ?? upstream} />
      </td>
      <td role="cell" class="minor" data-label="Client">
        <Text of={client} />
      </td>
      <td role="cell" class="minor number" data-label="Sent">
        {bytes(response_bytes)}
      </td>
    </tr>
  );
}
