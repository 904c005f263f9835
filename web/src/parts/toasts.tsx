// Short messages about what the person just did.  Spoken politely; a failure is spoken at once and stays until closed.
import { signal } from "@preact/signals";
import { ApiError } from "../api";
import { Told } from "./basics";
import { Icon } from "./icons";

interface Toast {
  id: number;
  kind: "done" | "failed";
  text: string;
  fix: string;
}

const SECONDS = 6;
const toasts = signal<Toast[]>([]);
let last = 0;

function show(kind: Toast["kind"], text: string, fix = ""): void {
  last += 1;
  const id = last;
  toasts.value = [...toasts.value.slice(-3), { id, kind, text, fix }];
  if (kind === "done") setTimeout(() => close(id), SECONDS * 1000);
}

function close(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function tell(text: string): void {
  show("done", text);
}

export function tellError(error: unknown): void {
  if (error instanceof ApiError) show("failed", error.message, error.fix);
  else if (!(error instanceof DOMException && error.name === "AbortError")) throw error;
}

export function Toasts() {
  return (
    <div class="toasts">
      <div role="status" aria-label="Messages">
        {toasts.value.filter((toast) => toast.kind === "done").map(Message)}
      </div>
      <div role="alert" aria-label="Problems">
        {toasts.value.filter((toast) => toast.kind === "failed").map(Message)}
      </div>
    </div>
  );
}

function Message(toast: Toast) {
  return (
    <div key={toast.id} class={`toast toast-${toast.kind}`}>
      <p>
        <Told text={toast.text} begins />
        {toast.fix && (
          <span class="toast-fix">
            <Told text={toast.fix} begins />
          </span>
        )}
      </p>
      <button type="button" class="plain" aria-label="Close message" onClick={() => close(toast.id)}>
        <Icon name="close" />
      </button>
    </div>
  );
}
