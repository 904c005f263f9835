// The keyboard: single letters, which can be switched off, and the dialog that lists them.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { paused, togglePause } from "./live";
import { Dialog } from "./parts/dialog";
import { tell } from "./parts/toasts";
import { go } from "./router";
import { letterKeys } from "./settings";

const PAGES: Record<string, string> = { o: "", q: "queues", j: "jobs", d: "dead", w: "workers", h: "health" };
const SECONDS_AFTER_G = 1.5;

type Keys = Record<string, () => void>;
const ofPages: Keys[] = [];
export const helpShown = signal(false);
let awaitsPage = 0; // until when a letter after `g` chooses a page

/** What letters do while a component is on the screen. */
export function useKeys(keys: Keys): void {
  const current = useRef(keys);
  current.current = keys;
  // Before the browser paints: what a person sees, a key can be pressed for.
  useLayoutEffect(() => {
    const entry: Keys = {};
    for (const key of Object.keys(keys)) entry[key] = () => current.current[key]?.();
    ofPages.push(entry);
    return () => void ofPages.splice(ofPages.indexOf(entry), 1);
  }, [Object.keys(keys).join()]);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
}

function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target instanceof HTMLElement && isTyping(event.target)) event.target.blur();
  if (letterKeys.value === "off" || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (Date.now() < awaitsPage && event.key in PAGES) {
    awaitsPage = 0;
    event.preventDefault();
    go(PAGES[event.key]!);
    return;
  }
  awaitsPage = 0;
  const action = actionOf(event.key);
  if (!action) return;
  event.preventDefault();
  action();
}

function actionOf(key: string): (() => void) | undefined {
  for (const keys of [...ofPages].reverse()) if (keys[key]) return keys[key];
  return GENERAL[key];
}

const GENERAL: Keys = {
  g: () => (awaitsPage = Date.now() + SECONDS_AFTER_G * 1000),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  x: selectRow,
  "/": () => {
    const filter = document.querySelector<HTMLInputElement>("input[type=search]");
    if (filter) filter.focus();
    else go("jobs");
  },
  p: () => {
    togglePause();
    tell(paused.value ? "Updates are paused. Press p to go on." : "Updates go on.");
  },
  "?": () => (helpShown.value = true),
};

/** Focus the next or the previous row of the lists on the page.  Enter then opens it: the focus is on its link. */
function moveRow(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-row]")];
  const at = rows.findIndex((row) => row === document.activeElement || row.closest("tr")?.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1);
  rows[next]?.focus();
  rows[next]?.scrollIntoView({ block: "nearest" });
}

function selectRow(): void {
  document.activeElement?.closest("tr")?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click();
}

/** The id of the job in whose row the focus is. */
export function focusedRow(): string | undefined {
  return document.activeElement?.closest("tr")?.querySelector<HTMLElement>("[data-row]")?.dataset.row;
}

export function startKeys(): void {
  document.addEventListener("keydown", pressed);
}

const HELP: [string, string][] = [
  ["/", "go to the filter"],
  ["g then o", "overview"],
  ["g then q", "queues"],
  ["g then j", "jobs"],
  ["g then d", "dead letters"],
  ["g then w", "workers"],
  ["g then h", "health"],
  ["j, k", "next row, previous row"],
  ["Enter", "open the row"],
  ["x", "select the row"],
  ["r", "retry, or replay, the job or the selection"],
  ["c", "cancel the job or the selection"],
  ["p", "pause or go on with updates"],
  ["?", "this list"],
  ["Esc", "close a dialog, leave a field"],
];

export function KeyHelp() {
  if (!helpShown.value) return null;
  return (
    <Dialog title="Keyboard" onClose={() => (helpShown.value = false)}>
      <dl class="key-list">
        {HELP.map(([keys, does]) => (
          <div key={keys}>
            <dt>
              {keys.split(/( then |, )/).map((part) => (/then|,/.test(part) ? part : <kbd key={part}>{part}</kbd>))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked={letterKeys.value === "on"}
          onChange={(event) => (letterKeys.value = event.currentTarget.checked ? "on" : "off")}
        />
        Single-letter keys are on
      </label>
    </Dialog>
  );
}
