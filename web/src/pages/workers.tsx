// Workers by host, and the jobs that run, longest first.
import { useSignal } from "@preact/signals";
import * as format from "../format";
import { useLive } from "../live";
import { Age, Bar, Command, Empty, Loaded, None, Section, Since } from "../parts/basics";
import { ProgressBar } from "../parts/job_table";
import { LevelShape } from "../parts/state";
import { Table } from "../parts/table";
import { address, Link } from "../router";
import { Page } from "../shell";
import type { RunningView, WorkersAnswer, WorkerView } from "../types";
import { StackDialog } from "./job";

export function Workers() {
  const workers = useLive<WorkersAnswer>("workers");
  return (
    <Page title="Workers">
      <Loaded of={workers}>{(data) => <Content data={data} />}</Loaded>
    </Page>
  );
}

function Content({ data }: { data: WorkersAnswer }) {
  const stackOf = useSignal<string | null>(null);
  return (
    <>
      <Section title="Sessions" id="sessions" flush>
        {data.workers.length === 0 ? (
          <Empty title="No worker is running">
            <p>
              Start one: <Command text="onward worker app:jobs" />
            </p>
          </Empty>
        ) : (
          <WorkerTable workers={data.workers} />
        )}
      </Section>
      <Section title="Running jobs, longest first" id="running" flush>
        {data.running.length === 0 ? (
          <Empty title="No job is running" />
        ) : (
          <>
            <RunningTable running={data.running} onStack={(id) => (stackOf.value = id)} />
            {data.more_running && <p class="foot muted">There are more than the {data.running.length} that are shown.</p>}
          </>
        )}
      </Section>
      {data.gone.length > 0 && (
        <Section title="Gone since you have been watching" id="gone">
          <ul class="plain-list">
            {data.gone.map((gone) => (
              <li key={`${gone.host} ${gone.pid} ${gone.at}`}>
                <LevelShape level={gone.cause ? "warn" : "ok"} /> {gone.host}, process {gone.pid}: {gone.cause ?? "ended in order"} <Age at={gone.at} class="muted" />
              </li>
            ))}
          </ul>
        </Section>
      )}
      {stackOf.value && <StackDialog id={stackOf.value} onClose={() => (stackOf.value = null)} />}
    </>
  );
}

function WorkerTable({ workers }: { workers: WorkerView[] }) {
  return (
    <Table
      label="Workers"
      rows={workers}
      rowKey={(worker) => worker.owner}
      rowClass={(worker) => (worker.alive ? "" : "expired")}
      columns={[
        {
          name: "Worker",
          wide: true,
          cell: (worker) => (
            <div class="named">
              <strong>
                {worker.host}, process {worker.pid}
              </strong>
              {!worker.alive && (
                <span class="label level-fail">
                  <LevelShape level="fail" />
                  Expired
                </span>
              )}
              {worker.inside && <span class="label">inside a program</span>}
            </div>
          ),
        },
        {
          name: "Slots",
          cell: (worker) =>
            worker.slots === null ? (
              <>{format.count(worker.busy)} busy</>
            ) : (
              <span class="slots">
                <Bar value={worker.busy} of={worker.slots} label={`${Math.min(worker.busy, worker.slots)} of ${worker.slots} slots are busy`} />
                {format.count(Math.min(worker.busy, worker.slots))}/{format.count(worker.slots)}
                {worker.busy > worker.slots && <span class="muted">+{format.count(worker.busy - worker.slots)} fetched</span>}
              </span>
            ),
        },
        {
          name: "Queues",
          wide: true,
          cell: (worker) =>
            worker.queues.length > 0 ? (
              <span title={worker.strict ? "A queue is served only while those before it have nothing due" : undefined}>
                {worker.queues.join(worker.strict ? " > " : ", ")}
                {worker.strict && <span class="muted"> (strict)</span>}
              </span>
            ) : (
              <None said="not known" />
            ),
        },
        { name: "Build", cell: (worker) => worker.build || worker.version },
        { name: "Started", cell: (worker) => <Age at={worker.started_at} /> },
        { name: "Renewed", cell: (worker) => <Age at={worker.renewed_at} /> },
        { name: "Memory", number: true, cell: (worker) => (worker.rss === null ? <None said="not known: it is on another machine" /> : format.bytes(worker.rss)) },
      ]}
    />
  );
}

function RunningTable({ running, onStack }: { running: RunningView[]; onStack: (id: string) => void }) {
  return (
    <Table
      label="Running jobs"
      rows={running}
      rowKey={(job) => job.id}
      rowClass={(job) => (job.slow ? "slow" : "")}
      columns={[
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
          name: "Runs for",
          number: true,
          cell: (job) => (
            <>
              {job.started_at ? <Since at={job.started_at} /> : <None said="not known" />}
              {job.slow && <span class="label level-warn">stuck?</span>}
            </>
          ),
        },
        { name: "Usually", number: true, cell: (job) => (job.p95 === null ? <None said="not known" /> : format.atMost(job.p95)) },
        { name: "Progress", cell: (job) => (job.progress === null ? <None /> : <ProgressBar value={job.progress} note={job.progress_note} />) },
        { name: "Queue", cell: (job) => <Link to={address("queues", job.queue)}>{job.queue}</Link> },
        {
          name: "Worker",
          cell: (job) => (
            <div class="named">
              {job.host}
              {job.pid !== null && <span class="muted">{job.pid}</span>}
            </div>
          ),
        },
        {
          name: "Stack",
          cell: (job) =>
            job.stack_here ? (
              <button type="button" class="small" aria-label={`Stack of ${job.name} ${job.id}`} onClick={() => onStack(job.id)}>
                Stack
              </button>
            ) : (
              <Command text={job.command} />
            ),
        },
      ]}
    />
  );
}
