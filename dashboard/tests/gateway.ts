// A gateway as it is installed: the real program, with services behind it and traffic through it.

import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const PROGRAM = process.env.TITAN_PROGRAM;

export interface Service {
  address: string;
  /** What it responds with; 0 is for a connection that is cut. */
  status: number;
  /** Milliseconds that a response takes. */
  delay: number;
  close: () => Promise<void>;
}

/**
 * Text as attackers send it: markup, a mark of direction, a space without width. UTF-8, as Node writes it; controls never
 * come as far, because the gateway refuses them.
 */
export const HOSTILE = Buffer.from("<img src=x onerror=alert(1)>\u202egnp.exe\u200b end").toString("latin1");

/** A service that responds as it is told to. */
export async function service(): Promise<Service> {
  const made: Service = { address: "", status: 200, delay: 5, close: async () => {} };
  const server = http.createServer((request, response) => {
    request.resume();
    setTimeout(() => {
      if (made.status === 0) return void request.socket.destroy();
      response.writeHead(made.status, { "Content-Type": "text/plain", "X-Hostile": HOSTILE });
      response.end(`${made.address}\n`);
    }, made.delay);
  });
  made.address = await listen(server);
  made.close = async () => {
    server.closeAllConnections();
    server.close();
  };
  return made;
}

export async function listen(server: http.Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export interface Gateway {
  /** Of the admin interface: `http://127.0.0.1:1234`. */
  admin: string;
  /** Where requests go. */
  listener: string;
  /** The listener that reads no HTTP. */
  raw: string;
  socket: string;
  file: string;
  tokens: { ops: string; viewer: string };
  services: Service[];
  /** What it has said on its standard error. */
  lines: string[];
  stop: () => Promise<void>;
  /** Waits for a line that it says. */
  says: (text: string) => Promise<string>;
  /** The configuration in its file. */
  text: () => string;
  write: (change: (text: string) => string) => void;
}

/** The configuration that the tests are about. */
function configuration(folder: string, services: Service[], tokens: Record<string, string>): string {
  const [a, b, c, d] = services.map((service) => service.address);
  const hash = (name: string) => createHash("sha256").update(tokens[name]!).digest("hex");
  return `# What the tests are about.
state: ${join(folder, "state")}
listeners:
  - { name: web, address: "127.0.0.1:0" }
  - { name: secure, address: "127.0.0.1:0", tls: { certificates: [{ cert: localhost.pem, key: localhost.key }] } }
  - { name: raw, address: "127.0.0.1:0", tcp: legacy }
admin:
  address: "127.0.0.1:0"
  socket: ${join(folder, "admin.sock")}
  tokens:
    ops: { sha256: ${hash("ops")}, rights: full }
    viewer: { sha256: ${hash("viewer")}, rights: read }
routes:
  - { name: shop, prefix: /shop, upstream: shop, rewrite: { prefix: / } }
  - { name: search, prefix: /search, upstream: search }
  - { name: legacy, prefix: /legacy, upstream: legacy }
  - { name: flaky, prefix: /flaky, upstream: flaky, record_bodies: 100B }
  - { name: health, path: /health, respond: { body: "fine\\n" } }
upstreams:
  shop:
    endpoints: ["${a}", "${b}"]
    ejection: { consecutive_errors: 5, time: 5m, max_share: 50% }
    circuit_breaker: { per: endpoint }
  search:
    endpoints: ["${c}"]
  legacy:
    endpoints: ["${d}"]
    circuit_breaker: {}
  # One endpoint refuses all connections: each request to it is retried.
  flaky:
    endpoints: ["127.0.0.1:1", "${c}"]
    ejection: off
`;
}

export async function gateway(): Promise<Gateway> {
  if (!PROGRAM) throw new Error("TITAN_PROGRAM has to name the gateway: make dashboard-check sets it");
  const folder = mkdtempSync(join(tmpdir(), "titan-dashboard-"));
  const tokens = { ops: randomBytes(32).toString("hex"), viewer: randomBytes(32).toString("hex") };
  const services = await Promise.all([service(), service(), service(), service()]);
  const file = join(folder, "titan.yaml");
  execFileSync(PROGRAM, ["cert", "--out", folder], { stdio: "ignore" });
  let text = configuration(folder, services, tokens);
  writeFileSync(file, text);
  const child = spawn(PROGRAM, ["--config", file], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  const heard = (line: string) => {
    lines.push(line);
    for (const look of [...waiting]) look();
  };
  createInterface({ input: child.stderr! }).on("line", heard);
  createInterface({ input: child.stdout! }).on("line", heard);
  const says = (sought: string) => wait(sought, lines, waiting, child);
  const admin = (await says("admin on http")).replace(/^.*admin on (http\S+).*$/, "$1");
  const address = async (of: string) => /127\.0\.0\.1:\d+/.exec(await says(of))![0];
  const [listener, raw] = [await address("listening on"), await address("listening on tcp://")];
  return {
    admin,
    listener,
    raw,
    socket: join(folder, "admin.sock"),
    file,
    tokens,
    services,
    lines,
    says,
    text: () => text,
    write: (change) => writeFileSync(file, (text = change(text))),
    stop: async () => {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      await Promise.all(services.map((service) => service.close()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function wait(sought: string, lines: string[], waiting: Set<() => void>, child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => fail(`it did not say “${sought}” within 20 s:\n${lines.join("\n")}`), 20_000);
    const fail = (why: string) => {
      end();
      reject(new Error(why));
    };
    const exited = () => fail(`it ended before it said “${sought}”:\n${lines.join("\n")}`);
    const look = () => {
      const line = lines.find((line) => line.includes(sought));
      if (line === undefined) return;
      end();
      resolve(line);
    };
    const end = () => {
      clearTimeout(timer);
      waiting.delete(look);
      child.off("exit", exited);
    };
    waiting.add(look);
    child.once("exit", exited);
    look();
  });
}

export interface Traffic {
  stop: () => Promise<void>;
  /** How many responses have come. */
  count: () => number;
}

/** Requests one after another on a few connections, until it is stopped. */
export function traffic(listener: string, paths: string[], connections = 4): Traffic {
  const agent = new http.Agent({ keepAlive: true, maxSockets: connections });
  let [running, responses] = [true, 0];
  const loop = async (from: number) => {
    for (let next = from; running; next++) {
      await request(listener, paths[next % paths.length]!, { agent }).then(
        () => responses++,
        () => {},
      );
    }
  };
  const loops = Array.from({ length: connections }, (_, from) => loop(from));
  return {
    count: () => responses,
    stop: async () => {
      running = false;
      await Promise.all(loops);
      agent.destroy();
    },
  };
}

export interface Response {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: string;
}

/** One request; header values may have any bytes, as Latin-1. */
export function request(address: string, path: string, options: http.RequestOptions & { body?: string } = {}): Promise<Response> {
  const [host, port] = address.split(":");
  return new Promise((resolve, reject) => {
    const sent = http.request({ host, port, path, ...options }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => (body += piece));
      response.on("end", () => resolve({ status: response.statusCode!, headers: response.headers, body }));
      response.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(options.body);
  });
}

/** Has a service fail while something is looked at, and gives its endpoint back to the tests that follow. */
export async function whileItFails(
  gateway: Gateway,
  upstream: string,
  service: Service,
  look: () => Promise<void>,
): Promise<void> {
  service.status = 503;
  try {
    await look();
  } finally {
    // First: traffic goes on, and would have it ejected again.
    service.status = 200;
    const order = { action: "restore", endpoint: service.address };
    const { status, body } = await call(gateway, "POST", `/upstreams/${upstream}`, JSON.stringify(order));
    assert.equal(status, 204, body);
  }
}

/** Waits until an exchange is recorded: it is once it has ended, and its client may know that first. */
export async function isRecorded(gateway: Gateway, id: string): Promise<void> {
  const until = Date.now() + 15_000;
  for (;;) {
    const { status, body } = await call(gateway, "GET", `/recorder/${id}`, "");
    if (status === 200) return;
    assert.equal(status, 404, body);
    assert.ok(Date.now() < until, `${id} is not recorded: ${body}`);
  }
}

/** A call over the Unix socket, as by somebody on the same machine. */
export function call({ socket }: Gateway, method: string, path: string, body: string): Promise<Response> {
  const headers = { Host: "localhost", "Content-Type": path.startsWith("/config") ? "application/yaml" : "application/json" };
  return request("localhost", path, { socketPath: socket, method, headers, body });
}
