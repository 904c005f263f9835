// What a person chose in this browser: colours, time zone, single-letter keys.  Kept in localStorage.
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
export type Zone = "local" | "utc";

function stored<T extends string>(name: string, allowed: readonly T[], otherwise: T): T {
  try {
    const found = localStorage.getItem(`onward.${name}`);
    return allowed.find((each) => each === found) ?? otherwise;
  } catch {
    return otherwise; // storage is switched off: choices last as long as the page
  }
}

function keep(name: string, value: string): void {
  try {
    localStorage.setItem(`onward.${name}`, value);
  } catch {
    // as above
  }
}

export const theme = signal<Theme>(stored("theme", ["system", "light", "dark"], "system"));
export const zone = signal<Zone>(stored("zone", ["local", "utc"], "local"));
export const letterKeys = signal<"on" | "off">(stored("keys", ["on", "off"], "on"));

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  keep("theme", theme.value);
});
effect(() => keep("zone", zone.value));
effect(() => keep("keys", letterKeys.value));
