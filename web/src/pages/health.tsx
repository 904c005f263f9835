// Every check, then versions and what the store can do.
import { useLive } from "../live";
import { Loaded, Section } from "../parts/basics";
import { LevelShape } from "../parts/state";
import { Page } from "../shell";
import type { FactView, HealthAnswer } from "../types";
import { Check } from "./overview";

export function Health() {
  const health = useLive<HealthAnswer>("health");
  return (
    <Page title="Health">
      <Loaded of={health} lines={10}>
        {(data) => (
          <>
            <Section title="Checks, worst first" id="checks">
              <ul class="checks">
                {data.checks.map((check) => (
                  <Check key={check.name} check={check} />
                ))}
              </ul>
            </Section>
            <div class="columns even">
              <Section title="Versions" id="versions">
                <FactList facts={data.versions} />
              </Section>
              <Section title="What the store can do" id="capabilities">
                <Capabilities facts={data.capabilities} />
              </Section>
            </div>
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** What the store has, as a row of words; what it lacks, each with what that means. */
function Capabilities({ facts }: { facts: FactView[] }) {
  return (
    <>
      <ul class="capabilities">
        {facts
          .filter((fact) => fact.ok)
          .map((fact) => (
            <li key={fact.label} class="label level-ok">
              <LevelShape level="ok" />
              {fact.label}
            </li>
          ))}
      </ul>
      <FactList facts={facts.filter((fact) => !fact.ok)} />
    </>
  );
}

function FactList({ facts }: { facts: FactView[] }) {
  return (
    <dl class="fact-list">
      {facts.map((fact) => (
        <div key={fact.label}>
          <dt>
            {!fact.ok && <LevelShape level="warn" />}
            {fact.label}
          </dt>
          <dd>{fact.text}</dd>
        </div>
      ))}
    </dl>
  );
}
