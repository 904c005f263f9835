// One queue: its numbers, its charts, its jobs by name, its limits.
import { query } from "../api";
import * as format from "../format";
import { useLive } from "../live";
import { AuditList } from "../parts/audit_list";
import { Empty, Fact, Loaded, None, Section, Since } from "../parts/basics";
import { Counted } from "../parts/counted";
import { confirm } from "../parts/dialog";
import { Table } from "../parts/table";
import { address, Link } from "../router";
import { ActButton, perform } from "../session";
import { Page } from "../shell";
import type { QueueAnswer, QueueView } from "../types";
import { LimitTable } from "./limits";
import { Charts } from "./overview";
import { QueueNotes } from "./queues";

export function Queue({ name }: { name: string }) {
  const queue = useLive<QueueAnswer>(address("queues", name));
  const data = queue.data.value;
  return (
    <Page title={name} kind="Queues" from="queues" aside={data && <PauseButton queue={data.queue} />}>
      <Loaded of={queue}>{(known) => <Content data={known} />}</Loaded>
    </Page>
  );
}

function Content({ data }: { data: QueueAnswer }) {
  const queue = data.queue;
  return (
    <>
      <div class="labels">
        <QueueNotes queue={queue} />
      </div>
      <dl class="facts card">
        <Fact name="Oldest due">{queue.oldest_due ? <Since at={queue.oldest_due} /> : <None said="none is due" />}</Fact>
        <StateFact name="Due" state="available" queue={queue.name} of={queue.due} />
        <StateFact name="Running" state="executing" queue={queue.name} of={queue.running} />
        <StateFact name="Retryable" state="retryable" queue={queue.name} of={queue.retryable} />
        <StateFact name="Scheduled" state="scheduled" queue={queue.name} of={queue.scheduled} />
        <Fact name="In">{queue.rate_in === null ? <None said="too few to say" /> : format.rate(queue.rate_in)}</Fact>
        <Fact name="Out">{queue.rate_out === null ? <None said="too few to say" /> : format.rate(queue.rate_out)}</Fact>
        <Fact name="Empty in">{queue.eta === null ? <None said="not known" /> : format.duration(Math.ceil(queue.eta))}</Fact>
        <Fact name="Run time p95">{queue.p95 === null ? <None said="not known" /> : format.duration(queue.p95)}</Fact>
      </dl>
      <Charts queue={queue.name} />
      <Section title="Jobs of the last hour" id="queue-jobs" flush>
        {data.jobs.length === 0 ? (
          <Empty title="No job of this queue has ended within the last hour" />
        ) : (
          <Table
            label="Jobs by name"
            rows={data.jobs}
            rowKey={(job) => job.name}
            columns={[
              {
                name: "Job",
                wide: true,
                cell: (job) => (
                  <Link to={`jobs${query({ filter: `queue:${queue.name} job:${job.name}` })}`} data-row={job.name}>
                    {job.name}
                  </Link>
                ),
              },
              { name: "Ended", number: true, cell: (job) => format.count(job.ended) },
              { name: "Failed", number: true, cell: (job) => <span class={job.failed > 0 ? "bad" : "zero"}>{format.count(job.failed)}</span> },
              { name: "Run p50", number: true, cell: (job) => <Milliseconds value={job.run_p50} /> },
              { name: "Run p95", number: true, cell: (job) => <Milliseconds value={job.run_p95} /> },
            ]}
          />
        )}
      </Section>
      {data.limits.length > 0 && (
        <Section title="Limits" id="queue-limits" flush>
          <LimitTable limits={data.limits} />
        </Section>
      )}
      <div class="columns even">
        <Section title="Workers that serve it" id="queue-workers">
          {data.servers.length === 0 ? (
            <p class="muted">
              None. Start one: <code>onward worker app:jobs --queues {queue.name}</code>
            </p>
          ) : (
            <ul class="plain-list">
              {data.servers.map((server) => (
                <li key={server}>{server}</li>
              ))}
            </ul>
          )}
        </Section>
        <Section title="Acts by hand" id="queue-audit">
          <AuditList entries={data.audit} empty="Nobody has paused or resumed this queue." here />
        </Section>
      </div>
    </>
  );
}

function StateFact({ name, state, queue, of }: { name: string; state: string; queue: string; of: QueueView["due"] }) {
  return (
    <Fact name={name}>
      <Link to={`jobs${query({ filter: `state:${state} queue:${queue}` })}`}>
        <Counted of={of} />
      </Link>
    </Fact>
  );
}

export function Milliseconds({ value }: { value: number | null }) {
  return value === null ? <None said="not known" /> : <>{format.duration(value / 1000)}</>;
}

export function PauseButton({ queue, small = false }: { queue: QueueView; small?: boolean }) {
  const change = async () => {
    const act = queue.paused ? "resume" : "pause";
    const reason = await confirm(
      queue.paused
        ? { title: `Resume ${queue.name}?`, text: <p>Workers take jobs from it again.</p>, confirm: "Resume" }
        : {
            title: `Pause ${queue.name}?`,
            text: <p>Jobs can still be enqueued, and those that run go on. No worker takes another one until the queue is resumed.</p>,
            confirm: "Pause",
          },
    );
    if (reason !== null) await perform(`${address("queues", queue.name)}/${act}`, { reason });
  };
  const word = queue.paused ? "Resume" : "Pause";
  return (
    <ActButton name="pause" class={small ? "small" : ""} label={`${word} queue ${queue.name}`} onAct={() => void change()}>
      {word}
    </ActButton>
  );
}
