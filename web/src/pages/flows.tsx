// Workflows, newest first.
import { query } from "../api";
import * as format from "../format";
import { useLive } from "../live";
import { Age, Block, Empty, instant, Loaded, None, Section } from "../parts/basics";
import { StateShape, stateClass } from "../parts/state";
import { Table } from "../parts/table";
import { LinkTabs } from "../parts/tabs";
import { address, Link, location } from "../router";
import { Page } from "../shell";
import type { FlowsAnswer, FlowView } from "../types";

const EXAMPLE = `flow = jobs.flow("report")
load = flow.map(load_part, [(1,), (2,), (3,)])
total = flow.add(sum_up, after=load)
flow.add(send, after=total)
flow.enqueue()`;

const LIKE: Record<FlowView["state"], string> = { running: "executing", completed: "completed", failed: "discarded", cancelled: "cancelled" };

export function FlowState({ state }: { state: FlowView["state"] }) {
  return (
    <span class={`label ${stateClass(LIKE[state])}`}>
      <StateShape state={LIKE[state]} />
      {state[0]!.toUpperCase() + state.slice(1)}
    </span>
  );
}

export function Flows() {
  const running = location.value.query.get("running") === "true";
  const after = location.value.query.get("after");
  const flows = useLive<FlowsAnswer>(`flows${query({ running, after, limit: 50 })}`);
  return (
    <Page title="Workflows">
      <LinkTabs
        label="Workflows by state"
        tabs={[
          { key: "all", name: "All", to: "flows", current: !running },
          { key: "running", name: "Running", to: "flows?running=true", current: running },
        ]}
      />
      <Section title="Newest first" id="flows" flush>
        <Loaded of={flows}>
          {(data) =>
            data.flows.length === 0 ? (
              <Empty title={running ? "No workflow is running" : "There is no workflow"}>
                <p>A workflow is a set of jobs of which some start because others have ended:</p>
                <Block text={EXAMPLE} label="Example" />
              </Empty>
            ) : (
              <>
                <FlowTable flows={data.flows} />
                <footer class="foot">
                  <span />
                  <span class="pager">
                    {after && (
                      <Link class="button" to={`flows${query({ running })}`}>
                        Newest
                      </Link>
                    )}
                    {data.next && (
                      <Link class="button" to={`flows${query({ running, after: data.next })}`}>
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

function FlowTable({ flows }: { flows: FlowView[] }) {
  return (
    <Table
      label="Workflows"
      rows={flows}
      rowKey={(flow) => flow.id}
      columns={[
        {
          name: "Workflow",
          wide: true,
          cell: (flow) => (
            <div class="named">
              <Link to={address("flows", flow.id)} data-row={flow.id}>
                {flow.name}
              </Link>
              <code class="id">{flow.id}</code>
            </div>
          ),
        },
        { name: "State", cell: (flow) => <FlowState state={flow.state} /> },
        { name: "Nodes", number: true, cell: (flow) => format.count(flow.nodes) },
        { name: "Jobs", number: true, cell: (flow) => format.count(flow.jobs) },
        { name: "Began", cell: (flow) => <Age at={flow.created_at} /> },
        {
          name: "Took",
          number: true,
          cell: (flow) => (flow.over_at ? format.duration((instant(flow.over_at) - instant(flow.created_at)) / 1000) : <None said="it runs" />),
        },
      ]}
    />
  );
}
