// A number that was not counted beyond a limit: "10,000+".
import * as format from "../format";
import type { Counted as CountedNumber } from "../types";

export function Counted({ of }: { of: CountedNumber }) {
  return <span class={of.count === 0 ? "zero" : ""}>{format.count(of.count, of.or_more)}</span>;
}
