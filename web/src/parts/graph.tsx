// The picture of a flow.  The server lays it out; this draws it.  A table beside it says the same.
import type { BoxView, GraphView } from "../types";
import { Link, go } from "../router";
import { query } from "../api";
import { None } from "./basics";
import { StateShape, stateClass } from "./state";
import { Table } from "./table";

// A node has other states than a job: the nearest colour and shape.
const LIKE: Record<BoxView["state"], string> = {
  waiting: "scheduled",
  open: "executing",
  completed: "completed",
  failed: "discarded",
  passed_over: "cancelled",
  skipped: "cancelled",
};
export const NODE_STATES: Record<BoxView["state"], string> = {
  waiting: "Waiting",
  open: "Open",
  completed: "Completed",
  failed: "Failed",
  passed_over: "Passed over",
  skipped: "Skipped",
};

const LETTER = 8; // the usual width of one, in the units of the layout

function fitted(text: string, width: number): string {
  const most = Math.max(3, Math.floor(width / LETTER));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

export function Graph({ graph, marked }: { graph: GraphView; marked?: string | null }) {
  const margin = 12;
  const width = graph.width + 2 * margin;
  const height = graph.height + 2 * margin;
  return (
    <div class="graph" role="group" aria-label="Picture of the flow" tabIndex={0}>
      <svg width={width} height={height} viewBox={`${-margin} ${-margin} ${width} ${height}`} role="img" aria-label={graph.summary}>
        <defs>
          <marker id="arrow-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0 8 4 0 8Z" />
          </marker>
        </defs>
        {graph.arrows.map((arrow) => (
          <polyline
            key={`${arrow.start} ${arrow.end}`}
            class={arrow.critical ? "arrow critical" : "arrow"}
            points={arrow.points.map(([x, y]) => `${x},${y}`).join(" ")}
            marker-end="url(#arrow-head)"
          />
        ))}
        {graph.boxes.map((box) => (
          <Box key={box.id} box={box} marked={box.id === marked} />
        ))}
      </svg>
    </div>
  );
}

function Box({ box, marked }: { box: BoxView; marked: boolean }) {
  const shape = `box ${stateClass(LIKE[box.state])}${box.critical ? " critical" : ""}${marked ? " marked" : ""}`;
  return (
    <g class={shape} onClick={box.filter ? () => go(`jobs${query({ filter: box.filter })}`) : undefined}>
      <title>{`${box.label}: ${box.text}`}</title>
      <rect x={box.x} y={box.y} width={box.width} height={box.height} rx="7" />
      <g transform={`translate(${box.x + 10} ${box.y + box.height / 2 - 6})`}>
        <StateShape state={LIKE[box.state]} />
      </g>
      <text class="box-name" x={box.x + 30} y={box.y + box.height / 2 - (box.text ? 3 : -5)}>
        {fitted(box.label, box.width - 38)}
      </text>
      {box.text && (
        <text class="box-text" x={box.x + 30} y={box.y + box.height / 2 + 14}>
          {fitted(box.text, (box.width - 38) * 1.2)}
        </text>
      )}
    </g>
  );
}

/** The same as the picture, for people who do not see it, and for graphs that are too wide. */
export function GraphTable({ graph }: { graph: GraphView }) {
  const names = new Map(graph.boxes.map((box) => [box.id, box.label]));
  return (
    <Table
      label="Nodes of the flow"
      rows={graph.boxes}
      rowKey={(box) => box.id}
      columns={[
        {
          name: "Node",
          wide: true,
          cell: (box) =>
            box.filter ? (
              <Link to={`jobs${query({ filter: box.filter })}`} data-row={box.id}>
                {box.label}
              </Link>
            ) : (
              box.label
            ),
        },
        {
          name: "State",
          cell: (box) => (
            <span class={`label ${stateClass(LIKE[box.state])}`}>
              <StateShape state={LIKE[box.state]} />
              {NODE_STATES[box.state]}
            </span>
          ),
        },
        { name: "Jobs", cell: (box) => box.text },
        { name: "Starts after", cell: (box) => box.after.map((id) => names.get(id) ?? id).join(", ") || <None said="nothing" /> },
        { name: "If", cell: (box) => box.when || "all succeeded" },
      ]}
    />
  );
}
