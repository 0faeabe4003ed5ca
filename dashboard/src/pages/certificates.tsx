// Certificates of listeners, with the days that they have left.

import { useLoad } from "../load";
import { Heading, Loading, Moment, Stale, State, Text, type Tone, Wrong, useTitle } from "../parts";
import { type Column, Table } from "../table";
import type { Certificate } from "../types";

/** With fewer days left somebody should look, and with even fewer act. */
const [SOON, VERY_SOON] = [30, 7];

const tone = (days: number): Tone => (days < VERY_SOON ? "bad" : days < SOON ? "warn" : "good");

const COLUMNS: Column<Certificate>[] = [
  {
    key: "names",
    label: "Names",
    wide: true,
    by: ({ names }) => names[0],
    cell: ({ names, problem }) => (
      <>
        {names.slice(0, 5).map((name) => (
          <span key={name} class="listed">
            <Text of={name} mono />
          </span>
        ))}
        {names.length > 5 && <span class="dim">and {names.length - 5} more</span>}
        {problem !== null && (
          <div class="said warn">
            <Text of={problem} />
          </div>
        )}
      </>
    ),
  },
  { key: "listener", label: "Listener", by: ({ listener }) => listener, cell: ({ listener }) => <Text of={listener} mono /> },
  {
    key: "left",
    label: "Left",
    by: ({ days_left }) => days_left,
    cell: ({ days_left }) => (
      <State tone={tone(days_left)}>{days_left < 0 ? "expired" : `${days_left} ${days_left === 1 ? "day" : "days"}`}</State>
    ),
  },
  { key: "expires", label: "Expires", by: ({ not_after }) => not_after, cell: ({ not_after }) => <Moment at={not_after} /> },
  { key: "file", label: "File", minor: true, cell: ({ file }) => <Text of={file} mono /> },
  { key: "issuer", label: "Issuer", minor: true, cell: ({ issuer }) => <Text of={issuer} /> },
];

export function Certificates() {
  useTitle("Certificates");
  const { value, failure, again } = useLoad<{ certificates: Certificate[] }>("/certificates", 60);
  return (
    <>
      <h1 class="unseen">Certificates</h1>
      <Heading title="Certificates">
        <Stale of={{ value, failure }} />
      </Heading>
      {failure && value === null && <Wrong failure={failure} again={again} />}
      {value === null ? (
        !failure && <Loading rows={6} />
      ) : (
        <Table
          label="Certificates"
          columns={COLUMNS}
          rows={value.certificates}
          id={(it) => `${it.listener} ${it.file} ${it.not_after}`}
          text={({ names, listener }) => `${names.join(" ")} ${listener}`}
          sort="left"
          empty="No listener has a certificate: all of them speak plain HTTP."
        />
      )}
    </>
  );
}
