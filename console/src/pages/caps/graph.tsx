// Members as columns of their roles, and lines for their links.
import { count, Fragment, h, Mark, number } from "../../core";
import type { Group, Member } from "./group";

// Size of a node, and the room between nodes and between columns, in px.
const wide = 148, high = 30, apart = 10, gap = 60, top = 30, left = 16;
const mostRows = 12, mostColumns = 8;

export function memberLink(skill: string) {
  const params = new URLSearchParams(location.search);
  skill ? params.set("member", skill) : params.delete("member");
  return location.pathname + (params.size ? `?${params}` : "");
}

interface Column {
  role: string;
  shown: Member[];
  more: number;
}

/** Columns by role, in the order in which roles came. Of many members those
 * with links are drawn. */
function columnsOf(g: Group): Column[] {
  const linked = new Set(g.links.flatMap((l) => [l.source_skill_id, l.target_skill_id]));
  const roles = [...new Set(g.members.map((m) => m.role))];
  return roles.slice(0, mostColumns).map((role, i) => {
    const all = g.members.filter((m) => m.role === role || (i === mostColumns - 1 && roles.indexOf(m.role) >= i));
    const first = all.length > mostRows ? [...all].sort((a, b) => Number(linked.has(b.skill_id)) - Number(linked.has(a.skill_id))) : all;
    return { role: roles.length > mostColumns && i === mostColumns - 1 ? "other roles" : role, shown: first.slice(0, mostRows), more: all.length - Math.min(all.length, mostRows) };
  });
}

interface Place {
  x: number;
  y: number;
}

/** A line from one node to another: straight across to the next column, around
 * in the same one, and between the rows past columns that are in the way. */
function lineOf(a: Place, b: Place): string {
  const ya = a.y + high / 2, yb = b.y + high / 2;
  if (a.x === b.x) {
    const out = a.x + wide, bow = out + Math.min(gap - 14, 22 + Math.abs(yb - ya) / 8);
    return `M${out + 2} ${ya}C${bow} ${ya} ${bow} ${yb} ${out + 2} ${yb}`;
  }
  const from = a.x + wide + 2, to = b.x - 2, mid = (from + to) / 2;
  if (b.x - a.x === wide + gap) return `M${from} ${ya}C${mid} ${ya} ${mid} ${yb} ${to} ${yb}`;
  const lane = ya + (yb < ya ? -1 : 1) * ((high + apart) / 2), bend = gap / 2;
  return `M${from} ${ya}C${from + bend} ${ya} ${from + bend / 2} ${lane} ${from + gap} ${lane}H${to - gap}C${to - bend / 2} ${lane} ${to - bend} ${yb} ${to} ${yb}`;
}

export function Graph({ g, chosen }: { g: Group; chosen?: string }) {
  const columns = columnsOf(g);
  const at = new Map<string, Place>();
  columns.forEach((c, x) => c.shown.forEach((m, y) => at.set(m.skill_id, { x: left + x * (wide + gap), y: top + y * (high + apart) })));
  const rows = Math.max(...columns.map((c) => c.shown.length + (c.more ? 1 : 0)));
  const last = new Set(columns.at(-1)!.shown.map((m) => m.skill_id));
  const bow = g.links.some((l) => last.has(l.source_skill_id) && last.has(l.target_skill_id)) ? 30 : 0; // room for lines within the last column
  const width = left * 2 + columns.length * (wide + gap) - gap + bow, height = top + rows * (high + apart) + 6;
  const key = (a: string, b: string) => a + "\n" + b;
  const there = new Set(g.links.map((l) => key(l.source_skill_id, l.target_skill_id)));
  const drawn = g.links.filter((l) => at.has(l.source_skill_id) && at.has(l.target_skill_id));
  // One line stands for both directions.
  const lines = drawn.filter((l) => !there.has(key(l.target_skill_id, l.source_skill_id)) || l.source_skill_id < l.target_skill_id);
  const kinds = [...new Set(g.links.map((l) => l.link_type))];
  return (
    <>
      <div class="nodes" role="group" aria-label={`${count(g.members.length, "member")} by role, joined by ${count(g.links.length, "link")}`} tabIndex={0}>
        <div style={{ width: `${width}px`, height: `${height}px` }}>
          <svg width={width} height={height} aria-hidden="true">
            <defs>
              <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
                <path d="M0 .5 8 4 0 7.500z" />
              </marker>
            </defs>
            {lines.map((l) => {
              const from = at.get(l.source_skill_id)!, to = at.get(l.target_skill_id)!;
              const both = there.has(key(l.target_skill_id, l.source_skill_id)), back = from.x > to.x; // drawn from left to right
              return (
                <path
                  class={chosen && [l.source_skill_id, l.target_skill_id].includes(chosen) ? "mine" : ""}
                  d={back ? lineOf(to, from) : lineOf(from, to)}
                  marker-end={both || !back ? "url(#tip)" : undefined}
                  marker-start={both || back ? "url(#tip)" : undefined}
                />
              );
            })}
          </svg>
          {columns.map((c, x) => [
            <span class="role small dim cut" title={c.role} style={{ left: `${left + x * (wide + gap)}px`, width: `${wide}px` }}>{c.role}</span>,
            ...c.shown.map((m) => (
              <a
                key={m.skill_id}
                class={m.status === "online" ? "node" : "node off"}
                href={memberLink(m.skill_id)}
                title={`${m.skill_id}, ${m.role}, ${m.status}`}
                aria-current={m.skill_id === chosen ? "true" : undefined}
                style={{ left: `${at.get(m.skill_id)!.x}px`, top: `${at.get(m.skill_id)!.y}px`, width: `${wide}px` }}
              >
                <Mark is={m.status === "online" ? "ok" : "away"} />
                <span class="cut">{m.skill_id}</span>
                <span class="vh">, {m.role}, {m.status}</span>
              </a>
            )),
            c.more > 0 && <span class="role small dim" style={{ left: `${left + x * (wide + gap)}px`, top: `${top + mostRows * (high + apart)}px` }}>and {number(c.more)} more</span>,
          ])}
        </div>
      </div>
      {g.links.length > 0 && (
        <p class="small dim caption">
          {kinds.length === 1 ? `All links: ${kinds[0]}. ` : `Kinds of links: ${kinds.slice(0, 5).join(", ")}${kinds.length > 5 ? "…" : ""}. `}
          {drawn.length < g.links.length && `${number(g.links.length - drawn.length)} more are not drawn. `}
          A line with two tips leads both ways.
        </p>
      )}
    </>
  );
}
