// What people did by hand: who, what, when, on what and why.
import { useSignal } from "@preact/signals";
import { query } from "../api";
import { useLive } from "../live";
import { AuditTable } from "../parts/audit_list";
import { Empty, Loaded, Section } from "../parts/basics";
import { go, Link, location } from "../router";
import { Page } from "../shell";
import type { AuditAnswer } from "../types";

export function Audit() {
  const asked = location.value.query;
  const who = asked.get("who") ?? "";
  const act = asked.get("act") ?? "";
  const before = asked.get("before") ?? "";
  const audit = useLive<AuditAnswer>(`audit${query({ who, act, before, limit: 50 })}`);
  return (
    <Page title="Audit">
      <Filter who={who} act={act} acts={audit.data.value?.acts ?? []} />
      <Section title="Newest first" id="audit" flush>
        <Loaded of={audit}>
          {(data) =>
            data.entries.length === 0 ? (
              <Empty title={who || act ? "No entry matches" : "Nobody has done anything by hand yet"}>
                <p>Every retry, cancel, replay, edit, purge, pause and resume by a person is written here, in the transaction of the act.</p>
              </Empty>
            ) : (
              <>
                <AuditTable entries={data.entries} />
                <footer class="foot">
                  <span />
                  <span class="pager">
                    {before && (
                      <Link class="button" to={`audit${query({ who, act })}`}>
                        Newest
                      </Link>
                    )}
                    {data.next && (
                      <Link class="button" to={`audit${query({ who, act, before: data.next })}`}>
                        Older
                      </Link>
                    )}
                  </span>
                </footer>
              </>
            )
          }
        </Loaded>
      </Section>
    </Page>
  );
}

function Filter({ who, act, acts }: { who: string; act: string; acts: string[] }) {
  const person = useSignal(who);
  return (
    <form
      class="filter-row"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        go(`audit${query({ who: person.value.trim(), act })}`);
      }}
    >
      <label class="inline-field">
        <span>Person</span>
        <input type="search" value={person.value} onInput={(event) => (person.value = event.currentTarget.value)} />
      </label>
      <label class="inline-field">
        <span>Act</span>
        <select value={act} onChange={(event) => go(`audit${query({ who, act: event.currentTarget.value })}`)}>
          <option value="">all</option>
          {acts.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      </label>
      <button type="submit">Show</button>
    </form>
  );
}
