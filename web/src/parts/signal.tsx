// Telling a job what it waits for.
import { useSignal } from "@preact/signals";
import { perform } from "../session";
import { address } from "../router";
import type { JobAnswer } from "../types";
import { Dialog } from "./dialog";

export function SignalDialog({ job, onClose }: { job: JobAnswer; onClose: () => void }) {
  const name = useSignal(job.why?.code === "awaits_signal" ? (job.waiting_for ?? "") : "");
  const value = useSignal("null");
  const reason = useSignal("");
  const send = async (event: Event) => {
    event.preventDefault();
    const body = { name: name.value.trim(), value: value.value, reason: reason.value.trim() };
    if (await perform(`${address("jobs", job.job.id)}/signal`, body)) onClose();
  };
  return (
    <Dialog title="Send a signal" onClose={onClose}>
      <form method="dialog" onSubmit={(event) => void send(event)}>
        <label class="field">
          <span>Name</span>
          <input type="text" required value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>Value, as JSON</span>
          <textarea rows={3} spellcheck={false} value={value.value} onInput={(event) => (value.value = event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>Reason, for the audit trail (optional)</span>
          <input type="text" maxLength={500} value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} />
        </label>
        <footer>
          <button type="button" onClick={onClose}>
            Keep as it is
          </button>
          <button type="submit" class="primary">
            Send
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
