// A choice among a few: links that look like tabs, so that each has an address, and buttons for a choice within a page.
import { Link } from "../router";
import type { ComponentChildren } from "preact";

export interface Tab {
  name: ComponentChildren;
  to: string;
  current: boolean;
  key: string;
}

export function LinkTabs({ label, tabs }: { label: string; tabs: Tab[] }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <Link key={tab.key} to={tab.to} aria-current={tab.current ? "page" : undefined}>
          {tab.name}
        </Link>
      ))}
    </nav>
  );
}

export function Choice<T extends string>({
  label,
  options,
  value,
  onChoose,
}: {
  label: string;
  options: readonly (readonly [T, string])[];
  value: T;
  onChoose: (value: T) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([option, name]) => (
        <button key={option} type="button" aria-pressed={option === value} onClick={() => onChoose(option)}>
          {name}
        </button>
      ))}
    </div>
  );
}
