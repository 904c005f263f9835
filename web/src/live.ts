// Data that stays current.  Every page asks through `useLive`; one timer asks again for all that is on the screen.
//
// A hidden tab asks nothing.  When an answer fails, the last picture stays, and `Resource.error` says what is wrong.
import { batch, computed, signal, type Signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { ApiError, ask } from "./api";

export const refreshSeconds = signal(2);
export const paused = signal(false);
export const signedOut = signal<ApiError | null>(null); // the 401 that said so
export const clockOffset = signal(0); // milliseconds that the store's clock is ahead of this browser's
const second = signal(Date.now());

/** The store's clock, to the second. */
export const now = computed(() => second.value + clockOffset.value);

export class Resource<T> {
  readonly data: Signal<T | undefined> = signal(undefined);
  readonly error: Signal<ApiError | undefined> = signal(undefined);
  readonly at: Signal<number> = signal(0); // when the picture was taken, by this browser's clock
  private etag = "";
  private asked = 0;
  private running: Promise<void> | undefined;

  constructor(
    readonly path: string,
    readonly every: number, // seconds; 0: with every refresh
  ) {}

  isDue(): boolean {
    return Date.now() - this.asked >= this.every * 1000;
  }

  refresh(): Promise<void> {
    this.running ??= this.load().finally(() => (this.running = undefined));
    return this.running;
  }

  private async load(): Promise<void> {
    this.asked = Date.now();
    try {
      const answer = await ask<T>(this.path, this.etag);
      batch(() => {
        if (answer.changed) {
          this.etag = answer.etag;
          this.data.value = answer.data;
        }
        this.at.value = Date.now();
        this.error.value = undefined;
        signedOut.value = null;
      });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 401) signedOut.value = error;
      this.error.value = error;
    }
  }
}

const onScreen = new Set<Resource<unknown>>();
const known = new Map<string, Resource<unknown>>(); // so that a page that was seen before is drawn at once
const MOST_KNOWN = 40;

function resource<T>(path: string, every: number): Resource<T> {
  const found = known.get(path) ?? new Resource<unknown>(path, every);
  known.delete(path);
  known.set(path, found);
  if (known.size > MOST_KNOWN) known.delete(known.keys().next().value!);
  return found as Resource<T>;
}

/** Data for a component, asked for again while the component is on the screen.  An empty path asks nothing. */
export function useLive<T>(path: string, every = 0): Resource<T> {
  const found = useMemo(() => (path ? resource<T>(path, every) : new Resource<T>("", every)), [path, every]);
  useEffect(() => {
    if (!path) return undefined;
    onScreen.add(found as Resource<unknown>);
    void found.refresh();
    return () => void onScreen.delete(found as Resource<unknown>);
  }, [found, path]);
  return found;
}

/** Keep a resource current on every page, or no longer. */
export function keepCurrent<T>(always: Resource<T>, wanted = true): void {
  if (wanted) onScreen.add(always as Resource<unknown>);
  else onScreen.delete(always as Resource<unknown>);
}

/** Whether the server or its store does not answer: the last picture stays, and a banner says so. */
export function isAway(error: ApiError | undefined): boolean {
  return error !== undefined && (error.status === 0 || error.status === 503);
}

/** Ask for everything on the screen, now: after an act. */
export async function refreshNow(): Promise<void> {
  await Promise.all([...onScreen].map((each) => each.refresh()));
}

/** Forget all data: another person signs in. */
export function forgetAll(): void {
  known.clear();
}

let timer: ReturnType<typeof setTimeout> | undefined;

async function round(): Promise<void> {
  clearTimeout(timer);
  if (!document.hidden && !paused.value && !signedOut.value) {
    await Promise.all([...onScreen].filter((each) => each.isDue()).map((each) => each.refresh()));
  }
  clearTimeout(timer);
  timer = setTimeout(() => void round(), refreshSeconds.value * 1000);
}

export function startPolling(): void {
  setInterval(() => {
    if (!document.hidden) second.value = Date.now();
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    second.value = Date.now();
    void round();
  });
  timer = setTimeout(() => void round(), refreshSeconds.value * 1000); // what is on the screen has been asked for
}

/** Stop or go on asking. */
export function togglePause(): void {
  paused.value = !paused.value;
  if (!paused.value) void round();
}
