// Addresses and pages.  A page's address is relative to <base href>, so the dashboard works below any prefix.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";

export interface Location {
  path: string; // below the base, without a slash at either end: "jobs/01F…"
  parts: string[]; // the same, cut and decoded
  query: URLSearchParams;
}

function read(): Location {
  const base = new URL(document.baseURI).pathname;
  const full = window.location.pathname;
  const path = (full.startsWith(base) ? full.slice(base.length) : "").replace(/\/+$/, "");
  return {
    path,
    parts: path === "" ? [] : path.split("/").map(decoded),
    query: new URLSearchParams(window.location.search),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a lone percent sign
  }
}

export const location = signal<Location>(read());

/** Read the address again: after it was changed outside of `go`. */
export function readAddress(): void {
  location.value = read();
}

window.addEventListener("popstate", readAddress);

/** Go to a page.  The new page starts at its top, with the focus on its heading. */
export function go(href: string, { replace = false } = {}): void {
  const url = new URL(href, document.baseURI);
  const samePage = url.pathname === window.location.pathname;
  window.history[replace ? "replaceState" : "pushState"](null, "", url);
  readAddress();
  if (samePage) return;
  window.scrollTo(0, 0);
  requestAnimationFrame(() => document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true }));
}

/** Change parts of the query of this page, without a new entry in the history. */
export function setQuery(changes: Record<string, string | null>): void {
  const next = new URLSearchParams(location.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  go(location.value.path + (text ? `?${text}` : ""), { replace: true });
}

/** The address of a page: parts are encoded. */
export function address(...parts: string[]): string {
  return parts.map(encodeURIComponent).join("/");
}

interface LinkProps {
  to: string;
  children?: ComponentChildren;
  class?: string;
  "aria-label"?: string;
  "aria-current"?: "page";
  "data-row"?: string; // the row of a list that j and k move to
}

/** A link to another page of the dashboard. */
export function Link({ to, children, ...rest }: LinkProps) {
  const url = new URL(to, document.baseURI);
  return (
    <a {...rest} href={url.pathname + url.search} onClick={(event) => followed(event, to)}>
      {children}
    </a>
  );
}

function followed(event: MouseEvent, to: string): void {
  // With a modifier the browser opens a new tab: leave that to it.
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(to);
}
