// Small parts that every page uses: times, numbers, copyable texts, notices.
import type { ComponentChildren } from "preact";
import { useSignal } from "@preact/signals";
import type { ApiError } from "../api";
import * as format from "../format";
import { isAway, now } from "../live";
import type { Resource } from "../live";
import { Icon } from "./icons";

/** An instant of the server, as milliseconds since 1970.  An ISO text may have microseconds. */
export function instant(value: string): number {
  return Date.parse(value);
}

/** "3 min ago", with the instant in the title. */
export function Age({ at, class: name }: { at: string | null | undefined; class?: string }) {
  if (!at) return <None />;
  return (
    <time class={name} dateTime={at} title={format.fullTime(instant(at))}>
      {format.age(instant(at), now.value)}
    </time>
  );
}

/** How long something has lasted: "3 min 20 s". */
export function Since({ at }: { at: string }) {
  return (
    <time dateTime={at} title={`since ${format.fullTime(instant(at))}`}>
      {format.duration(Math.max(0, Math.floor((now.value - instant(at)) / 1000)))}
    </time>
  );
}

/** The time of day, with the date unless it is today's. */
export function Clock({ at }: { at: string }) {
  return (
    <time dateTime={at} title={format.fullTime(instant(at))}>
      {format.clockTime(instant(at), now.value)}
    </time>
  );
}

/** An instant in full, in the zone that the person chose. */
export function fullOf(at: string): string {
  return format.fullTime(instant(at));
}

/** A dash where there is no value. */
export function None({ said = "none" }: { said?: string }) {
  return (
    <span class="muted none" title={said}>
      <span aria-hidden="true">–</span>
      <span class="unseen">{said}</span>
    </span>
  );
}

/** A text that is copied with one click. */
export function Copy({ text, label, children }: { text: string; label: string; children?: ComponentChildren }) {
  const said = useSignal("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text); // there is none on a page without https
      said.value = "Copied";
    } catch {
      said.value = "This browser does not allow it";
    }
    setTimeout(() => (said.value = ""), 1500);
  };
  return (
    <button type="button" class="copy" aria-label={label} title={label} onClick={() => void copy()}>
      {children}
      {said.value ? <span class="copied">{said.value}</span> : <Icon name="copy" />}
    </button>
  );
}

/** A command to type, with a button that copies it. */
export function Command({ text }: { text: string }) {
  return (
    <span class="command">
      <code>{text}</code>
      <Copy text={text} label={`Copy: ${text}`} />
    </span>
  );
}

// A word that may begin a sentence: no name, as in "send_mail: …", and no command.
const FIRST_WORD = /^(?!onward )[a-z]+(?=[ ,]|$)/;

/** A sentence of the server in which `…` marks what to type.  ``begins``: it stands alone, so it begins with a capital. */
export function Told({ text, begins = false }: { text: string; begins?: boolean }) {
  const parts = (begins && FIRST_WORD.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text).split("`");
  return <>{parts.map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}

/** What to do: a sentence, or commands to type, which can be copied. */
export function Fix({ text, begins = false }: { text: string; begins?: boolean }) {
  const parts = text.split(/(?<=^|: |; )(onward [^;`]+)/);
  return <>{parts.map((part, index) => (index % 2 ? <Command key={index} text={part.trim()} /> : <Told key={index} text={part} begins={begins && index === 0} />))}</>;
}

/** A long text in a box of its own. */
export function Block({ text, label }: { text: string; label: string }) {
  return (
    <div class="block">
      <pre tabIndex={0} role="group" aria-label={label}>
        {text}
      </pre>
      <Copy text={text} label={`Copy ${label.toLowerCase()}`} />
    </div>
  );
}

/** A part of a page with a heading. */
export function Section({
  title,
  id,
  aside,
  children,
  flush = false,
}: {
  title: string;
  id: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  flush?: boolean; // the content reaches the border: tables
}) {
  return (
    <section class={flush ? "card flush" : "card"} aria-labelledby={id}>
      <header class="card-head">
        <h2 id={id}>{title}</h2>
        {aside && <div class="card-aside">{aside}</div>}
      </header>
      {children}
    </section>
  );
}

/** What a page shows when there is nothing: it says what belongs here, and how to get it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** Grey bars while the first picture is on its way. */
export function Skeleton({ lines = 5 }: { lines?: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} />
      ))}
    </div>
  );
}

/** The content of a resource: grey bars first, then what `children` makes of the data; what went wrong if there is none. */
export function Loaded<T>({
  of,
  lines,
  children,
}: {
  of: Resource<T>;
  lines?: number;
  children: (data: T) => ComponentChildren;
}) {
  const data = of.data.value;
  const error = of.error.value;
  if (data !== undefined) {
    return (
      <>
        {error && !isAway(error) && <Refused error={error} />}
        {children(data)}
      </>
    );
  }
  if (!error) return <Skeleton lines={lines} />;
  if (isAway(error)) {
    return (
      <Empty title="Nothing to show until the store answers">
        <p>This page was opened after the store had gone. It asks again by itself, and is filled with the first answer.</p>
      </Empty>
    );
  }
  return <Refused error={error} />;
}

/** What the server refused, and what to do. */
export function Refused({ error }: { error: ApiError }) {
  return (
    <div class="notice notice-fail" role="alert">
      <p>
        <strong>
          <Told text={error.message} begins />
        </strong>
      </p>
      {error.fix && (
        <p>
          <Fix text={error.fix} begins />
        </p>
      )}
    </div>
  );
}

/** A value with its name above it, in a row of such. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A bar that shows how much of something is used. */
export function Bar({ value, of, label }: { value: number; of: number; label: string }) {
  const part = Math.min(value / Math.max(of, 1), 1);
  return (
    <svg class="bar" width="72" height="8" role="img" aria-label={label}>
      <rect class="bar-all" width="72" height="8" rx="4" />
      {part > 0 && <rect width={Math.max(part * 72, 8)} height="8" rx="4" />}
    </svg>
  );
}
