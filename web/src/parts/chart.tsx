// Charts over time, drawn as SVG.  A chart is one picture for screen readers, with a summary, and can be read as a table.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import * as format from "../format";
import { now } from "../live";
import type { MarkerView, PointView, SeriesAnswer } from "../types";
import { Clock, instant, None } from "./basics";
import { Table } from "./table";

export interface Line {
  name: string;
  look: string; // a class that chooses the colour
  value: (point: PointView) => number | null;
  filled?: boolean;
}

export interface ChartProps {
  title: string;
  id: string;
  series: SeriesAnswer;
  lines: Line[];
  show: (value: number) => string;
  steps?: (highest: number) => number[]; // the lines across; for numbers unless told
}

const HEIGHT = 168;
const LEFT = 56;
const RIGHT = 8;
const TOP = 14;
const BOTTOM = 22;

/** Steps of 1, 2 or 5 times a power of ten: three to five lines up to the highest value. */
function ticks(highest: number): number[] {
  if (highest <= 0) return [0, 1];
  const rough = highest / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return upTo(highest, power * ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10));
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const LENGTHS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((each) => each * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((each) => each * MINUTE),
  ...[1, 2, 4, 6, 12].map((each) => each * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100].map((each) => each * DAY),
];

/** The same for lengths of time in milliseconds: steps that are round in seconds, minutes, hours or days. */
export function timeSteps(highest: number): number[] {
  if (highest <= 0) return [0, SECOND];
  return upTo(highest, LENGTHS.find((each) => each >= highest / 4) ?? highest / 4);
}

function upTo(highest: number, step: number): number[] {
  const found = [];
  for (let value = 0; value < highest + step * 0.999; value += step) found.push(value);
  return found;
}

const axisLength = (milliseconds: number) => format.axisDuration(milliseconds / 1000);

interface Scale {
  x: (at: number) => number;
  y: (value: number) => number;
}

export function Chart({ title, id, series, lines, show, steps: stepsTo = ticks }: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  const pointed = useSignal<number | null>(null); // the instant below the pointer
  const asTable = useSignal(false);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => (width.value = Math.floor(entry!.contentRect.width)));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);

  const points = series.points;
  const from = instant(series.since);
  const until = instant(series.until);
  const highest = Math.max(0, ...points.flatMap((point) => lines.map((line) => line.value(point) ?? 0)));
  const isEmpty = points.every((point) => lines.every((line) => line.value(point) === null));
  const steps = stepsTo(highest);
  const top = steps[steps.length - 1]!;
  const inner = Math.max(width.value - LEFT - RIGHT, 10);
  const scale: Scale = {
    x: (at) => LEFT + ((at - from) / Math.max(until - from, 1)) * inner,
    y: (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM),
  };
  const shown = pointed.value === null ? points[points.length - 1] : nearest(points, pointed.value);

  return (
    <figure class="chart" aria-labelledby={id}>
      <figcaption>
        <h3 id={id}>{title}</h3>
        <ul class="legend">
          {lines.map((line) => {
            const value = shown ? line.value(shown) : null;
            return (
              <li key={line.name} class={line.look}>
                <i />
                {line.name} <b>{value === null ? "–" : show(value)}</b>
              </li>
            );
          })}
          <li class="muted">{shown && pointed.value !== null ? <Clock at={shown.at} /> : "latest"}</li>
        </ul>
        <button type="button" class="small" aria-label={`As table: ${title}`} aria-pressed={asTable.value} onClick={() => (asTable.value = !asTable.value)}>
          As table
        </button>
      </figcaption>
      <div
        ref={frame}
        class="chart-frame"
        hidden={asTable.value}
        onPointerMove={(event) => {
          const left = frame.current!.getBoundingClientRect().left;
          pointed.value = from + ((event.clientX - left - LEFT) / inner) * (until - from);
        }}
        onPointerLeave={() => (pointed.value = null)}
      >
        {width.value > 0 && (
          <svg width={width.value} height={HEIGHT} role="img" aria-label={`${title}. ${summary(points, lines, show)}`}>
            <Axes steps={steps} show={stepsTo === timeSteps ? axisLength : format.axisNumber} scale={scale} from={from} until={until} width={width.value} />
            {isEmpty && (
              <text class="chart-empty" x={LEFT + inner / 2} y={HEIGHT / 2}>
                {points.length === 0 ? "No worker has run for a minute" : "Nothing was measured"}
              </text>
            )}
            <Gaps points={points} scale={scale} />
            {lines.map((line) => (
              <Drawn key={line.name} line={line} points={points} scale={scale} />
            ))}
            <Markers markers={series.markers} scale={scale} width={width.value} />
            {shown && pointed.value !== null && (
              <line class="crosshair" x1={scale.x(instant(shown.at))} x2={scale.x(instant(shown.at))} y1={TOP} y2={HEIGHT - BOTTOM} />
            )}
          </svg>
        )}
      </div>
      {asTable.value && <AsTable title={title} points={points} lines={lines} show={show} />}
    </figure>
  );
}

function Axes({ steps, show, scale, from, until, width }: { steps: number[]; show: (value: number) => string; scale: Scale; from: number; until: number; width: number }) {
  const times = timeTicks(from, until, width);
  return (
    <g class="axes">
      {steps.map((value) => (
        <g key={value}>
          <line x1={LEFT} x2={width - RIGHT} y1={scale.y(value)} y2={scale.y(value)} />
          <text class="y" x={LEFT - 8} y={scale.y(value) + 4}>
            {show(value)}
          </text>
        </g>
      ))}
      {times.map((at) => (
        <text key={at} class="x" x={scale.x(at)} y={HEIGHT - 5}>
          {format.axisTime(at, until - from)}
        </text>
      ))}
    </g>
  );
}

const TIME_STEPS = [5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440, 2880].map((minutes) => minutes * 60_000);

function timeTicks(from: number, until: number, width: number): number[] {
  const most = Math.max(2, Math.floor((width - LEFT) / 90));
  const step = TIME_STEPS.find((each) => (until - from) / each <= most) ?? TIME_STEPS[TIME_STEPS.length - 1]!;
  const shift = new Date(from).getTimezoneOffset() * 60_000; // so that days begin at midnight here
  const found = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= until; at += step) found.push(at);
  return found.filter((at) => at - from > (until - from) * 0.03 && until - at > (until - from) * 0.03);
}

/** The points, cut where no worker was running. */
function stretches(points: PointView[]): PointView[][] {
  const found: PointView[][] = [];
  let before: PointView | undefined;
  for (const point of points) {
    if (!before || isGap(before, point)) found.push([]);
    found[found.length - 1]!.push(point);
    before = point;
  }
  return found;
}

function isGap(before: PointView, after: PointView): boolean {
  return instant(after.at) - instant(before.at) > Math.max(before.seconds, after.seconds) * 1000 * 2.1;
}

function Drawn({ line, points, scale }: { line: Line; points: PointView[]; scale: Scale }) {
  return (
    <g class={line.look}>
      {stretches(points).map((stretch) => {
        const known = stretch.filter((point) => line.value(point) !== null);
        if (known.length === 0) return null;
        const places = known.map((point) => [scale.x(instant(point.at)), scale.y(line.value(point)!)] as const);
        const path = places.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
        const first = places[0]!;
        const last = places[places.length - 1]!;
        return (
          <g key={known[0]!.at}>
            {line.filled && <path class="fill" d={`${path}L${last[0].toFixed(1)} ${scale.y(0)}L${first[0].toFixed(1)} ${scale.y(0)}Z`} />}
            {places.length === 1 ? <circle class="dot" cx={first[0]} cy={first[1]} r="2.5" /> : <path class="line" d={path} />}
          </g>
        );
      })}
    </g>
  );
}

function Gaps({ points, scale }: { points: PointView[]; scale: Scale }) {
  return (
    <g class="gaps">
      {points.slice(1).map((point, index) => {
        const before = points[index]!;
        if (!isGap(before, point)) return null;
        const x = scale.x(instant(before.at) + before.seconds * 1000);
        return (
          <rect key={point.at} x={x} y={TOP} width={Math.max(scale.x(instant(point.at)) - x, 1)} height={HEIGHT - TOP - BOTTOM}>
            <title>No worker was running</title>
          </rect>
        );
      })}
    </g>
  );
}

function Markers({ markers, scale, width }: { markers: MarkerView[]; scale: Scale; width: number }) {
  return (
    <g class="markers">
      {markers.map((marker) => {
        const x = scale.x(instant(marker.at));
        const isLate = x > width - 90; // its name stands before it, or it would leave the picture
        return (
          <g key={marker.at + marker.build}>
            <line x1={x} x2={x} y1={TOP - 4} y2={HEIGHT - BOTTOM} />
            <text x={isLate ? x - 4 : x + 4} y={TOP - 4} text-anchor={isLate ? "end" : "start"}>
              {marker.build.slice(0, 12)}
            </text>
          </g>
        );
      })}
    </g>
  );
}

function nearest(points: PointView[], at: number): PointView | undefined {
  let best: PointView | undefined;
  for (const point of points) {
    if (!best || Math.abs(instant(point.at) - at) < Math.abs(instant(best.at) - at)) best = point;
  }
  return best;
}

/** The chart in words: the latest and the highest value of each line. */
function summary(points: PointView[], lines: Line[], show: (value: number) => string): string {
  if (points.length === 0) return "There are no numbers: no worker was running.";
  return lines
    .map((line) => {
      const values = points.map(line.value).filter((value) => value !== null);
      if (values.length === 0) return `${line.name}: no numbers.`;
      return `${line.name}: latest ${show(values[values.length - 1]!)}, highest ${show(Math.max(...values))}.`;
    })
    .join(" ");
}

function AsTable({ title, points, lines, show }: { title: string; points: PointView[]; lines: Line[]; show: (value: number) => string }) {
  return (
    <div class="chart-table">
      <Table
        dense
        label={`${title}, as table`}
        rows={[...points].reverse()}
        rowKey={(point) => point.at}
        columns={[
          { name: "From", cell: (point) => format.clockTime(instant(point.at), now.value) },
          ...lines.map((line) => ({
            name: line.name,
            number: true,
            cell: (point: PointView) => {
              const value = line.value(point);
              return value === null ? "–" : show(value);
            },
          })),
        ]}
      />
    </div>
  );
}

/** A small line without axes, such as the depth of a queue in the last hour. */
export function Sparkline({ values, label, bars = false }: { values: (number | null)[]; label: string; bars?: boolean }) {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return <None said={label} />;
  const highest = Math.max(1, ...known);
  const width = 96;
  const height = 24;
  const x = (index: number) => (index / Math.max(values.length - 1, 1)) * (width - 4) + 2;
  const y = (value: number) => height - 2 - (value / highest) * (height - 4);
  const path = values
    .map((value, index) => (value === null ? "" : `${index === 0 || values[index - 1] === null ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`))
    .join("");
  return (
    <svg class="sparkline" width={width} height={height} role="img" aria-label={label}>
      {bars
        ? values.map((value, index) => {
            const wide = width / values.length;
            return <rect key={index} x={index * wide + 0.5} width={Math.max(wide - 1, 1)} y={y(value ?? 0)} height={height - 1 - y(value ?? 0)} />;
          })
        : <path d={path} />}
    </svg>
  );
}
