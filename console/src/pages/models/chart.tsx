// What was spent by day, as bars; the words beside them say the same.
import { day, Fragment, h, number, type Commands } from "../../core";
import type { Dimension } from "../models";

type Row = Commands["llm.spend"]["result"]["rows"][number];

/** Amounts of one thing, by day. */
export interface Series {
  name: string;
  whole: number;
  by: Map<string, number>;
}

/** All days from one to another. */
export function days(from: string, to: string): string[] {
  const list: string[] = [];
  for (let t = Date.parse(from); t <= Date.parse(to); t += 86400_000) list.push(new Date(t).toISOString().slice(0, 10));
  return list;
}

const field = { principal: "principal", model: "model", provider: "provider", skill: "skill_id", run: "run_id" } as const;

/** The two largest, and all others together. */
export function series(rows: Row[], by: Dimension, what: "cost" | "tokens"): Series[] {
  const all = new Map<string, Series>();
  for (const r of rows) {
    const name = r[field[by]] ?? (by === "provider" ? "from the cache" : `no ${by}`);
    const s = all.get(name) ?? { name, whole: 0, by: new Map() };
    s.whole += r[what];
    s.by.set(r.day!, (s.by.get(r.day!) ?? 0) + r[what]);
    all.set(name, s);
  }
  const sorted = [...all.values()].filter((s) => s.whole > 0).sort((a, b) => b.whole - a.whole);
  if (sorted.length <= 3) return sorted;
  const rest: Series = { name: `${sorted.length - 2} others`, whole: 0, by: new Map() };
  for (const s of sorted.slice(2)) {
    rest.whole += s.whole;
    for (const [d, n] of s.by) rest.by.set(d, (rest.by.get(d) ?? 0) + n);
  }
  return [...sorted.slice(0, 2), rest];
}

/** A round number that is not less. */
function top(n: number) {
  const ten = 10 ** Math.floor(Math.log10(n || 1));
  return [1, 2, 5, 10].map((m) => m * ten).find((t) => t >= n) ?? n;
}

const inks = ["s1", "s2", "s3"];
const width = 780, height = 150, left = 66, right = 16;

export function Bars({ days, of, what, cut }: { days: string[]; of: Series[]; what: "cost" | "tokens"; cut: boolean }) {
  const sum = (d: string) => of.reduce((n, s) => n + (s.by.get(d) ?? 0), 0);
  const high = top(Math.max(...days.map(sum), what === "tokens" ? 10 : 1e-6));
  const word = (n: number) => (what === "tokens" ? number(n) : n >= 1 || n === 0 ? String(+n.toFixed(2)) : n.toPrecision(2).replace(/0+$/, ""));
  const step = (width - left) / days.length;
  const bar = Math.min(28, step * 0.7);
  const every = Math.ceil(days.length / 8);
  return (
    <div class="stack">
      <svg class="chart" viewBox={`0 0 ${width + right} ${height + 34}`} role="img" aria-label={`${what} by day: ${days.filter((d) => sum(d) > 0).map((d) => `${d} ${word(sum(d))}`).join(", ") || "nothing"}`}>
        {[0, 0.5, 1].map((part) => (
          <>
            <path class="g" d={`M${left} ${10 + height * (1 - part)}H${width}`} />
            <text x={left - 8} y={14 + height * (1 - part)} text-anchor="end">
              {word(high * part)}
            </text>
          </>
        ))}
        {days.map((d, i) => {
          let y = 10 + height;
          return (
            <g>
              <title>{`${d}: ${of.map((s) => `${s.name} ${word(s.by.get(d) ?? 0)}`).join(", ")}`}</title>
              {of.map((s, n) => {
                const tall = (height * (s.by.get(d) ?? 0)) / high;
                y -= tall;
                return tall > 0 && <rect class={inks[n]} x={left + i * step + (step - bar) / 2} y={y} width={bar} height={Math.max(tall - (n > 0 ? 1 : 0), 0.5)} />;
              })}
              {(days.length - 1 - i) % every === 0 && (
                <text class={i === days.length - 1 ? "last" : "x"} x={left + (i + 0.5) * step} y={height + 28} text-anchor="middle">
                  {day(d + "T12:00:00Z")}
                </text>
              )}
            </g>
          );
        })}
      </svg>
      <p class="legend">
        {of.map((s, i) => (
          <span class="line">
            <span class={`swatch ${inks[i]}`} /> {s.name} <span class="dim">{word(s.whole)}</span>
          </span>
        ))}
        {cut && <span>the first 1000 of more</span>}
      </p>
    </div>
  );
}
