// The first page: what needs a person, then the numbers.
import { useSignal } from "@preact/signals";
import * as format from "../format";
import { useLive } from "../live";
import { Block, Command, Empty, Fix, Loaded, None, Section, Since, Skeleton, Told } from "../parts/basics";
import { Chart, timeSteps, type Line } from "../parts/chart";
import { LevelShape, STATE_NAMES, StateShape, stateClass } from "../parts/state";
import { Table } from "../parts/table";
import { Choice } from "../parts/tabs";
import { AuditList } from "../parts/audit_list";
import { Counted } from "../parts/counted";
import { query } from "../api";
import { pulse } from "../pulse";
import { address, Link, location } from "../router";
import { Page } from "../shell";
import type { CheckView, PulseAnswer, QueueView, SeriesAnswer, WorkersSummary } from "../types";

export function Overview() {
  const data = pulse.data.value;
  return (
    <Page title="Overview">
      {data === undefined ? <Loaded of={pulse} lines={8} children={() => null} /> : <Content data={data} />}
    </Page>
  );
}

function Content({ data }: { data: PulseAnswer }) {
  if (data.empty) {
    return (
      <>
        {data.needs_you.length > 0 && <NeedsYou checks={data.needs_you} checked={data.checked} />}
        <Welcome />
      </>
    );
  }
  return (
    <>
      <NeedsYou checks={data.needs_you} checked={data.checked} />
      <Counts data={data} />
      <Charts />
      <div class="columns">
        <Queues queues={data.queues} />
        <div class="stack">
          <Workers workers={data.workers} />
          <Section title="Last acts by hand" id="last-acts" aside={<Link to="audit">All</Link>}>
            <AuditList entries={data.audit} empty="Nobody has retried, cancelled, paused or replayed anything yet." />
          </Section>
        </div>
      </div>
    </>
  );
}

function NeedsYou({ checks, checked }: { checks: CheckView[]; checked: boolean }) {
  return (
    <section class="needs" aria-labelledby="needs-you">
      <h2 id="needs-you" class={checks.length === 0 ? "unseen" : ""}>
        What needs you
      </h2>
      <div role="status">
        {checks.length === 0 && (
          <p class="all-well">
            <LevelShape level="ok" />
            {checked ? "Nothing needs you." : "The checks are being made."}
            {checked && <Link to="health">See the checks</Link>}
          </p>
        )}
        {checks.length > 0 && (
          <ul class="checks">
            {checks.map((check) => (
              <Check key={check.name} check={check} />
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

/** A check that fails: what is wrong, what to type, where to look. */
export function Check({ check }: { check: CheckView }) {
  return (
    <li class={`check-row level-${check.status}`}>
      <span class={`label level-${check.status}`}>
        <LevelShape level={check.status} />
        {check.status === "fail" ? "Fails" : check.status === "warn" ? "Warns" : "OK"}
      </span>
      <div class="check-body">
        <p>
          <strong>{check.name}</strong> <Told text={check.detail} />
        </p>
        {check.fix && (
          <p class="fix">
            <Fix text={check.fix} />
          </p>
        )}
      </div>
      {check.page && check.page !== location.value.path && (
        <Link to={check.page} class="button small" aria-label={`Look at ${check.name}`}>
          Look
        </Link>
      )}
    </li>
  );
}

function Counts({ data }: { data: PulseAnswer }) {
  return (
    <ul class="tiles" aria-label="Jobs by state">
      {data.counts.map((each) => (
        <li key={each.state}>
          <Link to={`jobs${query({ filter: `state:${each.state}` })}`} class={`tile ${stateClass(each.state)}`}>
            <span class="tile-name">
              <StateShape state={each.state} />
              {STATE_NAMES[each.state] ?? each.state}
            </span>
            <span class="tile-value">{format.count(each.count, each.or_more)}</span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

export const SPANS = [
  ["1h", "1 h"],
  ["24h", "24 h"],
  ["7d", "7 d"],
] as const;
export type Span = (typeof SPANS)[number][0];

const milliseconds = (value: number) => format.duration(value / 1000);
const perMinute = (value: number) => format.decimal(value);

export const THROUGHPUT: Line[] = [
  { name: "ended", look: "line-1", filled: true, value: (point) => (point.ended * 60) / point.seconds },
  { name: "failed", look: "line-bad", value: (point) => (point.failed * 60) / point.seconds },
];
export const RUN: Line[] = [
  { name: "p50", look: "line-1", value: (point) => point.run_p50 },
  { name: "p95", look: "line-2", value: (point) => point.run_p95 },
];
export const WAIT: Line[] = [
  { name: "p50", look: "line-1", value: (point) => point.wait_p50 },
  { name: "p95", look: "line-2", value: (point) => point.wait_p95 },
];

/** The charts of all queues, or of one. */
export function Charts({ queue }: { queue?: string }) {
  const span = useSignal<Span>("1h");
  const series = useLive<SeriesAnswer>(`series${query({ last: span.value, queue })}`, 10);
  const data = series.data.value;
  return (
    <Section
      title="Throughput and times"
      id="charts"
      aside={<Choice label="Time shown" options={SPANS} value={span.value} onChoose={(value) => (span.value = value)} />}
    >
      {!data && series.error.value && <Loaded of={series} children={() => null} />}
      {!data && !series.error.value && <Skeleton lines={6} />}
      {data && (
        <div class="charts">
          <Chart title="Jobs per minute" id="chart-throughput" series={data} lines={THROUGHPUT} show={perMinute} />
          <Chart title="Run time" id="chart-run" series={data} lines={RUN} show={milliseconds} steps={timeSteps} />
          <Chart title="Wait before the first run" id="chart-wait" series={data} lines={WAIT} show={milliseconds} steps={timeSteps} />
          {queue && (
            <>
              <Chart
                title="Jobs that are due"
                id="chart-depth"
                series={data}
                lines={[{ name: "due", look: "line-1", filled: true, value: (point) => point.depth }]}
                show={perMinute}
              />
              <Chart
                title="Age of the oldest due job"
                id="chart-age"
                series={data}
                lines={[{ name: "age", look: "line-1", filled: true, value: (point) => point.oldest_age }]}
                show={milliseconds}
                steps={timeSteps}
              />
            </>
          )}
        </div>
      )}
    </Section>
  );
}

function Queues({ queues }: { queues: QueueView[] }) {
  return (
    <Section title="Queues" id="queues" flush aside={<Link to="queues">All queues</Link>}>
      {queues.length === 0 ? (
        <Empty title="No queue holds a job" />
      ) : (
        <Table
          label="Queues, oldest first"
          rows={queues.slice(0, 10)}
          rowKey={(queue) => queue.name}
          columns={[
            {
              name: "Queue",
              wide: true,
              cell: (queue) => (
                <>
                  <Link to={address("queues", queue.name)} data-row={queue.name}>
                    {queue.name}
                  </Link>{" "}
                  {(queue.trouble || queue.paused) && <span class="label level-warn">{queue.trouble || "paused"}</span>}
                </>
              ),
            },
            { name: "Oldest", number: true, cell: (queue) => (queue.oldest_due ? <Since at={queue.oldest_due} /> : <None said="none is due" />) },
            { name: "Due", number: true, cell: (queue) => <Counted of={queue.due} /> },
            { name: "Running", number: true, cell: (queue) => <Counted of={queue.running} /> },
            { name: "Out", number: true, cell: (queue) => (queue.rate_out === null ? <None said="not known" /> : format.rate(queue.rate_out)) },
          ]}
        />
      )}
    </Section>
  );
}

function Workers({ workers }: { workers: WorkersSummary }) {
  return (
    <Section title="Workers" id="workers" aside={<Link to="workers">All workers</Link>}>
      {workers.live === 0 ? (
        <Empty title="No worker is running">
          <p>
            Start one: <Command text="onward worker app:jobs" />
          </p>
        </Empty>
      ) : (
        <dl class="facts">
          <div class="fact">
            <dt>Live</dt>
            <dd>{format.count(workers.live)}</dd>
          </div>
          <div class="fact">
            <dt>Hosts</dt>
            <dd>{format.count(workers.hosts)}</dd>
          </div>
          <div class="fact">
            <dt>Slots busy</dt>
            <dd>
              {format.count(workers.busy)}
              {workers.slots !== null && ` of ${format.count(workers.slots)}`}
            </dd>
          </div>
          {workers.expired > 0 && (
            <div class="fact bad">
              <dt>Expired</dt>
              <dd>{format.count(workers.expired)}</dd>
            </div>
          )}
        </dl>
      )}
    </Section>
  );
}

const FIRST_JOB = `from onward import Onward

jobs = Onward("sqlite:///jobs.db")

@jobs.job
def greet(name: str) -> None:
    print(f"Hello {name}")

greet.enqueue("Ada")`;

function Welcome() {
  return (
    <Section title="This store is empty" id="welcome">
      <p>Three steps, and this page shows what happens:</p>
      <ol class="steps">
        <li>
          <p>Enqueue a job.</p>
          <Block text={FIRST_JOB} label="Example" />
        </li>
        <li>
          <p>No worker is running yet. Start one:</p>
          <Command text="onward worker app:jobs" />
        </li>
        <li>
          <p>Stay here. The page looks again every two seconds.</p>
        </li>
      </ol>
    </Section>
  );
}

