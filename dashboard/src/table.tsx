// Tables: sorted by any column, filtered by name, with as many rows as a reader can look through.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { Empty } from "./parts";
import { change, usePlace } from "./router";

export interface Column<Row> {
  key: string;
  label: string;
  /** What the label stands for, if it is short for something. */
  title?: string;
  number?: boolean;
  cell: (row: Row) => ComponentChildren;
  /** What it is sorted by; it cannot be sorted without. */
  by?: (row: Row) => number | string | null | undefined;
  /** The label where it stands alone, beside its value. */
  alone?: string;
  /** Left out where there is little room. */
  minor?: boolean;
  /** Takes the room that is left. */
  wide?: boolean;
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  id: (row: Row) => string | number;
  /** The text that the filter looks at; there is no filter without. */
  text?: (row: Row) => string;
  sort?: string;
  empty: ComponentChildren;
  rowClass?: (row: Row) => string | undefined;
  narrow?: boolean;
}

/** More rows than this are found by the filter. */
const MOST = 200;

export function Table<Row>(props: Props<Row>) {
  const { query } = usePlace();
  const sort = query.get("sort") ?? props.sort ?? "";
  const filter = query.get("filter") ?? "";
  const found = useMemo(() => arrange(props, sort, filter), [props.rows, props.columns, sort, filter]);
  const shown = found.slice(0, MOST);
  return (
    <>
      {props.text && (props.rows.length > 8 || filter !== "") && (
        <div class="filter">
          <input
            type="search"
            aria-label={`Filter ${props.label}`}
            placeholder="Filter by name"
            value={filter}
            onInput={(event) => change({ filter: event.currentTarget.value })}
          />
          <span class="dim" role="status">
            {found.length > MOST
              ? `the first ${MOST} of ${found.length}; filter to see others`
              : `${found.length} of ${props.rows.length}`}
          </span>
        </div>
      )}
      {shown.length === 0 ? (
        <Empty>{props.rows.length > 0 ? "No name contains that text." : props.empty}</Empty>
      ) : (
        <table class={props.narrow ? "cards narrow" : "cards"} role="table" aria-label={props.label}>
          <thead role="rowgroup">
            <tr role="row">
              {props.columns.map((column) => (
                <Head key={column.key} column={column} sort={sort} />
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {shown.map((row) => (
              <tr key={props.id(row)} role="row" class={props.rowClass?.(row)}>
                {props.columns.map((column, index) =>
                  index === 0 ? (
                    <th key={column.key} role="rowheader" scope="row" class={classes(column)}>
                      {column.cell(row)}
                    </th>
                  ) : (
                    <td key={column.key} role="cell" class={classes(column)} data-label={column.alone ?? column.label}>
                      {column.cell(row)}
                    </td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function Head<Row>({ column, sort }: { column: Column<Row>; sort: string }) {
  const { key, label, title, by } = column;
  const direction = directionOf(column, sort);
  return (
    <th role="columnheader" scope="col" class={classes(column)} title={title} aria-sort={direction}>
      {by ? (
        <button type="button" onClick={() => change({ sort: sort === key ? `-${key}` : key })}>
          {label}
          <span aria-hidden="true" class="arrow">
            {direction === "descending" ? "▾" : direction === "ascending" ? "▴" : ""}
          </span>
        </button>
      ) : (
        label
      )}
    </th>
  );
}

const classes = <Row,>({ number, minor, wide }: Column<Row>): string | undefined =>
  [number && "number", minor && "minor", wide && "wide"].filter(Boolean).join(" ") || undefined;

/** `key` alone has what most look for first: the largest figures, the first names. `-key` is the other way round. */
function directionOf<Row>({ key, number }: Column<Row>, sort: string): "ascending" | "descending" | undefined {
  if (sort !== key && sort !== `-${key}`) return undefined;
  return (sort === key) === Boolean(number) ? "descending" : "ascending";
}

/** What is not known comes last, whichever way. */
function arrange<Row>({ rows, columns, text }: Props<Row>, sort: string, filter: string): Row[] {
  const sought = filter.toLowerCase();
  const found = sought && text ? rows.filter((row) => text(row).toLowerCase().includes(sought)) : [...rows];
  const column = columns.find((column) => column.key === sort.replace(/^-/, ""));
  if (!column?.by) return found;
  const by = column.by;
  const sign = directionOf(column, sort) === "ascending" ? 1 : -1;
  return found.sort((a, b) => {
    const [x, y] = [by(a), by(b)];
    if (x === null || x === undefined) return y === null || y === undefined ? 0 : 1;
    if (y === null || y === undefined) return -1;
    if (typeof x === "string" && typeof y === "string") return sign * x.localeCompare(y, "en");
    return x === y ? 0 : x < y ? -sign : sign;
  });
}
