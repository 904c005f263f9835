// An act on all jobs that match a filter: a preview, the confirmation, then its progress with a button that stops it.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { act as send, ApiError, stream } from "../api";
import * as format from "../format";
import { refreshNow } from "../live";
import type { BulkLine, PreviewAnswer } from "../types";
import { Refused, Skeleton } from "./basics";
import { Dialog } from "./dialog";
import { JobTable } from "./job_table";
import { StateLabel } from "./state";
import { tellError } from "./toasts";

export type BulkAct = "retry" | "cancel" | "replay" | "purge";
const VERBS: Record<BulkAct, string> = { retry: "Retry", cancel: "Cancel", replay: "Replay", purge: "Purge" };

export function Bulk({ act, filter, onClose }: { act: BulkAct; filter: string; onClose: () => void }) {
  const preview = useSignal<PreviewAnswer | undefined>(undefined);
  const line = useSignal<BulkLine | undefined>(undefined);
  const running = useSignal(false);
  const error = useSignal<ApiError | undefined>(undefined);
  const stopper = useRef<AbortController | null>(null);

  useEffect(() => {
    send<PreviewAnswer>("bulk/preview", { act, filter }).then(
      (answer) => (preview.value = answer),
      (problem) => (error.value = problem as ApiError),
    );
    return () => stopper.current?.abort();
  }, [act, filter]);

  const run = async (reason: string) => {
    stopper.current = new AbortController();
    running.value = true;
    try {
      await stream<BulkLine>("bulk/run", { ticket: preview.value!.ticket, reason }, (each) => (line.value = each), stopper.current.signal);
    } catch (problem) {
      if (problem instanceof ApiError) error.value = problem;
      else tellError(problem);
    } finally {
      running.value = false;
      void refreshNow();
    }
  };
  const stop = () => {
    stopper.current?.abort();
    line.value = {
      ...(line.value ?? { done: 0, looked: 0, skipped: 0, reasons: [], text: "", error: null }),
      over: true,
      text: `Stopped after ${format.plural(line.value?.done ?? 0, "job")}, and at most one batch more. What was done stays done.`,
    };
  };

  return (
    <Dialog title={filter.startsWith("id:") ? `${VERBS[act]} the selected jobs` : `${VERBS[act]} all that match`} onClose={onClose} wide>
      {error.value && <Refused error={error.value} />}
      {!preview.value && !error.value && <Skeleton lines={4} />}
      {preview.value && !running.value && !line.value && <Preview preview={preview.value} onRun={(reason) => void run(reason)} onClose={onClose} />}
      {(running.value || line.value) && (
        <Progress line={line.value} total={preview.value?.count ?? 0} running={running.value} onStop={stop} onClose={onClose} />
      )}
    </Dialog>
  );
}

function Preview({ preview, onRun, onClose }: { preview: PreviewAnswer; onRun: (reason: string) => void; onClose: () => void }) {
  const reason = useSignal("");
  const typed = useSignal("");
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.focus(), []); // the preview came after the dialog was opened
  const ready = !preview.destructive || typed.value.replace(/[^0-9]/g, "") === String(preview.count);
  if (!preview.ticket) {
    return (
      <>
        <p>{preview.text}</p>
        <footer>
          <button type="button" onClick={onClose}>
            Close
          </button>
        </footer>
      </>
    );
  }
  return (
    <form
      method="dialog"
      onSubmit={(event) => {
        event.preventDefault();
        if (ready) onRun(reason.value.trim());
      }}
    >
      <p class="lead">{preview.text}</p>
      <ul class="plain-list by-queue">
        {preview.by_queue.map((each) => (
          <li key={`${each.queue} ${each.state}`}>
            <StateLabel state={each.state} /> {each.queue} <b>{format.count(each.count)}</b>
          </li>
        ))}
      </ul>
      {preview.samples.length > 0 && (
        <details>
          <summary>Some of them</summary>
          <JobTable jobs={preview.samples} label="Some of the jobs" />
        </details>
      )}
      <p class="muted small-text">What arrives after this preview is left alone.</p>
      <label class="field">
        <span>Reason, for the audit trail (optional)</span>
        <input ref={first} type="text" maxLength={500} value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} />
      </label>
      {preview.destructive && (
        <label class="field">
          <span>
            Type <strong>{format.count(preview.count)}</strong> to confirm
          </span>
          <input type="text" inputMode="numeric" autoComplete="off" value={typed.value} onInput={(event) => (typed.value = event.currentTarget.value)} />
        </label>
      )}
      <footer>
        <button type="button" onClick={onClose}>
          Keep as it is
        </button>
        <button type="submit" class={preview.destructive ? "danger" : "primary"} disabled={!ready}>
          {VERBS[preview.act]} {format.plural(preview.count, "job", "jobs", !preview.exact)}
        </button>
      </footer>
    </form>
  );
}

function Progress({
  line,
  total,
  running,
  onStop,
  onClose,
}: {
  line: BulkLine | undefined;
  total: number;
  running: boolean;
  onStop: () => void;
  onClose: () => void;
}) {
  const looked = line?.looked ?? 0;
  return (
    <div class="working">
      <progress max={Math.max(total, looked, 1)} value={looked} aria-label="Progress" />
      <p role="status">
        {line?.text || "Beginning…"}
        {line?.error && <strong class="bad"> {line.error}</strong>}
      </p>
      <p class="muted">
        {format.count(line?.done ?? 0)} changed, {format.count(line?.skipped ?? 0)} left alone, of {format.count(total)}
      </p>
      {line && line.reasons.length > 0 && (
        <ul class="plain-list muted">
          {line.reasons.map((reason) => (
            <li key={reason.name}>
              {format.count(reason.count)}: {reason.name}
            </li>
          ))}
        </ul>
      )}
      <footer>
        {running ? (
          <button type="button" class="danger" onClick={onStop}>
            Stop
          </button>
        ) : (
          <button type="button" class="primary" onClick={onClose}>
            Close
          </button>
        )}
      </footer>
    </div>
  );
}
