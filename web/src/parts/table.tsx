// Tables.  Below 700 px each row is a card in which every value carries the name of its column.
import type { ComponentChildren } from "preact";

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
  number?: boolean; // aligned to the right, with digits of one width
  unnamed?: boolean; // the heading is for screen readers only: checkboxes, buttons
  wide?: boolean; // takes what is left of the width
}

export interface TableProps<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  rowClass?: (row: Row) => string;
  dense?: boolean; // stays a table on narrow screens: few columns of numbers
}

// The roles are written out because a table whose rows are drawn as blocks is none for screen readers otherwise.
export function Table<Row>({ label, columns, rows, rowKey, rowClass, dense = false }: TableProps<Row>) {
  return (
    <div class={dense ? "table-frame" : "table-frame cards"} role="group" aria-label={label} tabIndex={0}>
      <table role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th key={column.name} role="columnheader" scope="col" class={headClass(column)}>
                {column.unnamed ? <span class="unseen">{column.name}</span> : column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={rowKey(row)} role="row" class={rowClass?.(row)}>
              {columns.map((column) => (
                <td key={column.name} role="cell" class={headClass(column)} data-label={column.unnamed ? "" : column.name}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function headClass<Row>(column: Column<Row>): string {
  return [column.number && "number", column.wide && "wide", column.unnamed && "narrow"].filter(Boolean).join(" ");
}
