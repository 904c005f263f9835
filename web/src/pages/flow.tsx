// One workflow: the graph as a picture, live, and the same as a table.
import { useSignal } from "@preact/signals";
import * as format from "../format";
import { useLive } from "../live";
import { AuditList } from "../parts/audit_list";
import { Age, Copy, Fact, instant, Loaded, Section } from "../parts/basics";
import { confirm } from "../parts/dialog";
import { Graph, GraphTable } from "../parts/graph";
import { ProgressBar } from "../parts/job_table";
import { Choice } from "../parts/tabs";
import { address } from "../router";
import { ActButton, perform } from "../session";
import { Page } from "../shell";
import type { FlowAnswer } from "../types";
import { FlowState } from "./flows";

export function Flow({ id }: { id: string }) {
  const flow = useLive<FlowAnswer>(address("flows", id));
  const data = flow.data.value;
  return (
    <Page title={data?.flow.name ?? "Workflow"} kind="Workflows" from="flows" aside={data && <Acts data={data} />}>
      <p class="job-id">
        <code>{id}</code>
        <Copy text={id} label="Copy the id" />
      </p>
      <Loaded of={flow} lines={10}>
        {(known) => <Content data={known} />}
      </Loaded>
    </Page>
  );
}

function Acts({ data }: { data: FlowAnswer }) {
  const { flow } = data;
  const start = async (act: "cancel" | "retry") => {
    const reason = await confirm({
      title: act === "cancel" ? `Cancel ${flow.name}?` : `Retry what failed in ${flow.name}?`,
      text: <p>{act === "cancel" ? "Jobs that wait end at once; those that run are asked to stop." : "Dead jobs go back into their queues, and what was passed over waits for them again."}</p>,
      confirm: act === "cancel" ? "Cancel the workflow" : "Retry what failed",
      danger: act === "cancel",
    });
    if (reason !== null) await perform(`${address("flows", flow.id)}/${act}`, { reason });
  };
  return (
    <div class="buttons" role="group" aria-label="Acts on this workflow">
      <FlowState state={flow.state} />
      <ActButton name="flow" reason={flow.state === "failed" || flow.state === "running" ? "" : "Nothing in it has failed."} onAct={() => void start("retry")}>
        Retry what failed
      </ActButton>
      <ActButton name="flow" class="danger" reason={flow.state === "running" ? "" : "It is over."} onAct={() => void start("cancel")}>
        Cancel
      </ActButton>
    </div>
  );
}

function Content({ data }: { data: FlowAnswer }) {
  const shown = useSignal<"picture" | "table">("picture");
  const { flow, graph } = data;
  return (
    <>
      <dl class="facts card">
        <Fact name="Progress">
          <ProgressBar value={data.progress} />
        </Fact>
        <Fact name="Nodes">{format.count(flow.nodes)}</Fact>
        <Fact name="Jobs">{format.count(flow.jobs)}</Fact>
        <Fact name="Began">
          <Age at={flow.created_at} />
        </Fact>
        {flow.over_at && <Fact name="Took">{format.duration((instant(flow.over_at) - instant(flow.created_at)) / 1000)}</Fact>}
        {flow.stop_on_failure && <Fact name="On failure">it stops</Fact>}
        {flow.is_open && <Fact name="Open">jobs may be added</Fact>}
      </dl>
      <Section
        title="Graph"
        id="graph"
        flush={shown.value === "table"}
        aside={
          <Choice
            label="Show the graph as"
            options={[
              ["picture", "Picture"],
              ["table", "Table"],
            ]}
            value={shown.value}
            onChoose={(value) => (shown.value = value)}
          />
        }
      >
        {graph.collapsed && <p class="muted">It has more than 200 nodes: those with the same state and the same neighbours are shown as one.</p>}
        {shown.value === "picture" ? <Graph graph={graph} /> : <GraphTable graph={graph} />}
      </Section>
      <Section title="Acts by hand" id="flow-audit">
        <AuditList entries={data.audit} empty="Nobody has changed this workflow by hand." here />
      </Section>
    </>
  );
}
