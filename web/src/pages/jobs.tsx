// The list of jobs: a filter, tabs by state, and acts on the selected ones or on all that match.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { query } from "../api";
import * as format from "../format";
import { focusedRow, useKeys } from "../keys";
import { useLive } from "../live";
import { Empty, Loaded, Section } from "../parts/basics";
import { Bulk, type BulkAct } from "../parts/bulk";
import { FilterBar } from "../parts/filter_bar";
import { JobTable } from "../parts/job_table";
import { STATE_NAMES, StateShape } from "../parts/state";
import { LinkTabs } from "../parts/tabs";
import { tell } from "../parts/toasts";
import { go, Link, location, setQuery } from "../router";
import { ActButton } from "../session";
import { Page } from "../shell";
import type { JobsAnswer, TabView } from "../types";

// Words of the filter language for a state, besides its own name.
const STATE_OF_WORD: Record<string, string> = {
  due: "available",
  later: "scheduled",
  retry: "retryable",
  running: "executing",
  done: "completed",
  dead: "discarded",
};

function stateOf(filter: string): string {
  const word = /(?:^|\s)state:(\S+)/.exec(filter)?.[1] ?? "";
  return STATE_OF_WORD[word] ?? word;
}

function withState(filter: string, state: string): string {
  const others = filter.replace(/(^|\s)state:\S+/g, "").trim();
  return state ? `state:${state} ${others}`.trim() : others;
}

export function Jobs() {
  const asked = location.value.query;
  const filter = asked.get("filter") ?? "";
  const after = asked.get("after") ?? "";
  const jobs = useLive<JobsAnswer>(`jobs${query({ filter, after, limit: 50 })}`);
  const selected = useSignal<ReadonlySet<string>>(new Set());
  const bulk = useSignal<{ act: BulkAct; filter: string } | null>(null);
  useEffect(() => void (selected.value = new Set()), [filter, after]);

  const data = jobs.data.value;
  const tabs = useRef<TabView[]>([]); // those of the last answer stay while the next one is on its way
  if (data) tabs.current = data.tabs;
  const error = jobs.error.value;
  const filterError = error?.status === 400 ? error : undefined;
  const select = (id: string, on: boolean) => {
    const next = new Set(selected.value);
    if (on) next.add(id);
    else next.delete(id);
    selected.value = next;
  };
  const chosen = (): string[] => {
    const focused = focusedRow();
    return selected.value.size > 0 ? [...selected.value] : focused ? [focused] : [];
  };
  const onSome = (name: BulkAct) => {
    const ids = chosen();
    if (ids.length > 0) bulk.value = { act: name, filter: `id:${ids.join(",")}` };
    else tell("Select jobs first: j and k move, x selects.");
  };
  const again = () => {
    const ids = chosen();
    const ended = data?.jobs.some((job) => ids.includes(job.id) && (job.state === "discarded" || job.state === "cancelled"));
    onSome(ended ? "replay" : "retry");
  };
  const closeBulk = () => {
    bulk.value = null;
    selected.value = new Set();
  };
  useKeys({ r: again, c: () => onSome("cancel") });

  return (
    <Page title="Jobs">
      <FilterBar filter={filter} error={filterError} onFilter={(text) => go(`jobs${query({ filter: text })}`)} />
      <StateTabs tabs={tabs.current} filter={filter} />
      {!filterError && (
        <Section
          title="Matching jobs"
          id="matching"
          flush
          aside={
            <Acts
              selected={selected.value.size}
              state={stateOf(filter)}
              onSome={onSome}
              onAll={(name) => (bulk.value = { act: name, filter })}
              canActOnAll={filter !== "" && (data?.jobs.length ?? 0) > 0}
            />
          }
        >
          <Loaded of={jobs} lines={10}>
            {(known) => (
              <>
                {known.jobs.length === 0 ? (
                  <Nothing text={known.empty} filter={filter} />
                ) : (
                  <JobTable jobs={known.jobs} label="Jobs" selected={selected.value} onSelect={select} />
                )}
                <footer class="foot">
                  <span class="muted">{known.text}</span>
                  <span class="pager">
                    {after && (
                      <button type="button" onClick={() => setQuery({ after: null })}>
                        Newest
                      </button>
                    )}
                    {known.next && (
                      <Link class="button" to={`jobs${query({ filter, after: known.next })}`}>
                        Older
                      </Link>
                    )}
                  </span>
                </footer>
              </>
            )}
          </Loaded>
        </Section>
      )}
      {bulk.value && <Bulk {...bulk.value} onClose={closeBulk} />}
    </Page>
  );
}

function StateTabs({ tabs, filter }: { tabs: TabView[]; filter: string }) {
  const state = stateOf(filter);
  return (
    <LinkTabs
      label="Jobs by state"
      tabs={[
        { key: "all", name: "All", to: `jobs${query({ filter: withState(filter, "") })}`, current: state === "" },
        ...tabs.map((tab) => ({
          key: tab.state,
          to: `jobs${query({ filter: withState(filter, tab.state) })}`,
          current: state === tab.state,
          name: (
            <>
              <StateShape state={tab.state} />
              {STATE_NAMES[tab.state] ?? tab.state}
              <span class="tab-count">{format.count(tab.count, tab.or_more)}</span>
            </>
          ),
        })),
      ]}
    />
  );
}

const VERBS: Record<BulkAct, string> = { retry: "Retry", cancel: "Cancel", replay: "Replay", purge: "Purge" };

/** Which acts make sense for all jobs of a state. */
function actsFor(state: string): BulkAct[] {
  if (state === "discarded") return ["replay", "purge"];
  if (state === "cancelled") return ["replay", "purge"];
  if (state === "completed") return ["purge"];
  if (state === "executing") return ["cancel"];
  if (state === "") return ["retry", "cancel", "replay", "purge"];
  return ["retry", "cancel"];
}

function Acts({
  selected,
  state,
  onSome,
  onAll,
  canActOnAll,
}: {
  selected: number;
  state: string;
  onSome: (act: BulkAct) => void;
  onAll: (act: BulkAct) => void;
  canActOnAll: boolean;
}) {
  if (selected > 0) {
    return (
      <div class="buttons" role="group" aria-label="Acts on the selected jobs">
        <span class="muted">{format.plural(selected, "job")} selected</span>
        {actsFor(state).map((name) => (
          <ActButton key={name} name={name === "purge" ? "purge" : "bulk"} class="small" onAct={() => onSome(name)}>
            {VERBS[name]} selected…
          </ActButton>
        ))}
      </div>
    );
  }
  if (!canActOnAll) return null;
  return (
    <div class="buttons" role="group" aria-label="Acts on all jobs that match">
      <span class="muted">All that match:</span>
      {actsFor(state).map((name) => (
        <ActButton key={name} name={name === "purge" ? "purge" : "bulk"} class="small" onAct={() => onAll(name)}>
          {VERBS[name]} all…
        </ActButton>
      ))}
    </div>
  );
}

function Nothing({ text, filter }: { text: string; filter: string }) {
  return (
    <Empty title={text.replace(/\.$/, "") || "No job matches"}>
      {filter ? (
        <p>
          <Link to="jobs">Show all jobs</Link>
        </p>
      ) : (
        <p>
          A job appears here as soon as it is enqueued: <code>greet.enqueue("Ada")</code>
        </p>
      )}
    </Empty>
  );
}
