// One job: why it is where it is and what to do, then everything else that is known.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, ApiError } from "../api";
import * as format from "../format";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { AuditList } from "../parts/audit_list";
import { Age, Block, Clock, Copy, Fact, Fix, instant, Loaded, None, Refused, Section, Told } from "../parts/basics";
import { confirm, Dialog } from "../parts/dialog";
import { EditDialog } from "../parts/edit";
import { Graph, GraphTable } from "../parts/graph";
import { ProgressBar } from "../parts/job_table";
import { SignalDialog } from "../parts/signal";
import { StateLabel } from "../parts/state";
import { Timeline } from "../parts/timeline";
import { tellError } from "../parts/toasts";
import { address, Link } from "../router";
import { ActButton, perform, whyNot } from "../session";
import { Page } from "../shell";
import type { ActView, FlowAnswer, JobAnswer, ReasonView, RunView, StackAnswer } from "../types";

type JobAct = ActView["act"];
const VERBS: Record<JobAct, string> = {
  retry: "Retry",
  cancel: "Cancel",
  replay: "Replay",
  edit: "Edit and run again",
  signal: "Send a signal",
  stack: "Show the stack",
};
const TEXTS: Record<string, string> = {
  retry: "It runs as soon as a worker is free.",
  cancel: "If it waits, it ends at once. If it runs, its handler is asked to stop.",
  replay: "It goes back into its queue, with all its retries again.",
};

export function Job({ id }: { id: string }) {
  const job = useLive<JobAnswer>(address("jobs", id));
  const data = job.data.value;
  return (
    <Page title={data?.job.name ?? "Job"} kind="Jobs" from="jobs" aside={data && <StateLabel state={data.job.state} />}>
      <p class="job-id">
        <code>{id}</code>
        <Copy text={id} label="Copy the id" />
      </p>
      <Loaded of={job} lines={12}>
        {(known) => <Content data={known} />}
      </Loaded>
    </Page>
  );
}

function Content({ data }: { data: JobAnswer }) {
  const dialog = useSignal<"edit" | "signal" | "stack" | null>(null);
  const perhaps = (act: JobAct) => {
    const known = data.acts.find((each) => each.act === act);
    if (known?.possible && !whyNot(act)) void start(act);
  };
  const start = async (act: JobAct) => {
    if (act === "edit" || act === "signal" || act === "stack") {
      dialog.value = act;
      return;
    }
    const reason = await confirm({
      title: `${VERBS[act]} ${data.job.name}?`,
      text: <p>{TEXTS[act]}</p>,
      confirm: VERBS[act],
      danger: act === "cancel",
    });
    if (reason !== null) await perform(`${address("jobs", data.job.id)}/${act}`, { reason });
  };
  const again = data.acts.some((each) => each.act === "replay" && each.possible) ? "replay" : "retry";
  useKeys({ r: () => perhaps(again), c: () => perhaps("cancel") });
  return (
    <>
      {data.why && <Why why={data.why} data={data} onAct={(act) => void start(act)} />}
      <Acts acts={data.acts} main={data.why?.act ?? null} onAct={(act) => void start(act)} />
      {data.damage && (
        <div class="notice notice-fail">
          <p>
            <strong>Its row holds values that no worker writes.</strong> {data.damage}
          </p>
        </div>
      )}
      <Facts data={data} />
      <div class="columns">
        <div class="stack">
          <Section title="Timeline" id="timeline">
            <Timeline events={data.timeline} />
          </Section>
          {data.runs.length > 0 && <Errors runs={data.runs} />}
        </div>
        <div class="stack">
          <Section title="Arguments" id="arguments">
            {data.arguments_note ? <p class="muted">{data.arguments_note}</p> : <Block text={data.arguments} label="Arguments" />}
          </Section>
          {(data.result !== null || data.result_note) && (
            <Section title="Result" id="result">
              {data.result_note && <p class="muted">{data.result_note}</p>}
              {data.result !== null && <Block text={data.result} label="Result" />}
            </Section>
          )}
          {data.notes.length > 0 && <Notes data={data} />}
          {data.meta && data.meta !== "{}" && (
            <Section title="Meta" id="meta">
              <Block text={data.meta} label="Meta" />
            </Section>
          )}
          <Section title="Acts by hand" id="job-audit">
            <AuditList entries={data.audit} empty="Nobody has changed this job by hand." here />
          </Section>
          <Section title="Copy" id="copy">
            <p class="copy-line">
              <span class="muted">As Python</span> <Copy text={data.as_python} label="Copy as Python" />
            </p>
            <Code text={data.as_python} label="As Python" />
            <p class="copy-line">
              <span class="muted">As a command</span> <Copy text={data.as_command} label="Copy as a command" />
            </p>
            <Code text={data.as_command} label="As a command" />
          </Section>
        </div>
      </div>
      {data.flow && <Flow id={data.flow} node={data.node} />}
      {dialog.value === "edit" && <EditDialog job={data} onClose={() => (dialog.value = null)} />}
      {dialog.value === "signal" && <SignalDialog job={data} onClose={() => (dialog.value = null)} />}
      {dialog.value === "stack" && <StackDialog id={data.job.id} onClose={() => (dialog.value = null)} />}
    </>
  );
}

function Code({ text, label }: { text: string; label: string }) {
  return (
    <div class="block">
      <pre tabIndex={0} role="group" aria-label={label}>
        {text}
      </pre>
    </div>
  );
}

/** The sentence that says why the job is where it is, with the button that does something about it. */
function Why({ why, data, onAct }: { why: ReasonView; data: JobAnswer; onAct: (act: JobAct) => void }) {
  return (
    <section class={`why state-${data.job.state}`} aria-labelledby="why">
      <h2 id="why" class="unseen">
        Why it is where it is
      </h2>
      <div class="why-text">
        <p class="lead">
          <Told text={why.text} />
        </p>
        {why.until && (
          <p class="muted">
            {why.exact ? "Until" : "Until about"} <Clock at={why.until} /> (<Age at={why.until} />)
          </p>
        )}
        {why.fix && (
          <p class="fix">
            <Fix text={why.fix} />
          </p>
        )}
      </div>
      <div class="buttons">
        {why.job_id && (
          <Link class="button" to={address("jobs", why.job_id)}>
            The other job
          </Link>
        )}
        <MainAct why={why} data={data} onAct={onAct} />
      </div>
    </section>
  );
}

function MainAct({ why, data, onAct }: { why: ReasonView; data: JobAnswer; onAct: (act: JobAct) => void }) {
  const queue = data.job.queue;
  if (why.act === "resume") {
    const resume = async () => {
      const reason = await confirm({ title: `Resume ${queue}?`, text: <p>Workers take jobs from it again.</p>, confirm: "Resume" });
      if (reason !== null) await perform(`${address("queues", queue)}/resume`, { reason });
    };
    return (
      <ActButton name="pause" class="primary" onAct={() => void resume()}>
        Resume {queue}
      </ActButton>
    );
  }
  if (why.act === "canary" && data.group) {
    return (
      <Link class="button primary" to={address("dead", data.job.name, data.group)}>
        See the group
      </Link>
    );
  }
  if (why.act === "open") {
    return (
      <Link class="button primary" to="limits">
        See the limits
      </Link>
    );
  }
  const known = data.acts.find((each) => each.act === why.act);
  if (!known) return null;
  return (
    <ActButton name={known.act} reason={known.reason} class="primary" onAct={() => onAct(known.act)}>
      {VERBS[known.act]}
    </ActButton>
  );
}

function Acts({ acts, main, onAct }: { acts: ActView[]; main: string | null; onAct: (act: JobAct) => void }) {
  // What the job's state excludes is left out, but for the two that every job has; what the store or the role excludes is grey.
  const others = acts.filter(
    (each) => each.act !== main && (each.possible || each.act === "retry" || each.act === "cancel" || (each.act !== "stack" && whyNot(each.act) !== "")),
  );
  return (
    <div class="buttons acts" role="group" aria-label="Acts on this job">
      {others.map((each) =>
        each.act === "stack" ? (
          <button
            key={each.act}
            type="button"
            aria-disabled={each.possible ? undefined : "true"}
            title={each.reason || undefined}
            onClick={() => each.possible && onAct("stack")}
          >
            {VERBS.stack}
          </button>
        ) : (
          <ActButton key={each.act} name={each.act} reason={each.possible ? "" : each.reason} onAct={() => onAct(each.act)}>
            {VERBS[each.act]}
          </ActButton>
        ),
      )}
    </div>
  );
}

function Facts({ data }: { data: JobAnswer }) {
  const { job } = data;
  return (
    <dl class="facts card">
      <Fact name="Queue">
        <Link to={address("queues", job.queue)}>{job.queue}</Link>
      </Fact>
      <Fact name={job.state === "executing" ? "Run" : "Runs"}>{runsOf(data)}</Fact>
      <Fact name="Enqueued">
        <Age at={job.enqueued_at} />
      </Fact>
      {data.started_at && (data.finished_at || job.state === "executing") && (
        <Fact name={data.finished_at ? "Last run took" : "Runs for"}>
          <Ran from={data.started_at} until={data.finished_at} at={data.at} />
        </Fact>
      )}
      {data.finished_at && (
        <Fact name="Ended">
          <Age at={data.finished_at} />
        </Fact>
      )}
      {data.progress !== null && (
        <Fact name="Progress">
          <ProgressBar value={data.progress} note={data.progress_note} />
        </Fact>
      )}
      {data.worker && <Fact name="Worker">{data.worker}</Fact>}
      {data.priority !== 0 && <Fact name="Priority">{data.priority}</Fact>}
      {job.lane && <Fact name="Lane">{job.lane}</Fact>}
      {data.crashes > 0 && <Fact name="Crashes">{format.count(data.crashes)}</Fact>}
      {data.interruptions > 0 && <Fact name="Interruptions">{format.count(data.interruptions)}</Fact>}
      {data.waiting_for && <Fact name="Waits for">{data.waiting_for}</Fact>}
      {data.handler && data.handler !== job.name && <Fact name="Handler">{data.handler}</Fact>}
      {data.group && (
        <Fact name="Group">
          <Link to={address("dead", job.name, data.group)}>
            <code>{data.group}</code>
          </Link>
        </Fact>
      )}
      {data.edited_from && (
        <Fact name="Edited from">
          <Link to={address("jobs", data.edited_from)}>
            <code>{data.edited_from}</code>
          </Link>
        </Fact>
      )}
      {data.log_url && (
        <Fact name="Logs">
          <a href={data.log_url} rel="noreferrer">
            Open
          </a>
        </Fact>
      )}
      {data.trace_url && (
        <Fact name="Trace">
          <a href={data.trace_url} rel="noreferrer">
            Open
          </a>
        </Fact>
      )}
    </dl>
  );
}

/** How many of its runs a job has had; of one that runs, which of them it is. */
function runsOf({ job, attempts, max_attempts }: JobAnswer): string {
  const number = format.count(job.state === "executing" ? attempts + 1 : attempts);
  return max_attempts === null ? number : `${number} of ${format.count(max_attempts)}`;
}

function Ran({ from, until, at }: { from: string; until: string | null; at: string }) {
  const seconds = (instant(until ?? at) - instant(from)) / 1000;
  return <>{seconds < 0.001 ? "less than 1 ms" : format.duration(seconds)}</>; // an instant has no more digits than that
}

function Errors({ runs }: { runs: RunView[] }) {
  const newest = [...runs].reverse();
  return (
    <Section title={runs.length === 1 ? "Error" : `Errors (${runs.length})`} id="errors">
      {newest.map((run, index) => (
        <details key={run.at + run.attempt} open={index === 0} class="run">
          <summary>
            <span class="bad">{run.kind}</span>
            {run.message && `: ${run.message}`}
          </summary>
          <p class="muted small-text">
            Run {run.attempt}, <Clock at={run.at} />, took {run.duration_ms < 1 ? "less than 1 ms" : format.duration(run.duration_ms / 1000)}
            {run.host && `, on ${run.host}`}
            {run.pid !== null && ` (process ${run.pid})`}
            {run.build && `, build ${run.build}`}
          </p>
          {run.traceback ? <Block text={run.traceback} label="Traceback" /> : <p class="muted">It left no traceback.</p>}
        </details>
      ))}
    </Section>
  );
}

function Notes({ data }: { data: JobAnswer }) {
  return (
    <Section title="Steps" id="steps">
      <ol class="notes">
        {data.notes.map((note) => (
          <li key={`${note.kind} ${note.name}`}>
            <span class="label">{note.kind}</span> <span class="cut">{note.name || <None said="without a name" />}</span> <Age at={note.at} class="muted" />
          </li>
        ))}
      </ol>
    </Section>
  );
}

function Flow({ id, node }: { id: string; node: string | null }) {
  const flow = useLive<FlowAnswer>(address("flows", id));
  const data = flow.data.value;
  if (!data) return null; // the person may not see flows, or it is gone
  return (
    <Section title={`Its workflow: ${data.flow.name}`} id="flow" aside={<Link to={address("flows", id)}>Open</Link>}>
      <Graph graph={data.graph} marked={node} />
      <details>
        <summary>As table</summary>
        <GraphTable graph={data.graph} />
      </details>
    </Section>
  );
}

export function StackDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const stack = useSignal<StackAnswer | undefined>(undefined);
  const error = useSignal<ApiError | undefined>(undefined);
  const load = () => {
    ask<StackAnswer>(`${address("jobs", id)}/stack`).then(
      (answer) => answer.changed && (stack.value = answer.data),
      (problem) => (problem instanceof ApiError ? (error.value = problem) : tellError(problem)),
    );
  };
  useEffect(load, [id]);
  return (
    <Dialog title="What it does just now" onClose={onClose} wide>
      {error.value && <Refused error={error.value} />}
      {stack.value && (
        <>
          <p class="muted">
            Process {stack.value.pid}, {stack.value.where}. The innermost call is the last.
          </p>
          <Block text={stack.value.text} label="Stack" />
        </>
      )}
      <footer>
        <button type="button" onClick={load}>
          Look again
        </button>
        <button type="button" class="primary" onClick={onClose}>
          Close
        </button>
      </footer>
    </Dialog>
  );
}
