// Running a dead job again with other arguments: a form, the difference, then the new job.
import { useSignal } from "@preact/signals";
import { act, ApiError } from "../api";
import { address, go } from "../router";
import { refreshNow } from "../live";
import type { ChangeView, EditAnswer, JobAnswer } from "../types";
import { None, Refused } from "./basics";
import { Dialog } from "./dialog";
import { Table } from "./table";
import { tell } from "./toasts";

export function EditDialog({ job, onClose }: { job: JobAnswer; onClose: () => void }) {
  const texts = useSignal<Record<string, string>>(Object.fromEntries(job.editable.map((each) => [each.name, each.secret ? "" : each.text])));
  const whole = useSignal(job.arguments);
  const reason = useSignal("");
  const shown = useSignal<EditAnswer | undefined>(undefined);
  const error = useSignal<ApiError | undefined>(undefined);
  const named = job.editable.length > 0;

  const body = (dry: boolean) => {
    const common = { dry_run: dry, reason: reason.value.trim() };
    if (!named) return { ...common, payload: whole.value };
    const changed = job.editable.filter((each) => (each.secret ? texts.value[each.name] !== "" : texts.value[each.name] !== each.text));
    return {
      ...common,
      set: Object.fromEntries(changed.filter((each) => texts.value[each.name]!.trim() !== "").map((each) => [each.name, texts.value[each.name]!])),
      unset: changed.filter((each) => texts.value[each.name]!.trim() === "").map((each) => each.name),
    };
  };
  const send = async (dry: boolean) => {
    error.value = undefined;
    try {
      const answer = await act<EditAnswer>(`${address("jobs", job.job.id)}/edit`, body(dry));
      if (dry) {
        shown.value = answer;
        return;
      }
      tell(answer.text);
      onClose();
      void refreshNow();
      if (answer.enqueued) go(address("jobs", answer.id));
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      error.value = problem;
      shown.value = undefined;
    }
  };
  const change = (name: string, text: string) => {
    texts.value = { ...texts.value, [name]: text };
    shown.value = undefined;
  };

  return (
    <Dialog title="Edit and run again" onClose={onClose} wide>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          void send(shown.value === undefined);
        }}
      >
        <p class="muted">
          The job stays dead. A new one with these arguments is enqueued, and each names the other. Values are JSON: a text needs quotes.
        </p>
        {named ? (
          job.editable.map((each) => (
            <label key={each.name} class="field">
              <span>
                <code>{each.name}</code> {each.type && <span class="muted">{each.type}</span>}
                {each.secret && <span class="muted"> (secret: leave it empty to keep it)</span>}
              </span>
              <textarea rows={each.text.includes("\n") ? 5 : 1} spellcheck={false} value={texts.value[each.name]} onInput={(event) => change(each.name, event.currentTarget.value)} />
            </label>
          ))
        ) : (
          <label class="field">
            <span>All arguments</span>
            <textarea
              rows={8}
              spellcheck={false}
              value={whole.value}
              onInput={(event) => {
                whole.value = event.currentTarget.value;
                shown.value = undefined;
              }}
            />
          </label>
        )}
        <label class="field">
          <span>Reason, for the audit trail (optional)</span>
          <input type="text" maxLength={500} value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} />
        </label>
        {error.value && <Refused error={error.value} />}
        {shown.value && <Difference answer={shown.value} />}
        <footer>
          <button type="button" onClick={onClose}>
            Keep as it is
          </button>
          <button type="submit" class="primary">
            {shown.value ? "Enqueue the new job" : "Show the difference"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function Difference({ answer }: { answer: EditAnswer }) {
  return (
    <div class="difference" role="status">
      {answer.changes.length === 0 ? (
        <p>The arguments stay the same.</p>
      ) : (
        <Table
          label="What changes"
          rows={answer.changes}
          rowKey={(change) => change.name}
          columns={[
            { name: "Argument", cell: (change: ChangeView) => <code>{change.name}</code> },
            { name: "Before", wide: true, cell: (change: ChangeView) => <Value text={change.before} /> },
            { name: "After", wide: true, cell: (change: ChangeView) => <Value text={change.after} /> },
          ]}
        />
      )}
      <p class="muted small-text">{answer.checked ? "They fit the job's signature." : "They were not compared with the job's signature, which is not known here."}</p>
      {answer.doubt && <p class="bad">Check the names: {answer.doubt}.</p>}
    </div>
  );
}

function Value({ text }: { text: string | null }) {
  return text === null ? <None said="not given" /> : <code class="value">{text}</code>;
}
