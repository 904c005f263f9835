// The answer that every page needs: counts, checks, the store's clock.
import { effect } from "@preact/signals";
import { clockOffset, Resource } from "./live";
import type { PulseAnswer } from "./types";

export const pulse = new Resource<PulseAnswer>("pulse", 0);

// An answer may be up to two seconds old, so the largest difference is the best: ages would jump to and fro otherwise.
const TOO_FAR = 3000;

effect(() => {
  const data = pulse.data.value;
  if (!data) return;
  const found = Date.parse(data.at) - Date.now();
  const before = clockOffset.peek();
  if (found > before || before - found > TOO_FAR) clockOffset.value = found;
});
