// Numbers, lengths of time and instants as people read them.
import { zone } from "./settings";

const whole = new Intl.NumberFormat();
const oneDigit = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat(undefined, { notation: "compact" });
const twoDigits = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });

/** 12345 is "12,345".  A count that stopped at its limit is "10,000+". */
export function count(value: number, orMore = false): string {
  return whole.format(value) + (orMore ? "+" : "");
}

/** 1 is "1 job", 2 is "2 jobs". */
export function plural(value: number, one: string, many = `${one}s`, orMore = false): string {
  return `${count(value, orMore)} ${value === 1 && !orMore ? one : many}`;
}

/** A number that may be a fraction: "0.25", "3.4", "128". */
export function decimal(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return whole.format(Math.round(value));
  return (size >= 1 ? oneDigit : twoDigits).format(value);
}

/** How often, in a unit that keeps the number readable: "12/s", "3/min", "0". */
export function rate(perSecond: number): string {
  if (perSecond <= 0) return "0";
  if (perSecond >= 1) return `${decimal(perSecond)}/s`;
  if (perSecond * 60 >= 1) return `${decimal(perSecond * 60)}/min`;
  return `${decimal(perSecond * 3600)}/h`;
}

/** A length of time, in two units at most: "850 ms", "4.2 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function duration(seconds: number): string {
  const size = Math.max(0, seconds);
  if (size < 0.001) return size === 0 ? "0 s" : "< 1 ms";
  if (size < 1) return `${Math.round(size * 1000)} ms`;
  if (size < 10) return `${oneDigit.format(size)} s`;
  if (size < 60) return `${Math.round(size)} s`;
  const units: [string, number][] = [
    ["d", 86_400],
    ["h", 3_600],
    ["min", 60],
    ["s", 1],
  ];
  const first = units.findIndex(([, length]) => size >= length);
  const [bigName, bigLength] = units[first]!;
  const [smallName, smallLength] = units[first + 1]!;
  const big = Math.floor(size / bigLength);
  const small = Math.floor((size - big * bigLength) / smallLength);
  return small > 0 && big < 10 ? `${big} ${bigName} ${small} ${smallName}` : `${big} ${bigName}`;
}

/** An upper bound of a length of time. */
export function atMost(seconds: number): string {
  return seconds < 0.001 ? "< 1 ms" : `≤ ${duration(seconds)}`;
}

/** A number beside a line of a chart, where there is room for six digits: "1,500", "2M". */
export function axisNumber(value: number): string {
  return value >= 100_000 ? short.format(value) : decimal(value);
}

/** A length of time beside a line of a chart, in one unit: "90 s", "2.5 min". */
export function axisDuration(seconds: number): string {
  if (seconds < 60) return duration(seconds);
  const [name, length] = seconds >= 2 * 86_400 ? ["d", 86_400] : seconds >= 7_200 ? ["h", 3_600] : seconds >= 120 ? ["min", 60] : ["s", 1];
  return `${oneDigit.format(seconds / (length as number))} ${name}`;
}

/** A length of time in one unit, for narrow places: "4 s", "3 min", "2 h". */
export function shortDuration(seconds: number): string {
  return duration(seconds).split(" ").slice(0, 2).join(" ");
}

/** "3 min ago", "in 5 min 20 s", "just now". */
export function age(instant: number, now: number): string {
  const seconds = (now - instant) / 1000;
  if (Math.abs(seconds) < 1) return "just now";
  // What is to come is told in two units: "in 2 h" for 2 h 58 min would come an hour late.
  if (seconds < 0) return `in ${duration(Math.floor(-seconds))}`;
  return `${shortDuration(Math.floor(seconds))} ago`;
}

function zoneOption(): { timeZone?: string } {
  return zone.value === "utc" ? { timeZone: "UTC" } : {};
}

/** An instant to the second, with its zone. */
export function fullTime(instant: number): string {
  return new Intl.DateTimeFormat(undefined, {
    ...zoneOption(),
    dateStyle: "medium",
    timeStyle: "long",
  }).format(instant);
}

/** The time of day to the second, and the date unless it is today's. */
export function clockTime(instant: number, now: number): string {
  const day = new Intl.DateTimeFormat(undefined, { ...zoneOption(), day: "numeric", month: "short" });
  const time = new Intl.DateTimeFormat(undefined, { ...zoneOption(), timeStyle: "medium" }).format(instant);
  return day.format(instant) === day.format(now) ? time : `${day.format(instant)}, ${time}`;
}

/** A label below a chart: the time of day, or the day. */
export function axisTime(instant: number, span: number): string {
  const options: Intl.DateTimeFormatOptions =
    span > 2 * 86_400_000 ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit" };
  return new Intl.DateTimeFormat(undefined, { ...zoneOption(), ...options }).format(instant);
}

/** 2048 is "2 KiB". */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${decimal(size)} ${units[unit]}`;
}
