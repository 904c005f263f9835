// Limits: how much of each is used; set, let the code decide again, shut, open.
import { useSignal } from "@preact/signals";
import * as format from "../format";
import { useLive } from "../live";
import { Age, Bar, Empty, Loaded, None, Section } from "../parts/basics";
import { confirm, Dialog } from "../parts/dialog";
import { Table } from "../parts/table";
import { ActButton, perform } from "../session";
import { Page } from "../shell";
import type { LimitsAnswer, LimitView } from "../types";

export function Limits() {
  const limits = useLive<LimitsAnswer>("limits", 2);
  const adding = useSignal(false);
  return (
    <Page
      title="Limits"
      aside={
        <ActButton name="limit" onAct={() => (adding.value = true)}>
          Set a limit…
        </ActButton>
      }
    >
      <Section title="In force" id="limits" flush>
        <Loaded of={limits}>
          {(data) =>
            data.limits.length === 0 ? (
              <Empty title="Nothing is limited">
                <p>A limit bounds how many jobs of a queue or of a name run at once in the whole fleet, or how many start in a time:</p>
                <p>
                  <code>@jobs.job(limit=Limit(running=3, rate="100/min"))</code>
                </p>
              </Empty>
            ) : (
              <LimitTable limits={data.limits} />
            )
          }
        </Loaded>
      </Section>
      {adding.value && <SetDialog onClose={() => (adding.value = false)} />}
    </Page>
  );
}

export function LimitTable({ limits }: { limits: LimitView[] }) {
  const editing = useSignal<LimitView | null>(null);
  return (
    <>
      <Table
        label="Limits"
        rows={limits}
        rowKey={(limit) => `${limit.kind} ${limit.name}`}
        columns={[
          {
            name: "Of",
            wide: true,
            cell: (limit) => (
              <div class="named">
                <strong data-row={limit.name} tabIndex={-1}>
                  {limit.name}
                </strong>
                <span class="muted">{limit.kind === "key" ? "each key of the job" : limit.kind}</span>
                {limit.is_shut && (
                  <span class="label level-fail">
                    Shut
                    {limit.shut_until && (
                      <>
                        , opens <Age at={limit.shut_until} />
                      </>
                    )}
                  </span>
                )}
              </div>
            ),
          },
          {
            name: "Running",
            cell: (limit) =>
              limit.running === null ? (
                <None said="not bounded" />
              ) : limit.running_now === null ? (
                <>{format.count(limit.running)} for each key</>
              ) : (
                <span class="slots">
                  <Bar value={limit.running_now} of={limit.running} label={`${limit.running_now} of ${limit.running} run`} />
                  {format.count(limit.running_now)}/{format.count(limit.running)}
                </span>
              ),
          },
          {
            name: "Rate",
            cell: (limit) =>
              limit.rate === null ? (
                <None said="not bounded" />
              ) : (
                <div class="named">
                  {limit.rate}
                  {limit.tokens !== null && <span class="muted">{format.count(limit.tokens)} left</span>}
                  {limit.next_token_at && (
                    <span class="muted">
                      next <Age at={limit.next_token_at} />
                    </span>
                  )}
                </div>
              ),
          },
          { name: "In the code", cell: (limit) => limit.declared || <None said="nothing" /> },
          { name: "Set by hand", cell: (limit) => limit.chosen || <None said="nothing" /> },
          { name: "Acts", unnamed: true, cell: (limit) => <LimitActs limit={limit} onEdit={() => (editing.value = limit)} /> },
        ]}
      />
      {editing.value && <SetDialog limit={editing.value} onClose={() => (editing.value = null)} />}
    </>
  );
}

function LimitActs({ limit, onEdit }: { limit: LimitView; onEdit: () => void }) {
  const place = { kind: limit.kind, name: limit.name };
  const clear = async () => {
    const reason = await confirm({
      title: `Let the code decide about ${limit.name}?`,
      text: <p>What was set by hand is removed. {limit.declared ? `The code says: ${limit.declared}.` : "The code sets no limit."}</p>,
      confirm: "Remove what was set",
    });
    if (reason !== null) await perform("limits/clear", { ...place, reason });
  };
  const gate = async (act: "shut" | "open") => {
    const reason = await confirm({
      title: act === "shut" ? `Shut ${limit.name}?` : `Open ${limit.name}?`,
      text: <p>{act === "shut" ? "No job of this name starts until it is opened. Those that run go on." : "Jobs of this name start again."}</p>,
      confirm: act === "shut" ? "Shut" : "Open",
      danger: act === "shut",
    });
    if (reason !== null) await perform(`limits/${act}`, { job: limit.name, reason });
  };
  return (
    <div class="buttons">
      <ActButton name="limit" class="small" label={`Set the limit of ${limit.name}`} onAct={onEdit}>
        Set…
      </ActButton>
      {limit.chosen && (
        <ActButton name="limit" class="small" label={`Let the code decide about ${limit.name}`} onAct={() => void clear()}>
          Clear
        </ActButton>
      )}
      {limit.kind === "job" && (
        <ActButton
          name="limit"
          class={limit.is_shut ? "small" : "small danger"}
          label={`${limit.is_shut ? "Open" : "Shut"} ${limit.name}`}
          onAct={() => void gate(limit.is_shut ? "open" : "shut")}
        >
          {limit.is_shut ? "Open" : "Shut"}
        </ActButton>
      )}
    </div>
  );
}

function SetDialog({ limit, onClose }: { limit?: LimitView; onClose: () => void }) {
  const kind = useSignal<LimitView["kind"]>(limit?.kind ?? "queue");
  const name = useSignal(limit?.name ?? "");
  const running = useSignal(limit?.running == null ? "" : String(limit.running));
  const rate = useSignal(limit?.rate ?? "");
  const reason = useSignal("");
  const send = async (event: Event) => {
    event.preventDefault();
    const body = {
      kind: kind.value,
      name: name.value.trim(),
      running: running.value.trim() === "" ? null : Number(running.value),
      rate: rate.value.trim() || null,
      reason: reason.value.trim(),
    };
    if (await perform("limits/set", body)) onClose();
  };
  return (
    <Dialog title={limit ? `Set the limit of ${limit.name}` : "Set a limit"} onClose={onClose}>
      <form method="dialog" onSubmit={(event) => void send(event)}>
        <p class="muted">What is set here beats the code until it is cleared.</p>
        {!limit && (
          <div class="field-row">
            <label class="field">
              <span>Of a</span>
              <select value={kind.value} onChange={(event) => (kind.value = event.currentTarget.value as LimitView["kind"])}>
                <option value="queue">queue</option>
                <option value="job">job</option>
                <option value="key">each key of a job</option>
              </select>
            </label>
            <label class="field">
              <span>Name</span>
              <input type="text" required value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
            </label>
          </div>
        )}
        <div class="field-row">
          <label class="field">
            <span>Running at once</span>
            <input type="number" min={0} step={1} value={running.value} onInput={(event) => (running.value = event.currentTarget.value)} />
          </label>
          <label class="field">
            <span>Rate, such as 100/min</span>
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
            Set
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
