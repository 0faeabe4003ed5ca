// Stands before the gateway, and responds in its place where it has no such call yet.

import http from "node:http";
import { type Gateway, listen } from "./gateway";

export interface Front {
  base: string;
  close: () => void;
}

/** Text as attackers send it: markup, an escape sequence, a mark of direction, a space without width, a zero byte. */
export const HOSTILE = "<img src=x onerror=alert(1)>\u001b[31mred\u202egnp.exe\u200b \u0000end";

/** A call of the contract that may be missing, and what it would respond with. */
interface Missing {
  path: RegExp;
  respond: (url: URL, response: http.ServerResponse) => void;
}

const MISSING: Missing[] = [
  { path: /^\/recorder$/, respond: (_, response) => json(response, 200, recorded()) },
  {
    path: /^\/recorder\/missing$/,
    respond: (_, response) => json(response, 404, { detail: "no request with the id `missing` is recorded" }),
  },
  {
    path: /^\/recorder\/.+/,
    respond: (url, response) => json(response, 200, exchange(decodeURIComponent(url.pathname.split("/")[2]!), 0)),
  },
  { path: /^\/tap$/, respond: (_, response) => tap(response) },
];

export async function front(gateway: Gateway): Promise<Front> {
  const { host: to } = new URL(gateway.admin);
  const [host, port] = to.split(":");
  const server = http.createServer((request, response) => {
    const passed = http.request({ host, port, method: request.method, path: request.url, headers: request.headers }, (answer) => {
      const url = new URL(request.url!, "http://front");
      const missing = MISSING.find(({ path }) => path.test(url.pathname));
      if (missing && (answer.statusCode === 404 || answer.statusCode === 405)) {
        answer.resume();
        return missing.respond(url, response);
      }
      response.writeHead(answer.statusCode!, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    request.pipe(passed);
  });
  const base = `http://${await listen(server)}`;
  return { base, close: () => (server.closeAllConnections(), server.close()) };
}

function json(response: http.ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(value));
}

function tap(response: http.ServerResponse): void {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  let count = 0;
  const timer = setInterval(() => {
    const ended = { ...exchange("tap-", count++), time: new Date().toISOString() };
    response.write(`event: exchange\ndata: ${JSON.stringify(ended)}\n\n`);
  }, 10);
  response.on("close", () => clearInterval(timer));
}

function recorded() {
  const exchanges = Array.from({ length: 40 }, (_, index) => exchange("0198f3c2-d1", index));
  return { exchanges, covers: { since: Date.now() / 1000 - 720, exchanges: 48213, bytes: 52e6, bytes_at_most: 64 << 20 } };
}

function exchange(id: string, index: number) {
  const failed = index % 7 === 3;
  return {
    time: new Date(Date.now() - index * 1370).toISOString(),
    event: "request",
    listener: "web",
    protocol: index % 3 ? "HTTP/1.1" : "HTTP/2",
    client: `10.0.${index % 5}.${index % 250}`,
    method: index % 4 ? "GET" : "POST",
    scheme: "http",
    host: "shop.example",
    path: index % 11 === 2 ? `/shop/${HOSTILE}` : `/shop/items/${index}`,
    ...(index % 2 && { query: "?page=2&token=***" }),
    route: "shop",
    upstream: "shop",
    endpoint: "10.0.0.7:8080",
    attempts: failed ? 2 : 1,
    status: failed ? 502 : index % 13 === 5 ? 404 : 200,
    ...(failed && { upstream_status: 503, error: "connect", caused_by: "upstream" }),
    request_bytes: 312 + index,
    response_bytes: 5120 * (index + 1),
    head_ms: 0.12,
    policies_ms: 0.31,
    ...(index % 5 === 0 && { queue_ms: 2.2 }),
    connect_ms: 0.8,
    upstream_head_ms: 7.4 + index,
    duration_ms: 14.2 + index,
    request_id: `${id}${index || ""}`,
    trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
    complete: !failed,
    request_head: [
      ["host", "shop.example"],
      ["user-agent", HOSTILE],
      ["accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
      ["authorization", "***"],
      ["x-long", "abcdefghij".repeat(60)],
    ],
    response_head: [
      ["content-type", "application/json"],
      ["x-hostile", HOSTILE],
    ],
    decisions: [
      { at: 0.00002, what: "route", text: "`shop` matches: prefix /shop; 2 more specific routes do not (host, method)" },
      { at: 0.0003, what: "policy", text: "jwt `customers`: allowed, token known" },
      { at: 0.0004, what: "endpoint", text: "10.0.0.8:8080 by least_requests: 3 running, against 5" },
      { at: 0.0009, what: "attempt", text: "10.0.0.8:8080 refused the connection" },
      { at: 0.0033, what: "retry", text: "on 10.0.0.7:8080 after 2.4 ms: `connect` is retried, 1 of 2 attempts left" },
      { at: 0.0121, what: "response", text: "200 from 10.0.0.7:8080" },
    ],
  };
}
