// One group of dead letters: what killed them, samples, and what can be done.
import { useSignal } from "@preact/signals";
import { query } from "../api";
import * as format from "../format";
import { useLive } from "../live";
import { Age, Block, Empty, Fact, Loaded, None, Section } from "../parts/basics";
import { Bulk, type BulkAct } from "../parts/bulk";
import { CanaryDialog } from "../parts/canary";
import { address, Link } from "../router";
import { ActButton } from "../session";
import { Page } from "../shell";
import type { GroupAnswer } from "../types";

export function Group({ job, fingerprint }: { job: string; fingerprint: string }) {
  const group = useLive<GroupAnswer>(`${address("groups", fingerprint)}${query({ job })}`);
  const dialog = useSignal<BulkAct | "canary" | null>(null);
  const data = group.data.value;
  const isOver = group.error.value?.status === 404; // all of it was replayed, or purged
  const close = () => (dialog.value = null);
  return (
    <Page
      title={job}
      kind="Dead letters" from="dead"
      aside={
        data && !isOver && (
          <div class="buttons" role="group" aria-label="Acts on this group">
            <ActButton name="canary" class="primary" onAct={() => (dialog.value = "canary")}>
              Canary…
            </ActButton>
            <ActButton name="bulk" onAct={() => (dialog.value = "replay")}>
              Replay all…
            </ActButton>
            <ActButton name="purge" class="danger" onAct={() => (dialog.value = "purge")}>
              Purge…
            </ActButton>
          </div>
        )
      }
    >
      {isOver ? (
        <section class="card" aria-label="Nothing is left of it">
          <Empty title="No job of this group is dead">
            <p>
              They were replayed or purged. <Link to="dead">See the other groups</Link>
            </p>
          </Empty>
        </section>
      ) : (
        <Loaded of={group} lines={10}>
          {(known) => <Content data={known} />}
        </Loaded>
      )}
      {data && dialog.value === "canary" && <CanaryDialog filter={data.group.filter} onClose={close} />}
      {data && (dialog.value === "replay" || dialog.value === "purge") && <Bulk act={dialog.value} filter={data.group.filter} onClose={close} />}
    </Page>
  );
}

function Content({ data }: { data: GroupAnswer }) {
  const { group } = data;
  return (
    <>
      <section class="why state-discarded" aria-label="What killed them">
        <div class="why-text">
          <p class="lead">
            <strong>{group.kind || group.fingerprint}</strong>
            {data.message && `: ${data.message}`}
          </p>
          {group.place && (
            <p class="muted">
              <code>{group.place}</code>
            </p>
          )}
          {data.reason && <p class="muted">{data.reason}</p>}
        </div>
      </section>
      <dl class="facts card">
        <Fact name="Dead">
          <Link to={`jobs${query({ filter: group.filter })}`}>{format.count(group.count, group.or_more)}</Link>
        </Fact>
        <Fact name="First">
          <Age at={group.first} />
        </Fact>
        <Fact name="Last">
          <Age at={group.last} />
        </Fact>
        <Fact name="Hosts">{data.hosts.length > 0 ? data.hosts.map((host) => `${host.name} (${format.count(host.count)})`).join(", ") : <None said="not known" />}</Fact>
        <Fact name="Builds">{data.builds.length > 0 ? data.builds.join(", ") : <None said="not known" />}</Fact>
        <Fact name="Fingerprint">
          <code>{group.fingerprint}</code>
        </Fact>
      </dl>
      <div class="columns">
        <Section title="Newest traceback" id="traceback">
          {data.traceback ? <Block text={data.traceback} label="Traceback" /> : <p class="muted">It left no traceback.</p>}
        </Section>
        <Section title="Samples" id="samples">
          <ul class="samples">
            {data.samples.map((sample) => (
              <li key={sample.id}>
                <p class="sample-head">
                  <Link to={address("jobs", sample.id)} data-row={sample.id}>
                    <code>{sample.id}</code>
                  </Link>{" "}
                  <span class="muted">
                    died <Age at={sample.at} />
                  </span>
                </p>
                {sample.note ? <p class="muted">{sample.note}</p> : <Block text={sample.arguments} label={`Arguments of ${sample.id}`} />}
              </li>
            ))}
          </ul>
        </Section>
      </div>
    </>
  );
}
