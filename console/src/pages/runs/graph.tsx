// A workflow as a graph: what is done, where it is, what may come.
import { Fragment, h, type Commands } from "../../core";

type Status = Commands["llm.run.status"]["result"];
export type Drawn = NonNullable<Status["graph"]>;

const width = 132, height = 48, across = 32, down = 22;

/** Column and row of each step: as far from the entry as the longest way leads
 * that goes nowhere twice. */
export function lay(g: Drawn): Map<string, { x: number; y: number }> {
  const next = new Map(g.nodes.map((n) => [n.id, g.edges.filter((e) => e.from === n.id).map((e) => e.to)]));
  const order: string[] = [], state = new Map<string, number>(), back = new Set<string>();
  const visit = (from: string) => {
    const open: [string, number][] = [[from, 0]];
    state.set(from, 1);
    while (open.length) {
      const top = open[open.length - 1];
      const to = (next.get(top[0]) ?? [])[top[1]++];
      if (to === undefined) {
        state.set(top[0], 2);
        order.unshift(top[0]);
        open.pop();
      } else if (state.get(to) === 1) back.add(`${top[0]} ${to}`);
      else if (!state.get(to) && next.has(to)) {
        state.set(to, 1);
        open.push([to, 0]);
      }
    }
  };
  for (const id of [g.entry_node_id, ...g.nodes.map((n) => n.id)]) if (next.has(id) && !state.get(id)) visit(id);
  const column = new Map<string, number>();
  for (const id of order)
    for (const to of next.get(id) ?? []) if (!back.has(`${id} ${to}`)) column.set(to, Math.max(column.get(to) ?? 0, (column.get(id) ?? 0) + 1));
  const rows = new Map<number, number>(), at = new Map<string, { x: number; y: number }>();
  for (const id of order) {
    const c = column.get(id) ?? 0, r = rows.get(c) ?? 0;
    rows.set(c, r + 1);
    at.set(id, { x: c * (width + across), y: r * (height + down) });
  }
  return at;
}

const cut = (text: string, most: number) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

export function Graph({ of, r }: { of: Drawn; r: Status }) {
  const at = lay(of);
  const done = new Set(r.steps_completed ?? []);
  const here = r.current_node_id;
  const at_rest = r.phase === "Completed";
  const kind = (id: string) => (done.has(id) ? "done" : id === here && !at_rest ? "here" : "ahead");
  const taken = new Set((r.decision_log ?? []).map((d) => `${d.from} ${d.to}`));
  const right = Math.max(...[...at.values()].map((p) => p.x)) + width, bottom = Math.max(...[...at.values()].map((p) => p.y)) + height;
  const title = (id: string) => of.nodes.find((n) => n.id === id)?.title ?? id;
  // The words of a decision stand where it leads.
  const way = (id: string) => {
    const e = of.edges.find((e) => e.to === id && e.label && of.edges.filter((o) => o.from === e.from).length > 1);
    return e && `if ${e.label}`;
  };
  const words = of.nodes.map((n) => `${n.title ?? n.id}: ${{ done: "done", here: "is here", ahead: "not yet" }[kind(n.id)]}`).join(", ");
  return (
    <div class="graph-box" tabIndex={0} role="group" aria-label="The steps of the workflow">
      <svg class="graph" viewBox={`-4 -18 ${right + 8} ${bottom + 40}`} style={{ width: `${right + 8}px`, minWidth: `${0.78 * right}px` }} role="img" aria-label={words}>
        {of.edges.map((e) => {
          const a = at.get(e.from), b = at.get(e.to);
          if (!a || !b) return null;
          const went = done.has(e.from) && (taken.has(`${e.from} ${e.to}`) || done.has(e.to) || e.to === here);
          const ahead = b.x > a.x;
          const x1 = ahead ? a.x + width : a.x + width / 2, y1 = ahead ? a.y + height / 2 : a.y + height;
          const x2 = ahead ? b.x - 7 : b.x + width / 2, y2 = ahead ? b.y + height / 2 : b.y + height + 7;
          const line = ahead
            ? y1 === y2 && b.x - a.x > width + across
              ? `M${x1} ${y1}h${across / 3}V${y1 - height / 2 - 10}H${x2 - across / 3}V${y2}H${x2}` // past the steps between
              : `M${x1} ${y1}H${x2 - across / 2}V${y2}H${x2}`
            : `M${x1} ${y1}V${bottom + 14}H${x2}V${y2}`;
          return (
            <>
              <path class={went ? "e done" : "e"} d={line} />
              <path class={went ? "tip done" : "tip"} d={ahead ? `M${x2 + 6} ${y2}l-7-4v8z` : `M${x2} ${y2 - 6}l-4 7h8z`} />
            </>
          );
        })}
        {of.nodes.map((n) => {
          const p = at.get(n.id)!;
          const is = kind(n.id);
          return (
            <g>
              <title>{[title(n.id), n.description].filter(Boolean).join(": ")}</title>
              <rect class={`n ${is}`} x={p.x} y={p.y} width={width} height={height} rx="3" />
              <g transform={`translate(${p.x + 9} ${p.y + 9})`} class={is === "done" ? "ok" : is === "here" ? "waiting" : "muted"}>
                {is === "done" ? (
                  <>
                    <circle cx="6" cy="6" r="6" fill="currentColor" />
                    <path d="M3.200 6.200 5.200 8.200 8.900 4.200" fill="none" stroke="var(--panel)" stroke-width="1.7" />
                  </>
                ) : (
                  <>
                    <circle cx="6" cy="6" r="5" fill="none" stroke="currentColor" stroke-width="1.6" />
                    {is === "here" && <path d="M6 1a5 5 0 0 1 0 10z" fill="currentColor" />}
                  </>
                )}
              </g>
              <text x={p.x + 28} y={p.y + 20}>
                {cut(title(n.id), 13)}
              </text>
              <text class="sub" x={p.x + 28} y={p.y + 37}>
                {cut(way(n.id) ?? (n.type === "step" ? n.id : n.type), 15)}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}
