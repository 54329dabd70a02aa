// How things are written: times with seconds, durations, numbers with thin
// spaces, states as the API has them.

const two = (n: number) => String(n).padStart(2, "0");
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** Milliseconds of what the API gives as a time. */
export const ms = (t: number | string | undefined) => (typeof t === "string" ? Date.parse(t) : (t ?? 0));

/** 02:14:09, or 14 Nov 02:14 if that is not today. */
export function time(t: number | string | undefined, seconds = true): string {
  const at = ms(t);
  if (!at) return "–";
  const d = new Date(at), today = new Date();
  const clock = `${two(d.getHours())}:${two(d.getMinutes())}${seconds ? ":" + two(d.getSeconds()) : ""}`;
  if (d.toDateString() === today.toDateString()) return clock;
  return `${day(at)} ${clock}`;
}

/** 14 Nov, with the year if it is not this one. */
export function day(t: number | string | undefined): string {
  const at = ms(t);
  if (!at) return "–";
  const d = new Date(at);
  const year = d.getFullYear() === new Date().getFullYear() ? "" : " " + d.getFullYear();
  return `${d.getDate()} ${months[d.getMonth()]}${year}`;
}

/** The time in UTC, for hovering. */
export const utc = (t: number | string | undefined) => (ms(t) ? new Date(ms(t)).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC") : "");

/** 41 min, 6 h, 3 d, 12 s. */
export function duration(milliseconds: number): string {
  const s = Math.max(0, milliseconds) / 1000;
  if (s < 1) return `${Math.round(milliseconds)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 90 * 60) return `${Math.round(s / 60)} min`;
  if (s < 36 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

/** 1 842, 0.4. */
export function number(n: number): string {
  if (!Number.isFinite(n)) return "–";
  const rounded = Math.abs(n) < 10 && !Number.isInteger(n) ? n.toFixed(1) : String(Math.round(n));
  return rounded.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** 1.2 MB. */
export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) (n /= 1000), i++;
  return `${i && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

/** "1 agent", "3 agents". */
export const count = (n: number, one: string, many = one + "s") => `${number(n)} ${n === 1 ? one : many}`;

/** timed_out as "timed out". */
export const plain = (state: string) => state.replaceAll("_", " ");
