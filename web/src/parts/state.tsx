// The seven states of a job: a word, a colour and a shape each, so that none depends on colour alone.
import type { JSX } from "preact";

const SHAPES: Record<string, JSX.Element> = {
  scheduled: <path d="M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1Zm0 2v3l2 1.5" class="outline" />,
  available: <circle cx="6" cy="6" r="4.5" />,
  executing: <path d="M3 1.2v9.6L11 6Z" />,
  retryable: <path d="M6 .8 11.2 6 6 11.2.8 6Z" />,
  completed: <path d="M1.8 6.4 4.8 9.4 10.4 2.8" class="outline thick" />,
  discarded: <path d="M2.2 2.2l7.6 7.6M9.8 2.2 2.2 9.8" class="outline thick" />,
  cancelled: <path d="M1.5 1.5h9v9h-9ZM3.5 6h5" class="outline" />,
};

/** What people call a state: the words of the filter language. */
export const STATE_NAMES: Record<string, string> = {
  scheduled: "Scheduled",
  available: "Available",
  executing: "Executing",
  retryable: "Retryable",
  completed: "Completed",
  discarded: "Dead",
  cancelled: "Cancelled",
};

export function stateClass(state: string): string {
  return state in SHAPES ? `state-${state}` : "state-cancelled";
}

export function StateShape({ state }: { state: string }) {
  return (
    <svg class={`shape ${stateClass(state)}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      {SHAPES[state] ?? SHAPES.cancelled}
    </svg>
  );
}

/** A state as a coloured label. */
export function StateLabel({ state }: { state: string }) {
  return (
    <span class={`label ${stateClass(state)}`}>
      <StateShape state={state} />
      {STATE_NAMES[state] ?? state}
    </span>
  );
}

const LEVEL_SHAPES: Record<string, JSX.Element> = {
  ok: SHAPES.completed!,
  warn: <path d="M6 .8 11.6 11H.4Z" />,
  fail: SHAPES.discarded!,
};

/** The verdict of a check: ok, warn or fail. */
export function LevelShape({ level }: { level: string }) {
  return (
    <svg class={`shape level-${level}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      {LEVEL_SHAPES[level] ?? LEVEL_SHAPES.warn}
    </svg>
  );
}
