// A canary: replay one dead job, wait for it, then ten, then the rest; it stops at the first that fails again.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ApiError, stream } from "../api";
import * as format from "../format";
import { refreshNow } from "../live";
import { address, Link } from "../router";
import type { CanaryLine } from "../types";
import { Refused } from "./basics";
import { Dialog } from "./dialog";
import { LevelShape, StateShape } from "./state";
import { tellError } from "./toasts";

export function CanaryDialog({ filter, onClose }: { filter: string; onClose: () => void }) {
  const lines = useSignal<CanaryLine[]>([]);
  const running = useSignal(false);
  const stopped = useSignal(false);
  const error = useSignal<ApiError | undefined>(undefined);
  const patience = useSignal("10m");
  const rate = useSignal("50/s");
  const reason = useSignal("");
  const stopper = useRef<AbortController | null>(null);
  useEffect(() => () => stopper.current?.abort(), []);

  const run = async (event: Event) => {
    event.preventDefault();
    stopper.current = new AbortController();
    running.value = true;
    error.value = undefined;
    const body = { filter, patience: patience.value, rate: rate.value, reason: reason.value.trim() };
    try {
      await stream<CanaryLine>("canary", body, (line) => (lines.value = merged(lines.value, line)), stopper.current.signal);
    } catch (problem) {
      if (problem instanceof ApiError) error.value = problem;
      else tellError(problem);
    } finally {
      running.value = false;
      void refreshNow();
    }
  };
  const stop = () => {
    stopped.value = true;
    stopper.current?.abort();
  };
  const begun = running.value || lines.value.length > 0;

  return (
    <Dialog title="Canary" onClose={onClose} wide>
      {error.value && <Refused error={error.value} />}
      {!begun && (
        <form method="dialog" onSubmit={(event) => void run(event)}>
          <p>Replays one job and waits until it has ended; then ten; then the rest. It stops at the first that fails again, and leaves the others dead.</p>
          <div class="field-row">
            <label class="field">
              <span>Wait for a step at most</span>
              <input type="text" value={patience.value} onInput={(event) => (patience.value = event.currentTarget.value)} />
            </label>
            <label class="field">
              <span>Replay at most</span>
              <input type="text" value={rate.value} onInput={(event) => (rate.value = event.currentTarget.value)} />
            </label>
          </div>
          <label class="field">
            <span>Reason, for the audit trail (optional)</span>
            <input type="text" maxLength={500} value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} />
          </label>
          <footer>
            <button type="button" onClick={onClose}>
              Keep as it is
            </button>
            <button type="submit" class="primary">
              Begin with one
            </button>
          </footer>
        </form>
      )}
      {begun && (
        <div class="working">
          <div role="status">
          <ol class="canary">
            {lines.value.map((line, index) => (
              <li key={index}>
                <CanaryShape line={line} />
                <span>
                  {line.text || "Waiting for what was replayed"}
                  {line.why && <span class="muted"> {line.why.text}</span>}{" "}
                  {line.job_id && <Link to={address("jobs", line.job_id)}>Open the job</Link>}
                </span>
              </li>
            ))}
            {stopped.value && !running.value && (
              <li>
                <LevelShape level="warn" />
                <span>Stopped. What was not replayed is still dead.</span>
              </li>
            )}
          </ol>
          </div>
          <p class="muted">
            {format.count(last(lines.value)?.replayed ?? 0)} replayed, {format.count(last(lines.value)?.ended ?? 0)} ended well
          </p>
          <footer>
            {running.value ? (
              <button type="button" class="danger" onClick={stop}>
                Stop
              </button>
            ) : (
              <button type="button" class="primary" onClick={onClose}>
                Close
              </button>
            )}
          </footer>
        </div>
      )}
    </Dialog>
  );
}

function last(lines: CanaryLine[]): CanaryLine | undefined {
  return lines[lines.length - 1];
}

/** One line per step and happening: a step that goes on waiting replaces its own line. */
function merged(lines: CanaryLine[], line: CanaryLine): CanaryLine[] {
  const before = last(lines);
  const same = before?.happened === line.happened && before.step === line.step;
  return same ? [...lines.slice(0, -1), line] : [...lines, line];
}

function CanaryShape({ line }: { line: CanaryLine }) {
  if (line.stopped) return <LevelShape level="fail" />;
  if (line.happened === "passed" || line.happened === "finished") return <LevelShape level="ok" />;
  if (line.happened === "failed" || line.happened === "error") return <LevelShape level="fail" />;
  if (line.happened === "impatient") return <LevelShape level="warn" />;
  return <StateShape state={line.happened === "waiting" ? "scheduled" : "executing"} />;
}
