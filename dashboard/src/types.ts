// What the admin interface says and takes, as far as this page needs it. Times are Unix seconds unless they are texts
// (RFC 3339), durations are seconds, and `null` is what is not known.

export type Rights = "read" | "full";

export interface Session {
  user: string;
  rights: Rights;
  /** Nothing for who needs no session. */
  csrf: string | null;
  expires: number | null;
  /** Where a trace is shown: an address with `{trace_id}` in it. */
  trace_url?: string | null;
}

/** Figures are null before they are known. */
export type Figure = number | null;

export interface Series {
  rate: Figure[];
  errors: Figure[];
  client_errors: Figure[];
  p50: Figure[];
  p90: Figure[];
  p99: Figure[];
}

export interface Figures {
  from: number;
  step: number;
  now: number;
  series: Series;
}

export interface Problem {
  severity: "error" | "warning";
  /** The name is empty where there is only one of the kind. */
  about: { kind: string; name: string };
  since: number | null;
  text: string;
}

export interface Worker {
  worker: number;
  busy: Figure;
  lag: Figure;
  connections: Figure;
}

export interface Now {
  at: number;
  version: string;
  started: number;
  rate: Figure;
  error_share: Figure;
  p50: Figure;
  p90: Figure;
  p99: Figure;
  connections: Record<string, number>;
  workers: Worker[];
  problems: Problem[];
  configuration: { version: string; since: number; to_confirm_until: number | null };
}

export interface RouteFigures {
  name: string;
  /** Where its requests go. */
  upstreams: string[];
  rate: Figure;
  error_share: Figure;
  client_error_share: Figure;
  p50: Figure;
  p90: Figure;
  p99: Figure;
  bytes_out_rate: Figure;
}

export interface UpstreamFigures {
  name: string;
  rate: Figure;
  error_share: Figure;
  connect_p50: Figure;
  connect_p99: Figure;
  first_byte_p50: Figure;
  first_byte_p99: Figure;
}

export interface AllRoutes {
  at: number;
  routes: RouteFigures[];
}

export interface AllUpstreams {
  at: number;
  upstreams: UpstreamFigures[];
}

export interface Breaker {
  state: "closed" | "open" | "half-open";
  by_operator: boolean;
  why: string | null;
  since: string;
  ends_in_seconds: number | null;
  requests: number;
  failures: number;
  slow: number;
  times_opened: number;
  rejected: number;
}

export interface Reason {
  state: string;
  why: string;
  since: string | null;
  until: string | null;
}

export interface Endpoint {
  address: string;
  host: string;
  priority: number;
  remote_zone: boolean;
  weight: number;
  state: string;
  why: string | null;
  since: string | null;
  reasons: Reason[];
  breaker: Breaker | null;
  ejections: number;
  probes: number;
  probes_failed: number;
  last_probe: string | null;
  requests: number;
  failures: number;
  latency_seconds: number | null;
  requests_active: number;
  requests_waiting: number;
  connections_open: number;
  connections_idle: number;
}

export interface Upstream {
  name: string;
  panic: boolean;
  retry_budget: { share: string; floor: number; left: number };
  hedge: { delay_seconds: number | null; sent: number; won: number; refused: number } | null;
  breaker: Breaker | null;
  concurrency: { limit: number; running: number; waiting: number; shed: number; overloaded: boolean } | null;
  endpoints: Endpoint[];
}

export type Action = "drain" | "eject" | "restore" | "open_breaker" | "close_breaker" | "release_breaker";

/** The body of POST /upstreams/{name}. */
export interface Order {
  action: Action;
  endpoint?: string;
  for?: string;
}

/** Who asked for a change: a signal, the watch of the file, a user of this machine, a token, a source of documents. */
export type Author = string | { peer: { uid: number; pid: number | null } } | { token: string } | { source: string };

export interface Entry {
  id: number;
  at: string;
  source: string;
  author: Author | null;
  in_force: boolean;
  repeats: number | null;
  outcome: string;
  why: string | null;
  sha256: string;
}

export interface Configuration {
  entry: Entry;
  confirm_until: string | null;
  summary: string;
  documents: { name: string; text: string }[];
}

export interface History {
  entries: Entry[];
  notes: string[];
}

export interface FieldChange {
  field: string;
  old: string | null;
  new: string | null;
  weaker: boolean;
}

export interface Plan {
  result: "same" | "changed" | "weaker";
  changes: { part: string; name: string | null; change: "added" | "removed" | "changed"; fields: FieldChange[] }[];
  moves: { requests: string; from: string; to: string }[];
  unreached: string[];
  weaker: { part: string; name: string | null; what: string; requests: string | null }[];
}

export interface Changed {
  valid: boolean;
  text: string;
  applied?: { entry: Entry; summary: string; notes: string[] };
}

export interface Certificate {
  listener: string;
  file: string;
  names: string[];
  issuer: string;
  not_before: number;
  not_after: number;
  /** Less than 0 where it has expired. */
  days_left: number;
  /** What there is to say of it. */
  problem: string | null;
}

export type Pair = [string, string];

/** What is not there of a head that was too long: fields, and the rest of fields. */
export interface HeadCut {
  missing: number;
  shortened: number;
}

export interface Decision {
  what: string;
  /** Since the head of the request was complete. */
  at_ms?: number;
  text: string;
}

/** One attempt to get a response from an endpoint; times are since the attempt began. */
export interface Attempt {
  kind: "first" | "retry" | "hedge";
  upstream: string;
  endpoint: string;
  began_ms: number;
  took_ms?: number;
  reused: boolean;
  connect_ms?: number;
  tls_ms?: number;
  head_ms?: number;
  status?: number;
  error?: string;
}

/** The first bytes of a body, of one exchange alone. */
export interface RecordedBody {
  /** How many have passed. */
  bytes: number;
  kept: number;
  encoding: "text" | "base64";
  content: string;
}

/** A record of an access log (docs/access-log.schema.json), and what the recorder adds. */
export interface Exchange {
  time: string;
  event: string;
  listener?: string;
  protocol: string;
  tls_version?: string;
  sni?: string;
  client?: string;
  peer?: string;
  method?: string;
  scheme: string;
  host?: string;
  path?: string;
  query?: string;
  route?: string;
  upstream?: string;
  endpoint?: string;
  attempts?: number;
  status?: number;
  upstream_status?: number;
  error?: string;
  caused_by?: string;
  refused_by?: string;
  token_cache?: string;
  auth_cache?: string;
  request_bytes: number;
  response_bytes: number;
  head_ms?: number;
  policies_ms?: number;
  queue_ms?: number;
  connect_ms?: number;
  tls_ms?: number;
  upstream_head_ms?: number;
  duration_ms: number;
  request_id?: string;
  trace_id?: string;
  user_agent?: string;
  referer?: string;
  complete: boolean;
  request_head?: Pair[];
  response_head?: Pair[];
  request_cut?: HeadCut;
  response_cut?: HeadCut;
  request_body?: RecordedBody;
  response_body?: RecordedBody;
  claims?: Pair[];
  tried?: Attempt[];
  decisions?: Decision[];
}

export interface Recorded {
  exchanges: Exchange[];
  has_more: boolean;
  /** Every exchange since then is there; of the time before, failures and slow ones are. */
  covers: { since: number | null; bytes: number; bytes_at_most: number };
}
