// One schedule: its next five times, its last runs, its policies.
import * as format from "../format";
import { useLive } from "../live";
import { AuditList } from "../parts/audit_list";
import { Age, Block, Empty, Fact, fullOf, Loaded, Section } from "../parts/basics";
import { JobTable } from "../parts/job_table";
import { stateClass, STATE_NAMES } from "../parts/state";
import { address } from "../router";
import { Page } from "../shell";
import type { JobRowView, ScheduleAnswer } from "../types";
import { Expression, ScheduleActs, ScheduleLabels } from "./schedules";

export function Schedule({ name }: { name: string }) {
  const schedule = useLive<ScheduleAnswer>(address("schedules", name));
  const data = schedule.data.value;
  return (
    <Page
      title={name}
      kind="Schedules" from="schedules"
      aside={
        data && (
          <div class="buttons" role="group" aria-label="Acts on this schedule">
            <ScheduleActs schedule={data.schedule} />
          </div>
        )
      }
    >
      <Loaded of={schedule}>{(known) => <Content data={known} />}</Loaded>
    </Page>
  );
}

function Content({ data }: { data: ScheduleAnswer }) {
  const { schedule } = data;
  return (
    <>
      <div class="labels">
        <ScheduleLabels schedule={schedule} />
      </div>
      <dl class="facts card">
        <Fact name="Expression">
          <Expression schedule={schedule} />
        </Fact>
        <Fact name={schedule.flow ? "Workflow" : "Job"}>{schedule.flow ?? schedule.job}</Fact>
        {schedule.queue && <Fact name="Queue">{schedule.queue}</Fact>}
        <Fact name="Declared by">{schedule.origin === "code" ? "the code" : "a program or a person"}</Fact>
        <Fact name="Late ticks">{schedule.catch_up}</Fact>
        <Fact name="Overlap">{schedule.overlap}</Fact>
        {schedule.spread && <Fact name="Spread">{schedule.spread}</Fact>}
        <Fact name="Missed">{format.count(schedule.missed)}</Fact>
      </dl>
      <div class="columns even">
        <Section title="Next times" id="next">
          {schedule.next.length === 0 ? (
            <Empty title={schedule.paused_at ? "It is paused" : "Nothing is booked"} />
          ) : (
            <ol class="ticks">
              {schedule.next.map((tick) => (
                <li key={tick.at}>
                  <strong>
                    <Age at={tick.at} />
                  </strong>
                  <span>
                    {tick.local}
                    <span class="muted small-text">{fullOf(tick.at)}</span>
                  </span>
                </li>
              ))}
            </ol>
          )}
        </Section>
        <div class="stack">
          <Section title="Arguments" id="arguments">
            {schedule.arguments ? <Block text={schedule.arguments} label="Arguments" /> : <p class="muted">It takes none.</p>}
          </Section>
          <Section title="Acts by hand" id="schedule-audit">
            <AuditList entries={data.audit} empty="Nobody has run or paused this schedule by hand." here />
          </Section>
        </div>
      </div>
      <Section title="Last runs" id="last-runs" flush aside={<History jobs={schedule.last} />}>
        {schedule.last.length === 0 ? <Empty title="It has not run yet" /> : <JobTable jobs={schedule.last} label="Last runs" />}
      </Section>
    </>
  );
}

/** A strip with one mark per run, the newest on the right. */
function History({ jobs }: { jobs: JobRowView[] }) {
  if (jobs.length === 0) return null;
  const counts = new Map<string, number>();
  for (const job of jobs) counts.set(job.state, (counts.get(job.state) ?? 0) + 1);
  const summary = [...counts].map(([state, count]) => `${count} ${(STATE_NAMES[state] ?? state).toLowerCase()}`).join(", ");
  return (
    <svg class="history" width={jobs.length * 10} height="18" role="img" aria-label={`The last ${format.plural(jobs.length, "run")}: ${summary}`}>
      {[...jobs].reverse().map((job, index) => (
        <rect key={job.id} class={stateClass(job.state)} x={index * 10 + 1} y={job.state === "completed" ? 4 : 0} width="7" height={job.state === "completed" ? 14 : 18} rx="2" />
      ))}
    </svg>
  );
}
