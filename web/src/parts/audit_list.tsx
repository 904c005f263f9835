// What people did by hand, as a short list and as a table.
import { Link } from "../router";
import type { AuditView } from "../types";
import { Age, None } from "./basics";
import { Table } from "./table";

/** A short list.  ``here``: all entries are about the thing that the page shows, so each says only what was done. */
export function AuditList({ entries, empty, here = false }: { entries: AuditView[]; empty: string; here?: boolean }) {
  if (entries.length === 0) return <p class="muted">{empty}</p>;
  return (
    <ul class="audit-list">
      {entries.map((entry, index) => (
        <li key={entry.at + index}>
          <p>
            <strong>{entry.who}</strong> <What entry={entry} here={here} />
            {entry.trust === "altered" && <span class="label level-fail">Altered</span>}
          </p>
          <Age at={entry.at} class="muted small-text" />
        </li>
      ))}
    </ul>
  );
}

function What({ entry, here }: { entry: AuditView; here: boolean }) {
  if (here) return <>{entry.detail ? `${entry.act}: ${entry.detail}` : entry.act}</>;
  return entry.page ? <Link to={entry.page}>{entry.text}</Link> : <>{entry.text}</>;
}

export function AuditTable({ entries }: { entries: AuditView[] }) {
  return (
    <Table
      label="Audit trail"
      rows={entries}
      rowKey={(entry) => `${entry.at} ${entry.job_id} ${entry.act} ${entry.ref}`}
      columns={[
        { name: "When", cell: (entry) => <Age at={entry.at} /> },
        { name: "Who", cell: (entry) => <span class="cut">{entry.who}</span> },
        { name: "Act", cell: (entry) => <code>{entry.act}</code> },
        {
          name: "On what",
          wide: true,
          cell: (entry) => {
            const what = entry.job_id || entry.ref;
            if (!what) return <None said="nothing in particular" />;
            return entry.page ? (
              <Link to={entry.page} data-row={what} class="cut">
                {what}
              </Link>
            ) : (
              <span class="cut">{what}</span>
            );
          },
        },
        { name: "Reason", wide: true, cell: (entry) => entry.detail || <None said="no reason given" /> },
        { name: "Signature", cell: (entry) => <Trust trust={entry.trust} /> },
      ]}
    />
  );
}

function Trust({ trust }: { trust: string }) {
  if (trust === "altered") return <span class="label level-fail">Altered</span>;
  if (trust === "verified") return <span class="label level-ok">Verified</span>;
  return <span class="muted">{trust}</span>;
}
