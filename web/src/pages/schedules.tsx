// Schedules: when they run next, what became of the last run, run now, pause.
import { useLive } from "../live";
import { Age, Block, Empty, Loaded, None, Section } from "../parts/basics";
import { confirm } from "../parts/dialog";
import { StateLabel } from "../parts/state";
import { Table } from "../parts/table";
import { address, Link } from "../router";
import { ActButton, perform } from "../session";
import { Page } from "../shell";
import type { SchedulesAnswer, ScheduleView } from "../types";

const EXAMPLE = `@jobs.schedule("0 7 * * *", tz="Europe/Berlin")
@jobs.job
def daily_report() -> None: ...`;

export function Schedules() {
  const schedules = useLive<SchedulesAnswer>("schedules", 4);
  return (
    <Page title="Schedules">
      <Section title="All schedules" id="schedules" flush>
        <Loaded of={schedules}>
          {(data) =>
            data.schedules.length === 0 ? (
              <Empty title="There is no schedule">
                <p>A schedule runs a job at every tick of a cron expression:</p>
                <Block text={EXAMPLE} label="Example" />
              </Empty>
            ) : (
              <ScheduleTable schedules={data.schedules} />
            )
          }
        </Loaded>
      </Section>
    </Page>
  );
}

function ScheduleTable({ schedules }: { schedules: ScheduleView[] }) {
  return (
    <Table
      label="Schedules"
      rows={schedules}
      rowKey={(schedule) => schedule.name}
      columns={[
        {
          name: "Schedule",
          wide: true,
          cell: (schedule) => (
            <div class="named">
              <Link to={address("schedules", schedule.name)} data-row={schedule.name}>
                {schedule.name}
              </Link>
              {schedule.job !== schedule.name && <span class="muted">{schedule.flow ? `workflow ${schedule.flow}` : schedule.job}</span>}
              <ScheduleLabels schedule={schedule} />
            </div>
          ),
        },
        { name: "Expression", cell: (schedule) => <Expression schedule={schedule} /> },
        { name: "Next", cell: (schedule) => (schedule.next[0] ? <Age at={schedule.next[0].at} /> : <None said="nothing is booked" />) },
        { name: "Last", cell: (schedule) => <LastRun schedule={schedule} /> },
        {
          name: "Acts",
          unnamed: true,
          cell: (schedule) => (
            <div class="buttons">
              <ScheduleActs schedule={schedule} small />
            </div>
          ),
        },
      ]}
    />
  );
}

export function Expression({ schedule }: { schedule: ScheduleView }) {
  return (
    <span class="expression">
      <code>{schedule.cron ?? "cannot be read"}</code>
      {schedule.tz && <span class="muted">{schedule.tz}</span>}
    </span>
  );
}

export function ScheduleLabels({ schedule }: { schedule: ScheduleView }) {
  return (
    <>
      {schedule.paused_at && (
        <span class="label level-warn">
          Paused <Age at={schedule.paused_at} />
        </span>
      )}
      {schedule.late && <span class="label long level-fail">{schedule.late}</span>}
      {schedule.problem && <span class="label long level-fail">{schedule.problem}</span>}
    </>
  );
}

function LastRun({ schedule }: { schedule: ScheduleView }) {
  const last = schedule.last[0];
  if (!last) return <None said="it has not run" />;
  return (
    <div class="named">
      <Link to={address("jobs", last.id)} aria-label={`The last job, ${last.state}`}>
        <StateLabel state={last.state} />
      </Link>
      <Age at={last.when} class="muted" />
    </div>
  );
}

export function ScheduleActs({ schedule, small = false }: { schedule: ScheduleView; small?: boolean }) {
  const path = address("schedules", schedule.name);
  const look = small ? "small" : "";
  const run = async () => {
    const reason = await confirm({
      title: `Run ${schedule.name} now?`,
      text: <p>One more job is enqueued. The ticks of the schedule stay as they are.</p>,
      confirm: "Run now",
    });
    if (reason !== null) await perform(`${path}/run`, { reason });
  };
  const pause = async () => {
    const isPaused = schedule.paused_at !== null;
    const reason = await confirm(
      isPaused
        ? { title: `Resume ${schedule.name}?`, text: <p>It is booked again from now on. Ticks that were missed stay missed.</p>, confirm: "Resume" }
        : { title: `Pause ${schedule.name}?`, text: <p>No tick is booked until it is resumed.</p>, confirm: "Pause" },
    );
    if (reason !== null) await perform(`${path}/${isPaused ? "resume" : "pause"}`, { reason });
  };
  const word = schedule.paused_at ? "Resume" : "Pause";
  return (
    <>
      <ActButton name="schedule" class={look} label={`Run ${schedule.name} now`} onAct={() => void run()}>
        Run now
      </ActButton>
      <ActButton name="schedule" class={look} label={`${word} ${schedule.name}`} onAct={() => void pause()}>
        {word}
      </ActButton>
    </>
  );
}
