// One upstream: its endpoints, why they are as they are, and what can be done about it.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { path, session } from "../api";
import { Confirm, type Question } from "../confirm";
import { count, duration, rate, share, span } from "../format";
import { live } from "../live";
import { useLoad } from "../load";
import { Ago, Heading, Loading, Moment, Stale, State, Text, Wrong, endpointTone, useTitle } from "../parts";
import { to } from "../router";
import { useStore } from "../store";
import { seconds } from "../time";
import type { Action, Breaker, Endpoint, Order, Reason, Upstream } from "../types";
import { breakerTone } from "./upstreams";

type Ask = (action: Action, endpoint?: string) => void;

export function UpstreamPage({ name }: { name: string }) {
  useTitle(name);
  const user = useStore(session);
  const { value, failure, again } = useLoad<Upstream>(path(["upstreams", name]), 2);
  const [question, setQuestion] = useState<Question | null>(null);
  const [done, setDone] = useState("");
  const ask: Ask | null =
    user?.rights === "full"
      ? (action, endpoint) =>
          setQuestion(
            order(name, action, endpoint, () => {
              setDone(`${VERBS[action]} ${endpoint ?? name}: done`);
              again();
            }),
          )
      : null;
  return (
    <>
      <p class="back">
        <a href={to(["upstreams"])}>Upstreams</a>
      </p>
      <div class="heading">
        <h1>
          <Text of={name} />
        </h1>
        <span class="done" role="status">
          {done && <Text of={done} />}
        </span>
        <Stale of={{ value, failure }} />
      </div>
      {failure && value === null && <Wrong failure={failure} again={again} />}
      {value === null ? !failure && <Loading rows={8} /> : <Shown upstream={value} ask={ask} />}
      {question && <Confirm question={question} close={() => setQuestion(null)} />}
    </>
  );
}

const VERBS: Record<Action, string> = {
  drain: "Drain",
  eject: "Eject",
  restore: "Restore",
  open_breaker: "Open the breaker of",
  close_breaker: "Close the breaker of",
  release_breaker: "Release the breaker of",
};

const MEANINGS: Record<Action, string> = {
  drain: "It gets no new requests, except those whose sticky cookie names it. Requests that run go on.",
  eject: "It gets no requests, as if its requests had failed.",
  restore: "It is neither drained nor ejected any more. What probes and the configuration say still holds.",
  open_breaker: "All requests are rejected with 503, or get the fallback, whatever happens.",
  close_breaker: "All requests pass, however many fail.",
  release_breaker: "It decides by itself again.",
};

function order(upstream: string, action: Action, endpoint: string | undefined, done: () => void): Question {
  const timed = action !== "restore" && action !== "release_breaker";
  const body = (time: string): Order => ({ action, ...(endpoint && { endpoint }), ...(timed && { for: time }) });
  return {
    title: `${VERBS[action]} ${endpoint ?? upstream}?`,
    children: <p>{MEANINGS[action]}</p>,
    call: (time) => ({ method: "POST", path: path(["upstreams", upstream]), body: body(time) }),
    timed,
    verb: action.endsWith("_breaker") ? `${VERBS[action].split(" ")[0]} the breaker` : VERBS[action],
    ...((action === "eject" || action === "open_breaker") && { tone: "bad" as const }),
    done,
  };
}

function Shown({ upstream, ask }: { upstream: Upstream; ask: Ask | null }) {
  return (
    <>
      <Facts upstream={upstream} />
      {upstream.breaker && (
        <section aria-label="Circuit breaker">
          <Heading title="Circuit breaker" />
          <div class="panel">
            <BreakerFacts breaker={upstream.breaker} />
            {ask && <BreakerButtons breaker={upstream.breaker} ask={(action) => ask(action)} whose="the upstream" />}
          </div>
        </section>
      )}
      <section aria-label="Endpoints">
        <Heading title="Endpoints">
          <span class="dim">
            {upstream.endpoints.filter((it) => it.state === "healthy").length} of {upstream.endpoints.length} healthy
          </span>
          {upstream.panic && <State tone="warn">too few are healthy: all get requests</State>}
        </Heading>
        {upstream.endpoints.length === 0 && (
          <p class="empty">No endpoint: its names resolve to nothing. The gateway's log has the reason.</p>
        )}
        <ul class="endpoints">
          {upstream.endpoints.slice(0, MOST).map((endpoint) => (
            <li key={endpoint.address} class="panel">
              <EndpointShown endpoint={endpoint} ask={ask} />
            </li>
          ))}
        </ul>
        {upstream.endpoints.length > MOST && (
          <p class="empty">
            {upstream.endpoints.length - MOST} more. <code>GET {path(["upstreams", upstream.name])}</code> has all.
          </p>
        )}
      </section>
    </>
  );
}

/** More endpoints than this are not drawn. */
const MOST = 200;

function Facts({ upstream: { name, retry_budget, hedge, concurrency } }: { upstream: Upstream }) {
  const figures = useStore(live).upstreams?.find((it) => it.name === name);
  return (
    <dl class="facts">
      <Fact label="Requests">{rate(figures?.rate)}</Fact>
      <Fact label="Errors">{share(figures?.error_share)}</Fact>
      <Fact label="First byte p50, p99">
        {duration(figures?.first_byte_p50)}, {duration(figures?.first_byte_p99)}
      </Fact>
      <Fact label="Connect p50, p99">
        {duration(figures?.connect_p50)}, {duration(figures?.connect_p99)}
      </Fact>
      <Fact label="Retries left">
        {count(retry_budget.left)}
        <span class="dim">
          {" "}
          (<Text of={retry_budget.share} /> and {retry_budget.floor}/s)
        </span>
      </Fact>
      {hedge && (
        <Fact label="Hedges">
          {count(hedge.sent)} sent, {count(hedge.won)} won, after {duration(hedge.delay_seconds)}
        </Fact>
      )}
      {concurrency && (
        <Fact label="Running">
          {concurrency.running} of at most {concurrency.limit}, {concurrency.waiting} wait, {count(concurrency.shed)} refused
        </Fact>
      )}
    </dl>
  );
}

function Fact({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function EndpointShown({ endpoint, ask }: { endpoint: Endpoint; ask: Ask | null }) {
  const { address, host, state, why, since, reasons, breaker } = endpoint;
  const shown: Reason[] = reasons.length > 0 ? reasons : why === null ? [] : [{ state, why, since, until: null }];
  return (
    <>
      <div class="endpoint-head">
        <h3>
          <Text of={address} mono />
        </h3>
        {host !== address && <Text of={host} />}
        <State tone={endpointTone(state)}>{state}</State>
        {ask && <EndpointButtons endpoint={endpoint} ask={ask} />}
      </div>
      {shown.length > 0 && (
        <ul class="reasons">
          {shown.map((reason, index) => (
            <li key={index}>
              <ReasonLine reason={reason} />
            </li>
          ))}
        </ul>
      )}
      <EndpointFacts endpoint={endpoint} />
      {breaker && (
        <div class="own-breaker">
          <BreakerFacts breaker={breaker} />
          {ask && <BreakerButtons breaker={breaker} ask={(action) => ask(action, address)} whose={address} />}
        </div>
      )}
    </>
  );
}

function ReasonLine({ reason: { state, why, since, until } }: { reason: Reason }) {
  return (
    <>
      {state !== "healthy" && <b>{state}: </b>}
      <Text of={why} />
      {since !== null && (
        <span class="dim">
          , since <Moment at={seconds(since)} /> (<Ago at={seconds(since)} />)
        </span>
      )}
      {until !== null && (
        <span class="dim">
          , until <Moment at={seconds(until)} />
        </span>
      )}
    </>
  );
}

function EndpointFacts({ endpoint }: { endpoint: Endpoint }) {
  const { requests, failures, latency_seconds, requests_active, requests_waiting, connections_open, connections_idle } = endpoint;
  const { probes, probes_failed, last_probe, ejections, weight, priority, remote_zone } = endpoint;
  return (
    <dl class="facts small">
      <Fact label="Running">{count(requests_active)}</Fact>
      <Fact label="Waiting">{count(requests_waiting)}</Fact>
      <Fact label="Connections">
        {count(connections_open)}, {count(connections_idle)} idle
      </Fact>
      {(requests > 0 || failures > 0) && (
        <Fact label="Failed">
          {count(failures)} of {count(requests)}
        </Fact>
      )}
      {latency_seconds !== null && <Fact label="Takes">{duration(latency_seconds)}</Fact>}
      {probes > 0 && (
        <Fact label="Probes failed">
          {count(probes_failed)} of {count(probes)}
        </Fact>
      )}
      {last_probe !== null && (
        <Fact label="Last probe">
          <Text of={last_probe} />
        </Fact>
      )}
      {ejections > 0 && <Fact label="Ejections">{count(ejections)}</Fact>}
      <Fact label="Weight">
        {weight}
        {priority > 0 && `, priority ${priority}`}
        {remote_zone && ", another zone"}
      </Fact>
    </dl>
  );
}

/** What fits its state: an endpoint that is kept from requests by nobody cannot be restored. */
function EndpointButtons({ endpoint: { address, reasons }, ask }: { endpoint: Endpoint; ask: Ask }) {
  const states = new Set(reasons.map((reason) => reason.state));
  const actions: Action[] = [];
  if (!states.has("draining")) actions.push("drain");
  if (!states.has("ejected")) actions.push("eject");
  if (states.has("draining") || states.has("ejected")) actions.push("restore");
  return <Buttons actions={actions} whose={address} ask={(action) => ask(action, address)} />;
}

function BreakerButtons({ breaker, ask, whose }: { breaker: Breaker; ask: (action: Action) => void; whose: string }) {
  const actions: Action[] = [];
  if (!(breaker.by_operator && breaker.state === "open")) actions.push("open_breaker");
  if (!(breaker.by_operator && breaker.state === "closed")) actions.push("close_breaker");
  if (breaker.by_operator) actions.push("release_breaker");
  return <Buttons actions={actions} whose={whose} ask={ask} />;
}

function Buttons({ actions, whose, ask }: { actions: Action[]; whose: string; ask: (action: Action) => void }) {
  return (
    <span class="buttons">
      {actions.map((action) => (
        <button key={action} type="button" onClick={() => ask(action)}>
          {VERBS[action].split(" ")[0]}
          {action.endsWith("_breaker") && " breaker"}
          <span class="unseen">
            {action.endsWith("_breaker") && " of"} <Text of={whose} />
          </span>
          …
        </button>
      ))}
    </span>
  );
}

function BreakerFacts({ breaker }: { breaker: Breaker }) {
  const { why, since, ends_in_seconds, requests, failures, slow, rejected, by_operator } = breaker;
  return (
    <p class="breaker">
      <State tone={breakerTone(breaker)}>breaker {breaker.state}</State>
      {by_operator && " because an operator wants it so"}
      {why !== null && (
        <>
          {": "}
          <Text of={why} />
        </>
      )}
      <span class="dim">
        , since <Moment at={seconds(since)} />
        {ends_in_seconds !== null && `, for another ${span(ends_in_seconds)}`}; {count(failures)} failed and {count(slow)} slow of{" "}
        {count(requests)} in its window, {count(rejected)} rejected
      </span>
    </p>
  );
}
