// Dead letters in groups: jobs of one name that died in the same way.
import * as format from "../format";
import { useLive } from "../live";
import { Age, Empty, Loaded, None, Section } from "../parts/basics";
import { Sparkline } from "../parts/chart";
import { Table } from "../parts/table";
import { address, Link } from "../router";
import { Page } from "../shell";
import type { GroupsAnswer, GroupView } from "../types";

export function DeadLetters() {
  const groups = useLive<GroupsAnswer>("groups", 4);
  return (
    <Page title="Dead letters" aside={<Link class="button" to="jobs?filter=state%3Adead">All dead jobs</Link>}>
      <Section title="Groups, largest first" id="groups" flush>
        <Loaded of={groups}>
          {(data) =>
            data.groups.length === 0 ? (
              <Empty title="No job is dead">
                <p>
                  {data.last_death ? (
                    <>
                      The last one died <Age at={data.last_death} />.
                    </>
                  ) : (
                    "A job that fails more often than its retries allow is kept here, with its errors, until you replay, edit or purge it."
                  )}
                </p>
              </Empty>
            ) : (
              <>
                <Groups groups={data.groups} />
                {data.more && <p class="foot muted">There are more groups than the {data.groups.length} that are shown.</p>}
              </>
            )
          }
        </Loaded>
      </Section>
    </Page>
  );
}

function Groups({ groups }: { groups: GroupView[] }) {
  return (
    <Table
      label="Groups of dead jobs"
      rows={groups}
      rowKey={(group) => `${group.job} ${group.fingerprint}`}
      columns={[
        {
          name: "Job and error",
          wide: true,
          cell: (group) => (
            <div class="named">
              <Link to={address("dead", group.job, group.fingerprint)} data-row={group.fingerprint}>
                {group.job}
              </Link>
              <span class="bad">{group.kind || group.fingerprint}</span>
              {group.place && <code class="id">{group.place}</code>}
            </div>
          ),
        },
        { name: "Dead", number: true, cell: (group) => <strong>{format.count(group.count, group.or_more)}</strong> },
        {
          name: "Last 3 hours",
          cell: (group) => (
            <Sparkline bars values={group.deaths} label={`${format.count(group.deaths.reduce((sum, each) => sum + each, 0))} deaths of this job in the last three hours`} />
          ),
        },
        { name: "First", cell: (group) => <Age at={group.first} /> },
        { name: "Last", cell: (group) => <Age at={group.last} /> },
        { name: "Builds", cell: (group) => (group.builds.length > 0 ? group.builds.join(", ") : <None said="not known" />) },
      ]}
    />
  );
}
