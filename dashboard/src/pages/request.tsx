// One request: what it was, where its time went, and what was decided about it.

import { type ComponentChildren, Fragment } from "preact";
import { path, session } from "../api";
import { bytes, count, milliseconds } from "../format";
import { useLoad } from "../load";
import { Empty, Heading, Loading, Moment, State, Text, Wrong, useTitle } from "../parts";
import { to } from "../router";
import { useStore } from "../store";
import { traceAddress, visible } from "../text";
import { seconds } from "../time";
import type { Attempt, Decision, Exchange, HeadCut, Pair, RecordedBody } from "../types";
import { addressOf, statusOf, statusTone, withoutHead } from "./requests";

export function Request({ id }: { id: string }) {
  useTitle(`Request ${id}`);
  const { value, failure, again } = useLoad<Exchange>(path(["recorder", id]));
  return (
    <>
      <p class="back">
        <a href={to(["requests"])}>Requests</a>
      </p>
      <h1 class="break">
        Request <Text of={id} mono />
      </h1>
      {failure && <Wrong failure={failure} again={again} />}
      {value === null ? !failure && <Loading rows={12} /> : <Shown exchange={value} />}
    </>
  );
}

function Shown({ exchange }: { exchange: Exchange }) {
  return (
    <>
      <Summary exchange={exchange} />
      <Timeline exchange={exchange} />
      <div class="columns">
        <div>
          <Head title="Request" pairs={exchange.request_head} cut={exchange.request_cut} bytes={exchange.request_bytes} />
          <Body title="Request body" body={exchange.request_body} />
        </div>
        <div>
          <Head title="Response" pairs={exchange.response_head} cut={exchange.response_cut} bytes={exchange.response_bytes} />
          <Body title="Response body" body={exchange.response_body} />
        </div>
      </div>
    </>
  );
}

function Summary({ exchange }: { exchange: Exchange }) {
  const user = useStore(session);
  const { method, scheme, status, upstream_status, error, caused_by, refused_by, complete, event } = exchange;
  const trace = exchange.trace_id;
  const traceLink = trace === undefined ? null : traceAddress(user?.trace_url, trace);
  const facts: [string, ComponentChildren][] = [
    ["When", <Moment at={seconds(exchange.time)} exact />],
    ["Took", milliseconds(exchange.duration_ms)],
    ["Client", <Text of={exchange.client} />],
    ["Protocol", <Text of={[exchange.protocol, exchange.tls_version, exchange.sni].filter(Boolean).join(", ")} />],
    ["Listener", <Text of={exchange.listener} />],
    [
      "Route",
      exchange.route === undefined ? (
        <Text of={null} />
      ) : (
        <a href={to(["now"], { route: exchange.route })}>
          <Text of={exchange.route} />
        </a>
      ),
    ],
    [
      "Upstream",
      exchange.upstream === undefined ? (
        <Text of={null} />
      ) : (
        <a href={to(["upstreams", exchange.upstream])}>
          <Text of={exchange.upstream} />
        </a>
      ),
    ],
    ["Endpoint", <Text of={exchange.endpoint} />],
    ["Attempts", exchange.attempts ?? <Text of={null} />],
  ];
  if (exchange.token_cache !== undefined) facts.push(["Token cache", <Text of={exchange.token_cache} />]);
  if (exchange.auth_cache !== undefined) facts.push(["Authorization cache", <Text of={exchange.auth_cache} />]);
  for (const [name, value] of exchange.claims ?? []) facts.push([`Claim ${visible(name)}`, <Text of={value} />]);
  if (trace !== undefined) {
    facts.push([
      "Trace",
      traceLink === null ? (
        <Text of={trace} mono />
      ) : (
        <a href={traceLink} rel="noreferrer" target="_blank">
          <Text of={trace} mono />
        </a>
      ),
    ]);
  }
  return (
    <>
      <p class="target break">
        <State tone={statusTone(exchange)}>{statusOf(exchange) ?? "no status"}</State>{" "}
        {method === undefined ? (
          <Text of={withoutHead(exchange)} />
        ) : (
          <>
            <b>
              <Text of={method} />
            </b>{" "}
            <Text of={`${scheme}://${addressOf(exchange)}`} mono />
          </>
        )}
      </p>
      {(error !== undefined || refused_by !== undefined || !complete) && event !== "tunnel_opened" && (
        <p class="notice bad">
          <span>
            {error !== undefined && (
              <>
                <b>
                  <Text of={error} />
                </b>
                {caused_by !== undefined && (
                  <>
                    , caused by the <Text of={caused_by} />
                  </>
                )}
                .{" "}
              </>
            )}
            {refused_by !== undefined && (
              <>
                Refused by the policy <Text of={refused_by} />.{" "}
              </>
            )}
            {upstream_status !== undefined && upstream_status !== status && <>The endpoint responded with {upstream_status}. </>}
            {!complete && "The client does not have all of the response."}
          </span>
        </p>
      )}
      <dl class="facts">
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

interface Phase {
  label: string;
  colour: string;
  /** Milliseconds from the complete head of the request. */
  from: number;
  took: number;
}

/** In the order in which they begin. */
function phases(exchange: Exchange): Phase[] {
  const { head_ms = 0, policies_ms = 0, queue_ms = 0, duration_ms } = exchange;
  // They come as they ended: of a hedge, the later one may come first.
  const tried = [...(exchange.tried ?? [])].sort((one, other) => one.began_ms - other.began_ms).slice(0, MOST_ATTEMPTS);
  const first = tried[0]?.began_ms ?? policies_ms + queue_ms;
  const found: Phase[] = [
    { label: "reading the head", colour: "phase-head", from: -head_ms, took: head_ms },
    { label: "policies", colour: "phase-policies", from: 0, took: policies_ms },
    { label: "waiting in a queue", colour: "phase-queue", from: Math.max(0, first - queue_ms), took: queue_ms },
    ...tried.flatMap((attempt, index) => phasesOf(attempt, tried.length > 1 ? `attempt ${index + 1}, ` : "")),
  ];
  const last = tried.at(-1);
  const responded = last ? last.began_ms + (last.head_ms ?? last.took_ms ?? 0) : policies_ms;
  found.push({
    label: last ? "passing the response on" : "responding",
    colour: "phase-rest",
    from: responded,
    took: duration_ms - responded,
  });
  return found.filter(({ took }) => took > 0.0005);
}

function phasesOf({ began_ms, took_ms, connect_ms = 0, tls_ms = 0, head_ms, error, kind }: Attempt, which: string): Phase[] {
  const waits = began_ms + connect_ms + tls_ms;
  const ends = began_ms + (head_ms ?? took_ms ?? connect_ms + tls_ms);
  const what = error !== undefined ? "until it failed" : which === "" ? "waiting for the response" : "waiting";
  const named = (what: string) => which + (kind === "first" ? what : `${kind}, ${what}`);
  return [
    { label: named("connecting"), colour: "phase-connect", from: began_ms, took: connect_ms },
    { label: named("TLS with the endpoint"), colour: "phase-tls", from: began_ms + connect_ms, took: tls_ms },
    { label: named(what), colour: error === undefined ? "phase-wait" : "line-bad", from: waits, took: ends - waits },
  ];
}

const MOST_ATTEMPTS = 20;

function Timeline({ exchange }: { exchange: Exchange }) {
  const shown = phases(exchange);
  const start = Math.min(0, shown[0]?.from ?? 0);
  const decisions = (exchange.decisions ?? []).slice(0, MOST_DECISIONS);
  const end = Math.max(exchange.duration_ms, ...decisions.map(({ at_ms = 0 }) => at_ms), start + 0.001);
  const place = (at: number) => `${(((at - start) / (end - start)) * 100).toFixed(2)}%`;
  return (
    <section aria-label="Timeline">
      <Heading title="Timeline">
        <span class="dim">0 is when the head of the request was complete</span>
      </Heading>
      <ol class="timeline" aria-label="Phases">
        {shown.map(({ label, colour, from, took }) => (
          <li key={label}>
            <span class="label">{label}</span>
            <span class="track" aria-hidden="true">
              <span
                style={{
                  left: place(from),
                  width: `${Math.max(0.3, (took / (end - start)) * 100).toFixed(2)}%`,
                  background: `var(--${colour})`,
                }}
              />
            </span>
            <span class="number">{milliseconds(took)}</span>
          </li>
        ))}
      </ol>
      <h3>Decisions</h3>
      {decisions.length === 0 ? (
        <Empty>None is recorded.</Empty>
      ) : (
        <ol class="timeline decisions" aria-label="Decisions">
          {decisions.map((decision, index) => (
            <DecisionLine key={index} decision={decision} left={decision.at_ms === undefined ? null : place(decision.at_ms)} />
          ))}
        </ol>
      )}
    </section>
  );
}

const MOST_DECISIONS = 300;

function DecisionLine({ decision: { at_ms, what, text }, left }: { decision: Decision; left: string | null }) {
  return (
    <li>
      <span class="label">
        <span class="number dim">{milliseconds(at_ms)}</span>{" "}
        <b>
          <Text of={what} />
        </b>
      </span>
      <span class="track" aria-hidden="true">
        {left !== null && <span class="tick" style={{ left }} />}
      </span>
      <span class="said">
        <Text of={text} />
      </span>
    </li>
  );
}

interface HeadShown {
  title: string;
  pairs: Pair[] | undefined;
  cut: HeadCut | undefined;
  bytes: number;
}

function Head({ title, pairs, cut, bytes: size }: HeadShown) {
  return (
    <section aria-label={`${title} head`}>
      <Heading title={`${title} head`}>
        <span class="dim">{bytes(size)} with its body</span>
      </Heading>
      {pairs === undefined || pairs.length === 0 ? (
        <Empty>Not recorded.</Empty>
      ) : (
        <dl class="head">
          {pairs.map(([name, value], index) => (
            <div key={index}>
              <dt>
                <Text of={name} mono />
              </dt>
              <dd>
                <Text of={value} mono />
              </dd>
            </div>
          ))}
        </dl>
      )}
      {cut !== undefined && <p class="dim">{notKept(cut)}</p>}
    </section>
  );
}

/** What is not shown of a head that was too long. */
function notKept({ missing, shortened }: HeadCut): string {
  const said = (count: number, what: string) =>
    count === 0 ? [] : [`${count} ${count === 1 ? "field is" : "fields are"} ${what}`];
  return `… ${[...said(missing, "not shown"), ...said(shortened, "cut off")].join(", ")}: only so much of a head is kept.`;
}

/** The beginning of a body, where the route has it kept. */
function Body({ title, body }: { title: string; body: RecordedBody | undefined }) {
  if (body === undefined) return null;
  const { bytes: whole, kept, encoding, content } = body;
  return (
    <section aria-label={title}>
      <Heading title={title}>
        <span class="dim">
          {kept < whole && `the first ${count(kept)} of `}
          {count(whole)} bytes
          {encoding === "base64" && ", in base64"}
        </span>
      </Heading>
      <pre class="body" tabIndex={0} role="region" aria-label={`${title}, its beginning`}>
        {lines(content).map((line, index) => (
          <Fragment key={index}>
            {index > 0 && "\n"}
            {line !== "" && <Text of={line} mono />}
          </Fragment>
        ))}
      </pre>
    </section>
  );
}

/** Lines without what ends them, and with tabs as what they look like. */
function lines(content: string): string[] {
  return content.split(/\r?\n/).map((line) => line.replaceAll("\t", "    "));
}
