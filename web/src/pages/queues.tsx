// All queues, those in trouble first.
import * as format from "../format";
import { useLive } from "../live";
import { Age, Empty, Loaded, None, Section, Since } from "../parts/basics";
import { Sparkline } from "../parts/chart";
import { Counted } from "../parts/counted";
import { Table } from "../parts/table";
import { address, Link } from "../router";
import { Page } from "../shell";
import type { QueuesAnswer, QueueView } from "../types";
import { PauseButton } from "./queue";

export function Queues() {
  const queues = useLive<QueuesAnswer>("queues");
  return (
    <Page title="Queues">
      <Section title="By the age of the oldest due job" id="all-queues" flush>
        <Loaded of={queues}>
          {(data) =>
            data.queues.length === 0 ? (
              <Empty title="No queue holds a job">
                <p>
                  A queue exists as soon as a job is put in it: <code>@jobs.job(queue="mail")</code>
                </p>
              </Empty>
            ) : (
              <>
                <QueueTable queues={data.queues} />
                {data.more && <p class="foot muted">There are more queues than the {data.queues.length} that are shown.</p>}
              </>
            )
          }
        </Loaded>
      </Section>
    </Page>
  );
}

function QueueTable({ queues }: { queues: QueueView[] }) {
  return (
    <Table
      label="Queues"
      rows={queues}
      rowKey={(queue) => queue.name}
      columns={[
        {
          name: "Queue",
          wide: true,
          cell: (queue) => (
            <div class="named">
              <Link to={address("queues", queue.name)} data-row={queue.name}>
                {queue.name}
              </Link>
              <QueueNotes queue={queue} />
            </div>
          ),
        },
        { name: "Oldest due", number: true, cell: (queue) => (queue.oldest_due ? <Since at={queue.oldest_due} /> : <None said="none is due" />) },
        { name: "Due", number: true, cell: (queue) => <Counted of={queue.due} /> },
        { name: "Running", number: true, cell: (queue) => <Counted of={queue.running} /> },
        { name: "In", number: true, cell: (queue) => <Rate value={queue.rate_in} /> },
        { name: "Out", number: true, cell: (queue) => <Rate value={queue.rate_out} /> },
        { name: "Empty in", number: true, cell: (queue) => (queue.eta === null ? <None said="not known" /> : format.duration(Math.ceil(queue.eta))) },
        { name: "Workers", number: true, cell: (queue) => (queue.servers === null ? <None said="not known" /> : format.count(queue.servers)) },
        { name: "Last hour", cell: (queue) => <Sparkline values={queue.depth} label={depthSummary(queue)} /> },
        { name: "Act", unnamed: true, cell: (queue) => <PauseButton queue={queue} small /> },
      ]}
    />
  );
}

/** What is special about a queue: paused by whom, the check that it fails, its limits. */
export function QueueNotes({ queue }: { queue: QueueView }) {
  return (
    <>
      {queue.paused && (
        <span class="label long level-warn">
          Paused{queue.paused_by && ` by ${queue.paused_by}`}
          {queue.paused_at && (
            <>
              {" · "}
              <Age at={queue.paused_at} />
            </>
          )}
        </span>
      )}
      {queue.trouble && !(queue.paused && queue.trouble === "paused") && <span class="label level-fail">{queue.trouble}</span>}
      {queue.limits.map((limit) => (
        <span key={limit} class="label">
          {limit}
        </span>
      ))}
    </>
  );
}

function Rate({ value }: { value: number | null }) {
  return value === null ? <None said="too few to say" /> : <>{format.rate(value)}</>;
}

function depthSummary(queue: QueueView): string {
  const known = queue.depth.filter((value) => value !== null);
  if (known.length === 0) return "No numbers of the last hour";
  return `Due in the last hour: ${format.count(known[known.length - 1]!)} now, at most ${format.count(Math.max(...known))}`;
}
