// Jobs in a table, with boxes to select them if the page wants that.
import { address, Link } from "../router";
import type { JobRowView } from "../types";
import { Age, None } from "./basics";
import { StateLabel } from "./state";
import { Table, type Column } from "./table";

const WHEN = { due: "due", began: "began", ended: "ended", waits: "waits" };

export function JobTable({
  jobs,
  label,
  selected,
  onSelect,
}: {
  jobs: JobRowView[];
  label: string;
  selected?: ReadonlySet<string>;
  onSelect?: (id: string, on: boolean) => void;
}) {
  const columns: Column<JobRowView>[] = [
    {
      name: "Job",
      wide: true,
      cell: (job) => (
        <div class="named">
          <Link to={address("jobs", job.id)} data-row={job.id}>
            {job.name}
          </Link>
          <code class="id">{job.id}</code>
        </div>
      ),
    },
    {
      name: "State",
      cell: (job) => (
        <>
          <StateLabel state={job.state} />
          {job.progress !== null && job.state === "executing" && <ProgressBar value={job.progress} />}
        </>
      ),
    },
    {
      name: "Queue",
      cell: (job) => (
        <div class="named">
          <Link to={address("queues", job.queue)}>{job.queue}</Link>
          {job.lane && <span class="id">{job.lane}</span>}
        </div>
      ),
    },
    {
      name: "When",
      cell: (job) => (
        <span class="when">
          <span class="muted">{WHEN[job.when_is]}</span> {job.when ? <Age at={job.when} /> : job.flow ? "in its workflow" : "for a signal"}
        </span>
      ),
    },
    { name: "Tries", number: true, cell: (job) => job.tries },
    {
      name: "Last error",
      wide: true,
      cell: (job) => (job.error ? <span class="error-line" title={job.error}>{job.error}</span> : <None />),
    },
  ];
  if (selected && onSelect) {
    columns.unshift({
      name: "Select",
      unnamed: true,
      cell: (job) => (
        <input
          type="checkbox"
          aria-label={`Select ${job.name} ${job.id}`}
          checked={selected.has(job.id)}
          onChange={(event) => onSelect(job.id, event.currentTarget.checked)}
        />
      ),
    });
  }
  return <Table label={label} columns={columns} rows={jobs} rowKey={(job) => job.id} rowClass={(job) => (job.damaged ? "damaged" : "")} />;
}

export function ProgressBar({ value, note }: { value: number; note?: string }) {
  const percent = `${Math.round(value * 100)} %`;
  return (
    <span class="progress">
      <progress max={1} value={value} aria-label={`Progress ${percent}`} />
      <span>
        {percent}
        {note && ` · ${note}`}
      </span>
    </span>
  );
}
