// Asks before anything is changed, and shows the call that changes it.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Call, Failure, send } from "./api";
import { Text, Wrong } from "./parts";
import { visible } from "./text";

export interface Question {
  title: string;
  /** What it means, in a sentence. */
  children?: ComponentChildren;
  /** The call; with the time that was chosen, where it holds for a time. */
  call: (time: string) => Call;
  /** Whether it holds for a time. */
  timed?: boolean;
  /** What the button says: a verb. */
  verb: string;
  tone?: "bad";
  done: (result: unknown) => void;
}

const TIMES: readonly (readonly [string, string])[] = [
  ["1m", "1 minute"],
  ["5m", "5 minutes"],
  ["15m", "15 minutes"],
  ["1h", "1 hour"],
  ["8h", "8 hours"],
  ["24h", "24 hours"],
];

export function Confirm({ question, close }: { question: Question; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [time, setTime] = useState("15m");
  const [failure, setFailure] = useState<Failure | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  const call = question.call(time);

  const make = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const result = await send(call);
      question.done(result);
      close();
    } catch (error) {
      setFailure(error instanceof Failure ? error : new Failure(0, String(error)));
      setBusy(false);
    }
  };

  return (
    <dialog ref={dialog} aria-labelledby="question" onClose={close} onCancel={(event) => busy && event.preventDefault()}>
      <h2 id="question">
        <Text of={question.title} />
      </h2>
      {question.children}
      {question.timed && (
        <label class="inline">
          For
          <select value={time} onChange={(event) => setTime(event.currentTarget.value)}>
            {TIMES.map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
      )}
      <p class="dim">This call will be made, and written to the gateway's log with your name:</p>
      <pre class="call" tabIndex={0} aria-label="The call">
        {shown(call)}
      </pre>
      {failure && <Wrong failure={failure} />}
      <div class="buttons">
        <button type="button" onClick={close} disabled={busy}>
          Cancel
        </button>
        <button type="button" class={`main ${question.tone ?? ""}`} onClick={() => void make()} disabled={busy}>
          {question.verb}
        </button>
      </div>
    </dialog>
  );
}

function shown({ method, path, body }: Call): string {
  const head = `${method} ${visible(path)}`;
  return body === undefined ? head : `${head}\nContent-Type: application/json\n\n${visible(JSON.stringify(body))}`;
}
