// Calls of the admin interface.

import { Store } from "./store";
import type { Session } from "./types";

/** Who is signed in: unknown before the first response, null for nobody. */
export const session = new Store<Session | null | undefined>(undefined);

/** Where the interface is: beside the folder of this page. */
const ROOT = new URL("..", document.baseURI).pathname.replace(/\/$/, "");
/** How long a response may take. */
const PATIENCE = 15_000;

/** A call that did not succeed, in words for the reader. */
export class Failure extends Error {
  /** 0 if there was no response. */
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface Call {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** With its query. */
  path: string;
  /** Sent as JSON. */
  body?: unknown;
}

/** Where a call goes. */
export const address = (path: string): string => ROOT + path;

/** A path with parts that may be any text, and parameters of which some are left out. */
export function path(
  parts: readonly (string | number)[],
  query: Record<string, string | number | null | undefined> = {},
): string {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(kept.map(([name, value]): [string, string] => [name, String(value)])).toString();
  return `/${parts.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

/** Makes a call, and returns what it responds with. */
export async function send<T>(call: Call, signal?: AbortSignal): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), PATIENCE);
  const give_up = () => late.abort();
  signal?.addEventListener("abort", give_up);
  try {
    const response = await fetch(address(call.path), { ...request(call), signal: late.signal });
    return await read<T>(response, call);
  } catch (error) {
    if (error instanceof Failure || signal?.aborted) throw error;
    const why = late.signal.aborted ? `There was no response within ${PATIENCE / 1000} s.` : "The gateway cannot be reached.";
    throw new Failure(0, why);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", give_up);
  }
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => send<T>({ method: "GET", path }, signal);

function request({ method, body }: Call): RequestInit {
  const headers: Record<string, string> = { Accept: "application/json" };
  const csrf = session.value?.csrf;
  if (method !== "GET" && csrf) headers["X-CSRF-Token"] = csrf;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return { method, headers, credentials: "same-origin", body: body === undefined ? null : JSON.stringify(body) };
}

async function read<T>(response: Response, call: Call): Promise<T> {
  const text = await response.text();
  let json: unknown;
  try {
    json = text === "" ? null : JSON.parse(text);
  } catch {
    json = undefined;
  }
  if (response.ok && json !== undefined) return json as T;
  if (response.status === 401 && call.path !== "/session") session.set(null);
  throw new Failure(response.status, explanation(response, json));
}

/** What a problem document says, or the findings of a configuration that was refused. */
function explanation(response: Response, json: unknown): string {
  if (typeof json === "object" && json !== null) {
    for (const key of ["detail", "text", "title"]) {
      const text = (json as Record<string, unknown>)[key];
      if (typeof text === "string" && text !== "") return text.trimEnd();
    }
  }
  if (response.ok)
    return "The response is not what this page understands. Reload the page: the gateway may be of another version.";
  return `The gateway responded with ${response.status} ${response.statusText}`.trimEnd();
}

/** Asks who is signed in. */
export async function resume(): Promise<void> {
  try {
    session.set(await get<Session>("/session"));
  } catch (error) {
    if (!(error instanceof Failure) || error.status !== 401) throw error;
    session.set(null);
  }
}

export async function signIn(token: string): Promise<void> {
  session.set(await send<Session>({ method: "POST", path: "/session", body: { token } }));
}

export async function signOut(): Promise<void> {
  try {
    await send({ method: "DELETE", path: "/session" });
  } finally {
    session.set(null);
  }
}
