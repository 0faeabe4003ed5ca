// Times, in the zone of the reader or in UTC.

export type Zone = "local" | "utc";

const two = (value: number) => String(value).padStart(2, "0");

/** The date whose local fields are those of the zone. */
export function inZone(seconds: number, zone: Zone): Date {
  const date = new Date(seconds * 1000);
  return zone === "utc" ? new Date(date.getTime() + date.getTimezoneOffset() * 60_000) : date;
}

/** `14:03:05`. */
export function clock(seconds: number, zone: Zone): string {
  const date = inZone(seconds, zone);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** `2026-11-27`. */
export function day(seconds: number, zone: Zone): string {
  const date = inZone(seconds, zone);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** The same with the fraction of the second: `14:03:05.120`. */
export function exactClock(seconds: number, zone: Zone): string {
  const thousandths = Math.floor((seconds - Math.floor(seconds)) * 1000);
  return `${clock(seconds, zone)}.${String(thousandths).padStart(3, "0")}`;
}

/** A moment: the time, and the day unless that is today. */
export function moment(seconds: number, zone: Zone, now = Date.now() / 1000): string {
  const isToday = day(seconds, zone) === day(now, zone);
  return isToday ? clock(seconds, zone) : `${day(seconds, zone)} ${clock(seconds, zone)}`;
}

/** Unix seconds of a text (RFC 3339), or of a number that is that already. */
export function seconds(time: string | number): number {
  return typeof time === "number" ? time : Date.parse(time) / 1000;
}

/** What the zone is called: `Europe/Berlin, UTC+1`. */
export function zoneName(zone: Zone, at = new Date()): string {
  if (zone === "utc") return "UTC";
  const minutes = -at.getTimezoneOffset();
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const offset = `UTC${minutes < 0 ? "−" : "+"}${hours}${rest ? `:${two(rest)}` : ""}`;
  return name && name !== "UTC" ? `${name}, ${offset}` : minutes === 0 ? "UTC" : offset;
}
