// What happened to a job, and what is to come, in the order of time.
import * as format from "../format";
import type { EventView } from "../types";
import { Block, Clock, instant } from "./basics";
import { StateShape } from "./state";

const STATE_OF: Record<string, string> = {
  enqueued: "available",
  due: "scheduled",
  started: "executing",
  failed: "retryable",
  crashed: "discarded",
  note: "completed",
  audit: "cancelled",
  retry: "scheduled",
};

export function Timeline({ events }: { events: EventView[] }) {
  return (
    <ol class="timeline">
      {events.map((event, index) => (
        <li key={`${event.at} ${event.kind} ${index}`} class={event.is_to_come ? "to-come" : ""}>
          <StateShape state={event.state || STATE_OF[event.kind] || "cancelled"} />
          <div>
            <p>
              {event.text}
              {event.altered && <strong class="bad"> (altered: its signature does not match)</strong>}
            </p>
            <p class="muted small-text">
              <Clock at={event.at} />
              {index > 0 && !event.is_to_come && gap(events[index - 1]!, event)}
              {event.is_to_come && " · to come"}
              {event.place && ` · ${event.place}`}
            </p>
            {event.detail && (
              <details>
                <summary>Traceback</summary>
                <Block text={event.detail} label="Traceback" />
              </details>
            )}
          </div>
        </li>
      ))}
    </ol>
  );
}

function gap(before: EventView, after: EventView): string {
  const seconds = (instant(after.at) - instant(before.at)) / 1000;
  return seconds < 0.001 ? "" : ` · ${format.duration(seconds)} later`;
}
