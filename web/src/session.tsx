// Who looks, and what that person may do with this store.
import type { ComponentChildren } from "preact";
import { batch, signal } from "@preact/signals";
import { act, ApiError, ask } from "./api";
import { forgetAll, keepCurrent, refreshNow, refreshSeconds, signedOut } from "./live";
import { tell, tellError } from "./parts/toasts";
import { pulse } from "./pulse";
import type { DoneAnswer, SessionAnswer } from "./types";

export const session = signal<SessionAnswer | undefined>(undefined);
export const sessionError = signal<ApiError | undefined>(undefined);

function begin(answer: SessionAnswer): void {
  batch(() => {
    session.value = answer;
    sessionError.value = undefined;
    signedOut.value = null;
    refreshSeconds.value = answer.refresh;
  });
  document.title = answer.title;
  keepCurrent(pulse, !("look" in answer.unavailable));
}

let loading: Promise<void> | undefined;

/** Ask who looks.  Whoever calls this while the answer is on its way waits for the same one. */
export function loadSession(): Promise<void> {
  loading ??= askSession().finally(() => (loading = undefined));
  return loading;
}

async function askSession(): Promise<void> {
  try {
    const answer = await ask<SessionAnswer>("session");
    if (answer.changed) begin(answer.data);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) signedOut.value = error;
    else sessionError.value = error;
  }
}

export async function signIn(token: string): Promise<void> {
  const answer = await act<SessionAnswer>("login", { token });
  forgetAll();
  begin(answer);
  void refreshNow();
}

export async function signOut(): Promise<void> {
  await act("logout");
  session.value = undefined;
  forgetAll();
  signedOut.value = new ApiError(401, "unauthorized", "You are signed out.", "", { login: true });
}

/** Why a person cannot do something here; "" if they can. */
export function whyNot(name: string): string {
  const known = session.value;
  if (!known) return "Not signed in.";
  if (name in known.unavailable) return known.unavailable[name]!;
  if (known.acts.includes(name)) return "";
  return known.read_only ? "This dashboard is read only." : `Your role, ${known.role}, does not allow this.`;
}

/** Do something on the server, say what came of it, and look again. */
export async function perform(path: string, body: object = {}): Promise<DoneAnswer | undefined> {
  try {
    const answer = await act<DoneAnswer>(path, body);
    if (answer?.text) tell(answer.text);
    void refreshNow();
    return answer;
  } catch (error) {
    tellError(error);
    return undefined;
  }
}

/** A button for an act.  Where the act is not possible it is grey, and says why when it is pressed. */
export function ActButton({
  name,
  reason,
  onAct,
  children,
  class: look = "",
  label,
}: {
  name: string; // as in SessionAnswer.acts
  reason?: string; // why it is not possible for this very thing
  onAct: () => void;
  children: ComponentChildren;
  class?: string;
  label?: string;
}) {
  const refused = reason || whyNot(name);
  return (
    <button
      type="button"
      class={look}
      aria-disabled={refused ? "true" : undefined}
      aria-label={label}
      title={refused || undefined}
      onClick={() => (refused ? tell(refused) : onAct())}
    >
      {children}
    </button>
  );
}
