// The field for a filter.  The server reads it; a mistake is shown with the column at which it stands.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { ApiError } from "../api";
import { Told } from "./basics";
import { Icon } from "./icons";

const WORDS: [example: string, meaning: string][] = [
  ["state:dead", "a state, or several: state:scheduled,retryable"],
  ["queue:mail", "a queue; * stands for any text: queue:tenant.*"],
  ["job:send_*", "a job by its name"],
  ["group:3fa9", "a group of dead jobs, or the beginning of its name"],
  ["since:2h", "enqueued since then"],
  ["until:10m", "enqueued until then"],
  ["ended-since:1h", "ended since then"],
  ["by:host-7", "the host or session that runs it, or ran it last"],
  ["error:Timeout", "a part of its last error"],
  ["arg.user_id:42", "an argument"],
  ["text", "anything else is looked for in all that is shown of a job"],
];

export function FilterBar({ filter, error, onFilter }: { filter: string; error?: ApiError; onFilter: (filter: string) => void }) {
  const typed = useSignal(filter);
  const help = useSignal(false);
  useEffect(() => void (typed.value = filter), [filter]);
  const column = typeof error?.body.column === "number" ? error.body.column : undefined;
  return (
    <form
      class="filter"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        onFilter(typed.value.trim());
      }}
    >
      <div class="filter-row">
        <label class="filter-field">
          <Icon name="search" />
          <span class="unseen">Filter</span>
          <input
            type="search"
            value={typed.value}
            placeholder="state:dead queue:mail since:2h error:Timeout"
            spellcheck={false}
            autoCapitalize="off"
            autoComplete="off"
            aria-invalid={error ? "true" : undefined}
            aria-describedby={error ? "filter-error" : undefined}
            onInput={(event) => (typed.value = event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Search
        </button>
        <button type="button" aria-expanded={help.value} aria-controls="filter-words" onClick={() => (help.value = !help.value)}>
          Words
        </button>
      </div>
      {error && (
        <div id="filter-error" class="notice notice-fail" role="alert">
          {column !== undefined && (
            <pre class="filter-column" aria-hidden="true">
              {filter}
              {"\n" + " ".repeat(Math.max(0, column - 1)) + "^"}
            </pre>
          )}
          <p>
            <Told text={error.message} begins /> <Told text={error.fix} begins />
          </p>
        </div>
      )}
      <div id="filter-words" hidden={!help.value} class="filter-words card">
        <ul>
          {WORDS.map(([example, meaning]) => (
            <li key={example}>
              <button type="button" class="small" aria-label={`Add ${example} to the filter`} onClick={() => (typed.value = `${typed.value.trim()} ${example}`.trim())}>
                <code>{example}</code>
              </button>
              <span>{meaning}</span>
            </li>
          ))}
        </ul>
      </div>
    </form>
  );
}
