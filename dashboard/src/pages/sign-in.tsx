// Signing in with a token of `admin.tokens`, which becomes a session of the browser.

import { useState } from "preact/hooks";
import { Failure, signIn } from "../api";
import { Wrong, useTitle } from "../parts";

export function SignIn() {
  useTitle("Sign in");
  const [token, setToken] = useState("");
  const [failure, setFailure] = useState<Failure | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setFailure(null);
    try {
      await signIn(token.trim());
    } catch (error) {
      setFailure(explained(error));
      setBusy(false);
    }
  };
  return (
    <main class="alone">
      <form
        class="sign-in"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <h1>Titan</h1>
        <label>
          Token
          <input
            type="password"
            name="token"
            autocomplete="current-password"
            required
            maxLength={4096}
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="main" disabled={busy}>
          {busy ? "Signing in…" : "Sign in"}
        </button>
        {failure && <Wrong failure={failure} />}
        <details>
          <summary>Where do I get one?</summary>
          <p>
            Tokens are named in the gateway's configuration, under <code>admin.tokens</code>, by their SHA-256. With{" "}
            <code>rights: read</code> you look, with <code>rights: full</code> you may change things.
          </p>
          <pre tabIndex={0} aria-label="How to make a token">
            {"openssl rand -hex 32 | tee token | tr -d '\\n' | sha256sum"}
          </pre>
        </details>
      </form>
    </main>
  );
}

function explained(error: unknown): Failure {
  if (!(error instanceof Failure)) return new Failure(0, String(error));
  return error.status === 401 ? new Failure(401, "This token is not one that the gateway knows.") : error;
}
