// Dialogs: the browser's own <dialog>, which keeps the focus inside and gives it back.
import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import * as format from "../format";
import { Icon } from "./icons";

export function Dialog({
  title,
  onClose,
  children,
  wide = false,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const box = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    box.current?.querySelector<HTMLElement>("input, textarea, select")?.focus(); // else the cross would have the focus
    return () => {
      // The browser gives the focus back when a dialog is closed, not when it is taken out of the page.
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={wide ? "wide" : ""}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id={heading}>{title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  );
}

export interface Question {
  title: string;
  text: ComponentChildren;
  confirm: string; // what the button says
  danger?: boolean;
  number?: number; // must be typed before the button works
  reason?: boolean; // offer a field for the reason, which goes into the audit trail
}

interface Asked extends Question {
  answer: (reason: string | null) => void;
}

const asked = signal<Asked | null>(null);

/** Ask before an act.  Gives the reason, which may be empty; null: the person changed their mind. */
export function confirm(question: Question): Promise<string | null> {
  return new Promise((resolve) => {
    asked.value = {
      ...question,
      answer: (reason) => {
        asked.value = null;
        resolve(reason);
      },
    };
  });
}

/** The place where questions appear.  It is on every page. */
export function Questions() {
  return asked.value ? <QuestionDialog {...asked.value} /> : null;
}

function QuestionDialog({ title, text, confirm, danger, number, reason, answer }: Asked) {
  const typed = useSignal("");
  const why = useSignal("");
  const ready = number === undefined || typed.value.replace(/[^0-9]/g, "") === String(number);
  return (
    <Dialog title={title} onClose={() => answer(null)}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (ready) answer(why.value.trim());
        }}
      >
        <div class="dialog-text">{text}</div>
        {reason !== false && (
          <label class="field">
            <span>Reason, for the audit trail (optional)</span>
            <input type="text" maxLength={500} value={why.value} onInput={(event) => (why.value = event.currentTarget.value)} />
          </label>
        )}
        {number !== undefined && (
          <label class="field">
            <span>
              Type <strong>{format.count(number)}</strong> to confirm
            </span>
            <input
              type="text"
              inputMode="numeric"
              autoComplete="off"
              value={typed.value}
              onInput={(event) => (typed.value = event.currentTarget.value)}
            />
          </label>
        )}
        <footer>
          <button type="button" onClick={() => answer(null)}>
            Keep as it is
          </button>
          <button type="submit" class={danger ? "danger" : "primary"} disabled={!ready}>
            {confirm}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
