// Figures by time, drawn on a canvas, with their values in a legend and in words.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { UNKNOWN } from "./format";
import { colour, colours, zone as zones } from "./settings";
import { useStore } from "./store";
import { clock, day, inZone, moment } from "./time";
import type { Figure } from "./types";

export interface Line {
  label: string;
  /** A colour of the style sheet. */
  colour: string;
  values: Figure[];
  /** Lines differ in more than colour. */
  dash?: number[];
  fill?: boolean;
}

export type Range = [number, number];

interface Props {
  title: string;
  /** What the values are, in words. */
  unit: string;
  times: number[];
  lines: Line[];
  /** All that could be shown, and what of it is. */
  range: Range;
  zoom: Range | null;
  onZoom: (range: Range | null) => void;
  format: (value: Figure | undefined) => string;
}

/** Charts with this key show the same moment. */
const TOGETHER = "titan";
/** Rows of the table that stands in for a chart. */
const ROWS = 30;

export function Chart(props: Props) {
  const { title, unit, times, lines, range, zoom, format } = props;
  const zone = useStore(zones);
  const painted = useStore(colours);
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  // What the chart asks for while it draws.
  const latest = useRef(props);
  latest.current = props;

  const shape = lines.map((line) => line.label).join();
  useEffect(() => {
    const made = new uPlot(options(box.current!, latest, zone, setAt), data(latest.current), box.current!);
    plot.current = made;
    const resized = new ResizeObserver(([entry]) => made.setSize(sizeOf(entry!.contentRect)));
    resized.observe(box.current!);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [zone, painted, shape]);
  useEffect(() => plot.current?.setData(data(props), true), [times, lines, range[0], range[1], zoom]);

  const index = at !== null && at < times.length ? at : lastKnown(lines);
  const words = useMemo(() => inWords(props), [lines, range[0]]);
  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
        <time>{index === null ? UNKNOWN : moment(times[index]!, zone)}</time>
        <span class="legend">
          {lines.map((line) => (
            <span key={line.label}>
              <i
                class={`key ${line.dash ? (line.dash[0]! > 3 ? "dashed" : "dotted") : ""}`}
                style={{ color: `var(--${line.colour})` }}
              />
              {line.label} <b>{index === null ? UNKNOWN : format(line.values[index])}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <div
        class="plot"
        ref={box}
        role="img"
        aria-label={`${title}, ${unit}. ${words}`}
        tabIndex={0}
        onKeyDown={(event) => plot.current && moveCursor(plot.current, event, latest.current)}
        onBlur={() => uPlot.sync(TOGETHER).plots.forEach((it) => it.setCursor({ left: -10, top: -10 }))}
      />
      <AsTable {...props} />
    </figure>
  );
}

/** The same for those who read rather than look. */
function AsTable({ title, times, lines, format }: Props) {
  const zone = useStore(zones);
  const [isOpen, setOpen] = useState(false);
  const every = Math.max(1, Math.ceil(times.length / ROWS));
  const rows = isOpen ? times.map((time, index) => ({ time, index })).filter(({ index }) => index % every === 0) : [];
  return (
    <details class="as-table" onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>
        Table<span class="unseen"> of {title}</span>
      </summary>
      {isOpen && (
        <div class="scroll" tabIndex={0} role="region" aria-label={`${title} as a table`}>
          <table>
            <thead>
              <tr>
                <th scope="col">Time</th>
                {lines.map((line) => (
                  <th key={line.label} scope="col" class="number">
                    {line.label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ time, index }) => (
                <tr key={time}>
                  <th scope="row">{moment(time, zone)}</th>
                  {lines.map((line) => (
                    <td key={line.label} class="number">
                      {format(line.values[index])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}

/** Seconds between two times at the axis. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200, 86_400];

const sizeOf = ({ width, height }: DOMRectReadOnly) => ({
  width: Math.max(1, Math.floor(width)),
  height: Math.max(1, Math.floor(height)),
});

function data({ times, lines }: Props): uPlot.AlignedData {
  return [times, ...lines.map((line) => line.values)];
}

/** The last index for which something is known. */
function lastKnown(lines: Line[]): number | null {
  for (let index = (lines[0]?.values.length ?? 0) - 1; index >= 0; index--) {
    if (lines.some((line) => line.values[index] != null)) return index;
  }
  return null;
}

function inWords({ lines, format }: Props): string {
  const sentences = lines.map(({ label, values }) => {
    const known = values.filter((value): value is number => value != null);
    if (known.length === 0) return `${label}: nothing known`;
    const [least, most] = known.reduce(
      ([least, most], value) => [Math.min(least, value), Math.max(most, value)],
      [known[0]!, known[0]!],
    );
    return `${label}: ${format(known[known.length - 1])} now, between ${format(least)} and ${format(most)}`;
  });
  return `${sentences.join("; ")}. Left and right arrows move through time.`;
}

function moveCursor(plot: uPlot, event: KeyboardEvent, { times }: Props): void {
  const steps: Record<string, number> = {
    ArrowLeft: -1,
    ArrowRight: 1,
    PageUp: -10,
    PageDown: 10,
    Home: -Infinity,
    End: Infinity,
  };
  const step = steps[event.key];
  if (step === undefined || times.length === 0) return;
  event.preventDefault();
  const from = plot.cursor.idx ?? (step > 0 ? -1 : times.length);
  const index = Math.min(times.length - 1, Math.max(0, from + step));
  const left = plot.valToPos(times[index]!, "x");
  for (const other of uPlot.sync(TOGETHER).plots) other.setCursor({ left, top: 10 });
}

function options(
  box: HTMLElement,
  latest: { current: Props },
  zone: "local" | "utc",
  setAt: (at: number | null) => void,
): uPlot.Options {
  const [text, grid] = [colour("dim"), colour("grid")];
  const axis: uPlot.Axis = {
    stroke: text,
    font: "11px system-ui, sans-serif",
    grid: { stroke: grid, width: 1 },
    ticks: { stroke: grid, width: 1, size: 4 },
  };
  return {
    ...sizeOf(box.getBoundingClientRect()),
    legend: { show: false },
    padding: [8, 8, 0, 0],
    tzDate: (seconds) => inZone(seconds, zone),
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      sync: { key: TOGETHER },
      points: { size: 6 },
    },
    scales: {
      x: { time: true, range: () => latest.current.zoom ?? latest.current.range },
      y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] },
    },
    axes: [
      { ...axis, space: 70, size: 28, incrs: STEPS, values: (_, splits, __, ___, step) => timeLabels(splits, step, zone) },
      { ...axis, space: 34, size: 66, values: (_, splits) => splits.map((value) => latest.current.format(value)) },
    ],
    series: [{}, ...latest.current.lines.map(series)],
    hooks: {
      setCursor: [(plot) => setAt(plot.cursor.left! >= 0 ? (plot.cursor.idx ?? null) : null)],
      setSelect: [(plot) => selected(plot, latest.current)],
    },
  };
}

function series(line: Line): uPlot.Series {
  const stroke = colour(line.colour);
  const made: uPlot.Series = { label: line.label, stroke, width: 1.5, points: { size: 4 } };
  if (line.dash) made.dash = line.dash;
  if (line.fill) made.fill = stroke.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)");
  return made;
}

/** The reader has drawn over a part: it becomes the whole. */
function selected(plot: uPlot, { onZoom }: Props): void {
  const { left, width } = plot.select;
  if (width < 4) return;
  onZoom([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
}

/** Times as long as they need to be; the day where one begins. */
function timeLabels(splits: number[], step: number, zone: "local" | "utc"): string[] {
  return splits.map((split) => {
    const text = clock(split, zone);
    if (text === "00:00:00") return day(split, zone).slice(5);
    return step < 60 ? text : text.slice(0, 5);
  });
}
