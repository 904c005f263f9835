// The frame around every page: navigation, what is the matter with the connection, the person.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import * as format from "./format";
import { helpShown, KeyHelp } from "./keys";
import { isAway, now, paused, togglePause } from "./live";
import { Empty, Told } from "./parts/basics";
import { Questions } from "./parts/dialog";
import { Brand, Icon } from "./parts/icons";
import { tellError, Toasts } from "./parts/toasts";
import { pulse } from "./pulse";
import { Link, location } from "./router";
import { session, signOut } from "./session";
import { theme, zone, type Theme, type Zone } from "./settings";

// The part is what `SessionAnswer.unavailable` calls what the page shows.
const PAGES: [path: string, name: string, icon: string, part: string][] = [
  ["", "Overview", "overview", "look"],
  ["queues", "Queues", "queues", "look"],
  ["jobs", "Jobs", "jobs", "jobs"],
  ["dead", "Dead letters", "dead", "groups"],
  ["workers", "Workers", "workers", "workers"],
  ["schedules", "Schedules", "schedules", "schedules"],
  ["flows", "Workflows", "workflows", "flows"],
  ["limits", "Limits", "limits", "limits"],
  ["health", "Health", "health", "health"],
  ["audit", "Audit", "audit", "audit"],
];

/** The name of a page, and why this store, or this person, cannot have it; "" if they can. */
function pageAt(path: string): { name: string; lacks: string } {
  const [, name = "", , part = ""] = PAGES.find(([to]) => isCurrent(to, path)) ?? [];
  return { name, lacks: session.value?.unavailable[part] ?? "" };
}

export function Shell({ children }: { children: ComponentChildren }) {
  const open = useSignal(false);
  const path = location.value.path;
  const { name, lacks } = pageAt(path);
  useEffect(() => void (open.value = false), [path]);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <div class="layout">
        <header class={open.value ? "side open" : "side"}>
          <div class="side-head">
            <Link to="" class="brand">
              <Brand size={26} />
              {session.value?.title ?? "Onward"}
            </Link>
            <button type="button" class="plain menu" aria-expanded={open.value} aria-controls="navigation" onClick={() => (open.value = !open.value)}>
              <Icon name={open.value ? "close" : "menu"} />
              Menu
            </button>
          </div>
          <div id="navigation" class="side-body">
            <nav aria-label="Pages">
              <ul>
                {PAGES.map(([to, name, icon, part]) => (
                  <li key={to}>
                    <Link to={to} class={part in (session.value?.unavailable ?? {}) ? "lacking" : ""} aria-current={isCurrent(to, path) ? "page" : undefined}>
                      <Icon name={icon} />
                      {name}
                      <Badge page={to} />
                    </Link>
                  </li>
                ))}
              </ul>
            </nav>
            <Preferences />
          </div>
        </header>
        <main id="main" tabIndex={-1}>
          <Trouble />
          {lacks ? <Lacking name={name} why={lacks} /> : children}
        </main>
      </div>
      <Toasts />
      <Questions />
      <KeyHelp />
    </>
  );
}

/** In place of a page that this store, or this person, cannot have. */
function Lacking({ name, why }: { name: string; why: string }) {
  return (
    <Page title={name}>
      <section class="card" aria-label="Why there is nothing here">
        <Empty title="This page is not available here">
          <p>
            <Told text={why} />
          </p>
        </Empty>
      </section>
    </Page>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function isCurrent(page: string, path: string): boolean {
  return page === "" ? path === "" : path === page || path.startsWith(`${page}/`);
}

/** A number beside a page that wants to be looked at. */
function Badge({ page }: { page: string }) {
  const data = pulse.data.value;
  if (!data) return null;
  if (page === "dead") {
    const dead = data.counts.find((each) => each.state === "discarded");
    if (!dead || dead.count === 0) return null;
    return (
      <span class="badge">
        {format.count(dead.count, dead.or_more)}
        <span class="unseen"> dead jobs</span>
      </span>
    );
  }
  if (page === "health" && data.needs_you.length > 0) {
    const failing = data.needs_you.some((check) => check.status === "fail");
    return (
      <span class={failing ? "badge badge-fail" : "badge badge-warn"}>
        {data.needs_you.length}
        <span class="unseen"> checks need you</span>
      </span>
    );
  }
  return null;
}

function Preferences() {
  const person = session.value;
  return (
    <div class="preferences">
      <label>
        <span>Colours</span>
        <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
          <option value="system">System</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      <label>
        <span>Times</span>
        <select value={zone.value} onChange={(event) => (zone.value = event.currentTarget.value as Zone)}>
          <option value="local">Local</option>
          <option value="utc">UTC</option>
        </select>
      </label>
      <button type="button" class="plain" onClick={() => (helpShown.value = true)}>
        <Icon name="help" />
        Keyboard
      </button>
      {person && (
        <div class="person">
          <Icon name="user" />
          <p>
            <strong>{person.name}</strong>
            <span class="muted">{person.read_only ? "read only" : person.role}</span>
          </p>
          {person.can_log_out && (
            <button type="button" class="small" onClick={() => void signOut().catch(tellError)}>
              Sign out
            </button>
          )}
        </div>
      )}
      {person && (
        <p class="muted store" title={person.store}>
          Onward {person.version}
          {person.namespace && ` · ${person.namespace}`}
        </p>
      )}
    </div>
  );
}

/** A banner while the store or the server is away: the last picture stays, and its age is told. */
function Trouble() {
  const error = pulse.error.value;
  if (!error || !isAway(error)) return null;
  const taken = pulse.at.value;
  return (
    <div class="notice notice-fail trouble" role="alert">
      <p>
        <strong>{error.status === 0 ? "The dashboard cannot be reached." : "The store does not answer."}</strong>{" "}
        <Told text={ended(error.message)} begins />
      </p>
      {error.fix && (
        <p>
          <Told text={ended(error.fix)} begins />
        </p>
      )}
      <p class="small-text">{taken > 0 ? <LastPicture taken={taken} /> : "There is no earlier picture."}</p>
    </div>
  );
}

/** A sentence of the server with its full stop. */
function ended(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function LastPicture({ taken }: { taken: number }) {
  void now.value; // look at the clock every second
  return <>What you see is {format.duration(Math.max(1, Math.round((Date.now() - taken) / 1000)))} old.</>;
}

/** A page: its heading, its buttons, whether it is live, and its content. */
export function Page({
  title,
  kind,
  from,
  aside,
  children,
}: {
  title: string;
  kind?: string; // above the title: the list that the page belongs to
  from?: string; // the address of that list
  aside?: ComponentChildren;
  children: ComponentChildren;
}) {
  useEffect(() => {
    document.title = `${title} · ${session.value?.title ?? "Onward"}`;
  }, [title]);
  return (
    <>
      <div class="page-head">
        <div class="page-title">
          {kind && (
            <p class="kind">
              {from ? (
                <Link to={from}>
                  <Icon name="back" />
                  {kind}
                </Link>
              ) : (
                kind
              )}
            </p>
          )}
          <h1 tabIndex={-1}>{title}</h1>
        </div>
        <div class="page-aside">
          {aside}
          <Live />
        </div>
      </div>
      {children}
    </>
  );
}

function Live() {
  const state = paused.value ? "Paused" : isAway(pulse.error.value) ? "Waiting" : "Live";
  return (
    <button
      type="button"
      class={`live live-${state.toLowerCase()}`}
      aria-pressed={paused.value}
      aria-label={paused.value ? "Go on with updates" : "Pause updates"}
      title={paused.value ? "Go on with updates (p)" : "Pause updates (p)"}
      onClick={togglePause}
    >
      <i />
      <span>{state}</span>
    </button>
  );
}
