// Which way a request would take, and why: nothing is sent.

import { useState } from "preact/hooks";
import { Failure, send } from "../api";
import { Heading, Wrong, useTitle } from "../parts";
import { change, usePlace } from "../router";
import { visible } from "../text";
import type { Pair } from "../types";

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

export function Explain() {
  useTitle("Explain");
  const { query } = usePlace();
  const asked = {
    method: query.get("method") ?? "GET",
    url: query.get("url") ?? "",
    client: query.get("client") ?? "",
  };
  // Fields may have secrets in them: they are no part of the address.
  const [headers, setHeaders] = useState("");
  const [failure, setFailure] = useState<Failure | null>(null);
  const [result, setResult] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);

  const ask = async () => {
    setBusy(true);
    try {
      const pairs = fields(headers);
      const body = { method: asked.method, url: asked.url, headers: pairs, ...(asked.client && { client: asked.client }) };
      setResult(await send({ method: "POST", path: "/explain", body }));
      setFailure(null);
    } catch (error) {
      setFailure(error instanceof Failure ? error : new Failure(0, String(error)));
    }
    setBusy(false);
  };

  return (
    <>
      <h1 class="unseen">Explain a request</h1>
      <Heading title="Explain">
        <span class="dim">what the configuration in force would do with a request; nothing is sent</span>
      </Heading>
      <form
        class="explain"
        onSubmit={(event) => {
          event.preventDefault();
          void ask();
        }}
      >
        <label class="short">
          Method
          <input
            list="methods"
            required
            maxLength={32}
            spellcheck={false}
            value={asked.method}
            onInput={(event) => change({ method: event.currentTarget.value })}
          />
          <datalist id="methods">
            {METHODS.map((method) => (
              <option key={method} value={method} />
            ))}
          </datalist>
        </label>
        <label class="long">
          Address
          <input
            required
            maxLength={8192}
            spellcheck={false}
            placeholder="http://shop.example/items/42"
            value={asked.url}
            onInput={(event) => change({ url: event.currentTarget.value })}
          />
        </label>
        <label class="short">
          Client (optional)
          <input
            maxLength={64}
            spellcheck={false}
            placeholder="10.0.0.1"
            value={asked.client}
            onInput={(event) => change({ client: event.currentTarget.value })}
          />
        </label>
        <label class="whole">
          Header fields (optional), one a line
          <textarea
            rows={4}
            spellcheck={false}
            maxLength={65536}
            placeholder="Authorization: Bearer …"
            value={headers}
            onInput={(event) => setHeaders(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="main" disabled={busy}>
          Explain
        </button>
      </form>
      {failure && <Wrong failure={failure} />}
      {result !== null && <Explained result={result} />}
    </>
  );
}

/** `Name: value` in each line. */
function fields(text: string): Pair[] {
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line): Pair => {
      const colon = line.indexOf(":");
      if (colon <= 0) throw new Failure(0, `“${visible(line)}” is no header field: write “Name: value”`);
      return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    });
}

/** What `titan explain` prints; of a gateway that says it otherwise, all that it says. */
function Explained({ result }: { result: unknown }) {
  const { text } = (result ?? {}) as { text?: unknown };
  const shown = typeof text === "string" ? text.trimEnd() : JSON.stringify(result, null, 2);
  return (
    <pre class="call" tabIndex={0} role="region" aria-label="Explanation">
      {shown.split("\n").map(visible).join("\n")}
    </pre>
  );
}
