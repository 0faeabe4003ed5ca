// What was in force, what changed between two of them, and the way back.

import { useState } from "preact/hooks";
import { type Call, path, session } from "../api";
import { Confirm, type Question } from "../confirm";
import { author } from "../format";
import { useLoad } from "../load";
import { Empty, Heading, Loading, Moment, Stale, State, Text, type Tone, Wrong, useTitle } from "../parts";
import { change, usePlace } from "../router";
import { useStore } from "../store";
import { type Column, Table } from "../table";
import { seconds } from "../time";
import type { Changed, Entry, History } from "../types";
import { PlanShown } from "./plan";

const OUTCOMES: Record<string, [Tone, string]> = {
  applied: ["good", "applied"],
  on_trial: ["warn", "on trial"],
  confirmed: ["good", "confirmed"],
  taken_back: ["bad", "taken back"],
  unconfirmed: ["warn", "not confirmed"],
};

export const confirmTrial = (done: (result: unknown) => void): Question => ({
  title: "Confirm the configuration that is on trial?",
  children: <p>It stays in force.</p>,
  call: (): Call => ({ method: "POST", path: "/confirm" }),
  verb: "Confirm",
  done,
});

/** To that entry of the history, or to the one before the one in force. */
export const rollBack = (id: number | null, done: (result: unknown) => void): Question => ({
  title: id === null ? "Roll back to the configuration before this one?" : `Roll back to entry ${id}?`,
  children: (
    <>
      <p>It is put in force on all workers. The file is not written: the next reload or start reads what it says.</p>
      {id !== null && <WhatRollingBackChanges id={id} />}
    </>
  ),
  call: (): Call => ({ method: "POST", path: path(["rollback"], { id }) }),
  verb: "Roll back",
  tone: "bad",
  done,
});

const reload = (done: (result: unknown) => void): Question => ({
  title: "Read the configuration file again?",
  children: <p>What it says is put in force on all workers, or refused as a whole.</p>,
  call: (): Call => ({ method: "POST", path: "/reload" }),
  verb: "Reload",
  done,
});

function WhatRollingBackChanges({ id }: { id: number }) {
  const { value } = useLoad<History>("/history");
  const now = value?.entries.find((entry) => entry.in_force);
  if (!now || now.id === id) return null;
  return (
    <details open>
      <summary>What changes</summary>
      <div class="scroll short" tabIndex={0} role="region" aria-label="What changes">
        <PlanShown id={id} against={now.id} />
      </div>
    </details>
  );
}

export function Changes() {
  useTitle("History");
  const { value, failure, again } = useLoad<History>("/history", 5);
  const user = useStore(session);
  const [question, ask] = useState<Question | null>(null);
  const [told, setTold] = useState("");
  const done = (result: unknown) => {
    const applied = (result as Changed | null)?.applied;
    setTold(applied ? [`Entry ${applied.entry.id} is in force`, ...applied.notes].join(". ") : "Done");
    again();
  };
  const mayChange = user?.rights === "full";
  return (
    <>
      <h1 class="unseen">History of the configuration</h1>
      <Heading title="History">
        {mayChange && (
          <span class="buttons">
            <button type="button" onClick={() => ask(reload(done))}>
              Reload the file…
            </button>
          </span>
        )}
        <span class="done" role="status">
          {told && <Text of={told} />}
        </span>
        <Stale of={{ value, failure }} />
      </Heading>
      {failure && value === null && <Wrong failure={failure} again={again} />}
      {value?.notes.map((note) => (
        <p key={note} class="notice warn">
          <Text of={note} />
        </p>
      ))}
      {value === null ? (
        !failure && <Loading rows={8} />
      ) : (
        <Entries entries={value.entries} ask={mayChange ? ask : null} done={done} />
      )}
      {question && <Confirm question={question} close={() => ask(null)} />}
    </>
  );
}

interface EntriesProps {
  entries: Entry[];
  ask: ((question: Question) => void) | null;
  done: (result: unknown) => void;
}

function Entries({ entries, ask, done }: EntriesProps) {
  const { query } = usePlace();
  const id = number(query.get("id")) ?? entries.find((entry) => entry.in_force)?.id;
  const chosen = entries.find((entry) => entry.id === id);
  const before = entries.filter((entry) => id !== undefined && entry.id < id).sort((a, b) => b.id - a.id)[0];
  const against = number(query.get("against")) ?? before?.id;
  return (
    <>
      <Table
        label="History"
        columns={columns(ask, done)}
        rows={entries}
        id={(entry) => entry.id}
        rowClass={(entry) => (entry.id === id ? "chosen" : undefined)}
        empty="Nothing was in force yet."
      />
      <section aria-label="Differences" class="differences">
        <Heading title={chosen ? `What entry ${chosen.id} changed` : "Differences"}>
          {chosen && entries.length > 1 && (
            <label class="inline">
              against entry
              <select value={against ?? ""} onChange={(event) => change({ id: chosen.id, against: event.currentTarget.value })}>
                {entries
                  .filter((entry) => entry.id !== chosen.id)
                  .map((entry) => (
                    <option key={entry.id} value={entry.id}>
                      {entry.id}
                      {entry.in_force ? ", in force" : ""}
                    </option>
                  ))}
              </select>
            </label>
          )}
        </Heading>
        {!chosen ? (
          <Empty>
            {id === undefined ? "Choose an entry above." : `The history has no entry ${id} any more. Choose another one above.`}
          </Empty>
        ) : against === undefined || against === chosen.id ? (
          <Empty>There is nothing before it to compare it with.</Empty>
        ) : (
          <PlanShown id={chosen.id} against={against} />
        )}
      </section>
    </>
  );
}

function number(text: string | null): number | undefined {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

const columns = (ask: EntriesProps["ask"], done: EntriesProps["done"]): Column<Entry>[] => [
  {
    key: "id",
    label: "Entry",
    cell: ({ id }) => (
      <button
        type="button"
        class="plain number"
        aria-label={`What entry ${id} changed`}
        onClick={() => change({ id, against: null })}
      >
        {id}
      </button>
    ),
  },
  { key: "at", label: "Time", cell: ({ at }) => <Moment at={seconds(at)} /> },
  { key: "source", label: "Source", cell: ({ source }) => source.replaceAll("_", " ") },
  { key: "author", label: "By", cell: (entry) => <Text of={author(entry.author)} /> },
  { key: "sha256", label: "SHA-256", minor: true, cell: ({ sha256 }) => <code>{sha256.slice(0, 12)}</code> },
  { key: "outcome", label: "Outcome", wide: true, cell: (entry) => <Outcome entry={entry} /> },
  ...(ask
    ? [
        {
          key: "actions",
          label: "Actions",
          cell: (entry: Entry) => (
            <span class="buttons">
              {entry.outcome === "on_trial" && entry.in_force && (
                <button type="button" class="main" onClick={() => ask(confirmTrial(done))}>
                  Confirm…
                </button>
              )}
              {!entry.in_force && (
                <button type="button" onClick={() => ask(rollBack(entry.id, done))}>
                  Roll back<span class="unseen"> to entry {entry.id}</span>…
                </button>
              )}
            </span>
          ),
        },
      ]
    : []),
];

function Outcome({ entry: { outcome, in_force, repeats, why } }: { entry: Entry }) {
  const [tone, text] = OUTCOMES[outcome] ?? (["idle", outcome] as const);
  const isPast = !in_force && tone === "good";
  return (
    <>
      <State tone={isPast ? "idle" : tone}>
        {in_force ? (outcome === "applied" ? "in force" : `in force, ${text}`) : isPast ? "superseded" : text}
      </State>
      {repeats !== null && <span class="dim"> as entry {repeats}</span>}
      {why !== null && (
        <span class="dim">
          : <Text of={why} />
        </span>
      )}
    </>
  );
}
