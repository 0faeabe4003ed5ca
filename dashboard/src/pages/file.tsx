// The configuration in force, with lines that can be found and pointed at.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { author } from "../format";
import { useLoad } from "../load";
import { Heading, Loading, Moment, Text, Wrong, useTitle } from "../parts";
import { change, to, usePlace } from "../router";
import { visible } from "../text";
import { seconds } from "../time";
import type { Configuration } from "../types";

/** A page of a long file. */
const LINES = 2000;
/** More matches than this are counted, not gone through. */
const MATCHES = 10_000;

interface Match {
  document: number;
  line: number;
}

export function File() {
  useTitle("Configuration");
  const { value, failure, again } = useLoad<Configuration>("/config");
  return (
    <>
      <h1 class="unseen">Configuration in force</h1>
      {failure && <Wrong failure={failure} again={again} />}
      {value === null ? !failure && <Loading rows={20} /> : <Shown configuration={value} />}
    </>
  );
}

function Shown({ configuration }: { configuration: Configuration }) {
  const { query } = usePlace();
  const documents = useMemo(
    () => configuration.documents.map(({ name, text }) => ({ name, lines: split(text) })),
    [configuration],
  );
  const find = query.get("find") ?? "";
  const at: Match = { document: whole(query.get("doc")), line: whole(query.get("line")) };
  const matches = useMemo(() => search(documents, find), [documents, find]);
  const document = documents[at.document] ?? documents[0];
  return (
    <>
      <InForce configuration={configuration} />
      <Search find={find} matches={matches} at={at} />
      {documents.length > 1 && (
        <nav class="documents" aria-label="Files">
          {documents.map(({ name, lines }, index) => (
            <a
              key={index}
              href={to(["configuration", "file"], { find, doc: index })}
              aria-current={document === documents[index] ? "page" : undefined}
            >
              <Text of={name} /> <span class="dim">{lines.length} lines</span>
            </a>
          ))}
        </nav>
      )}
      {document && <Lines document={document} index={documents.indexOf(document)} line={at.line} find={find} />}
    </>
  );
}

function split(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function whole(text: string | null): number {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : 0;
}

function InForce({ configuration: { entry, summary } }: { configuration: Configuration }) {
  return (
    <div class="dim">
      In force since <Moment at={seconds(entry.at)} />, by <Text of={author(entry.author)} /> ({entry.source}); entry{" "}
      <a href={to(["configuration", "history"], { id: entry.id })}>{entry.id}</a>, SHA-256{" "}
      <code>{entry.sha256.slice(0, 12)}</code>. Comments and secrets are left out.
      <details>
        <summary>What it comes to</summary>
        <pre class="call" tabIndex={0} aria-label="What it comes to">
          {summary.trimEnd().split("\n").map(visible).join("\n")}
        </pre>
      </details>
    </div>
  );
}

function Search({ find, matches, at }: { find: string; matches: Match[]; at: Match }) {
  const position = matches.findIndex((match) => match.document === at.document && match.line === at.line);
  const move = (step: number) => {
    if (matches.length === 0) return;
    const from = position >= 0 ? position : step > 0 ? -1 : 0;
    const { document, line } = matches[(from + step + matches.length) % matches.length]!;
    change({ doc: document || null, line });
  };
  const told =
    find === ""
      ? ""
      : matches.length === 0
        ? "nothing found"
        : position < 0
          ? `${matches.length} lines`
          : `${position + 1} of ${matches.length}`;
  return (
    <form
      class="filter search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        move(1);
      }}
    >
      <input
        type="search"
        aria-label="Find in the configuration"
        placeholder="Find"
        value={find}
        onInput={(event) => change({ find: event.currentTarget.value, line: null })}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !event.shiftKey) return;
          event.preventDefault();
          move(-1);
        }}
      />
      <button type="button" disabled={matches.length === 0} onClick={() => move(-1)} aria-label="The match before">
        ↑
      </button>
      <button type="submit" disabled={matches.length === 0} aria-label="The next match">
        ↓
      </button>
      <span role="status" class="dim number">
        {told}
      </span>
    </form>
  );
}

function search(documents: { lines: string[] }[], find: string): Match[] {
  const sought = find.toLowerCase();
  const found: Match[] = [];
  if (sought === "") return found;
  documents.forEach(({ lines }, document) =>
    lines.forEach((line, index) => {
      if (found.length < MATCHES && line.toLowerCase().includes(sought)) found.push({ document, line: index + 1 });
    }),
  );
  return found;
}

interface LinesProps {
  document: { name: string; lines: string[] };
  index: number;
  line: number;
  find: string;
}

function Lines({ document: { name, lines }, index, line, find }: LinesProps) {
  const page = Math.min(Math.floor(Math.max(0, line - 1) / LINES), Math.max(0, Math.ceil(lines.length / LINES) - 1));
  const first = page * LINES;
  const marked = useRef<HTMLDivElement>(null);
  useEffect(() => marked.current?.scrollIntoView({ block: "center" }), [line, index]);
  const link = (line: number) => to(["configuration", "file"], { find, doc: index || null, line });
  return (
    <section aria-label={visible(name)}>
      <Heading title={visible(name)}>{lines.length > LINES && <Pages count={lines.length} page={page} link={link} />}</Heading>
      <div class="file" tabIndex={0} role="region" aria-label={`Lines of ${visible(name)}`}>
        {lines.slice(first, first + LINES).map((text, offset) => {
          const number = first + offset + 1;
          const isMarked = number === line;
          return (
            <div key={number} class={isMarked ? "line marked" : "line"} ref={isMarked ? marked : undefined}>
              <a href={link(number)} aria-label={`Line ${number}`} aria-current={isMarked ? "location" : undefined}>
                {number}
              </a>
              <code>
                <Line text={text} find={find} />
              </code>
            </div>
          );
        })}
      </div>
    </section>
  );
}

function Pages({ count, page, link }: { count: number; page: number; link: (line: number) => string }) {
  const last = Math.ceil(count / LINES) - 1;
  return (
    <span class="pages">
      {page > 0 && <a href={link((page - 1) * LINES + 1)}>lines before</a>}
      <span class="dim number">
        lines {page * LINES + 1} to {Math.min(count, (page + 1) * LINES)} of {count}
      </span>
      {page < last && <a href={link((page + 1) * LINES + 1)}>lines after</a>}
    </span>
  );
}

/** The key of a line apart from its value, and what was searched for marked. */
function Line({ text, find }: { text: string; find: string }) {
  if (find !== "" && text.toLowerCase().includes(find.toLowerCase())) return <Found text={text} find={find} />;
  const key = /^(\s*(?:- +)*)([\w./*{}-]+|"[^"]*")(:)(?=\s|$)/.exec(text);
  if (!key) return <>{/^\s*#/.test(text) ? <span class="dim">{visible(text)}</span> : visible(text)}</>;
  const [all, indent, name] = key;
  return (
    <>
      {indent}
      <span class="key-name">{visible(name!)}</span>:{visible(text.slice(all.length))}
    </>
  );
}

function Found({ text, find }: { text: string; find: string }) {
  // Letters whose small forms are longer would move what is found: then nothing is marked.
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return <>{visible(text)}</>;
  const parts = [];
  let end = 0;
  for (let at = lower.indexOf(find.toLowerCase()); at >= 0; at = lower.indexOf(find.toLowerCase(), end)) {
    parts.push(visible(text.slice(end, at)), <mark key={at}>{visible(text.slice(at, at + find.length))}</mark>);
    end = at + find.length;
  }
  return (
    <>
      {parts}
      {visible(text.slice(end))}
    </>
  );
}
