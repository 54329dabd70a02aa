// A table of a list command: sorted, filtered and paged on the server, 100 at a
// time; only the rows in sight are in the page.
import { h, type ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Commands, CommandName } from "../types";
import { Pace } from "../lib/live";
import { call, Failure, onEvent, onRevived, type Happening } from "../lib/bridge";
import { go, query, setQuery } from "../lib/router";
import { useKeys } from "../lib/keys";
import { number } from "../lib/words";
import { Failed, Loading, NotAllowed } from "./parts";

const page = 100, stride = 16;

export interface Rows<R> {
  rows: R[];
  total: number;
  more: boolean; // there are further pages
  loading: boolean;
  error?: Failure;
  at: number;
  next: () => void;
  reload: () => void;
}

export interface RowsOptions {
  on?: string[]; // families of events that change the list
  when?: (e: Happening) => boolean;
  of?: (result: any) => unknown[]; // makes rows of a result whose rows are in several fields
}

/** The pages of a list command that were asked for so far, kept true. field is
 * where the result has the rows. */
export function useRows<R>(command: CommandName, params: Record<string, unknown>, field: string, o: RowsOptions = {}): Rows<R> {
  const key = JSON.stringify([command, params]);
  const [state, setState] = useState<Omit<Rows<R>, "next" | "reload"> & { key: string }>({ key, rows: [], total: 0, more: false, loading: true, at: 0 });
  const act = useRef({ next: () => {}, reload: () => {} });
  useEffect(() => {
    let over = false, busy = false, stale = false;
    let rows: R[] = [], cursor = "", total = 0;
    const show = (extra: Partial<Rows<R>> = {}) => over || setState({ key, rows, total, more: !!cursor, loading: busy, at: Date.now(), ...extra });
    const ask = async (from: string, limit: number) => {
      const result: any = await call(command, { ...params, limit, ...(from ? { cursor: from } : {}) } as Commands[CommandName]["params"], { live: true });
      return { found: (o.of ? o.of(result) : (result[field] ?? [])) as R[], next: (result.next_cursor ?? "") as string, all: (result.total ?? 0) as number };
    };
    const run = async (work: () => Promise<void>) => {
      if (busy) return;
      busy = true;
      try {
        await work();
        busy = false;
        show();
      } catch (e) {
        busy = false;
        show({ error: e instanceof Failure ? e : new Failure("5000", String(e)) });
      }
      if (stale && !over) later();
      stale = false;
    };
    const next = () =>
      void run(async () => {
        const got = await ask(cursor, page);
        rows = [...rows, ...got.found];
        cursor = got.next;
        total = got.all;
      });
    const reload = () => {
      if (busy) return void (stale = true);
      void run(async () => {
        const got = await ask("", Math.min(1000, Math.max(page, rows.length)));
        rows = [...got.found];
        cursor = got.next;
        total = got.all;
      });
    };
    const pace = new Pace(2000, reload);
    const later = pace.soon;
    act.current = { next: () => cursor && next(), reload };
    setState((s) => (s.key === key ? s : { key, rows: s.rows, total: s.total, more: false, loading: true, at: s.at }));
    next();
    const stops = [onRevived(later)];
    if (o.on) stops.push(onEvent((e) => o.on!.includes(e.family) && (o.when?.(e) ?? true) && later()));
    return () => {
      over = true;
      pace.stop();
      for (const s of stops) s();
    };
  }, [key]);
  return { ...state, next: () => act.current.next(), reload: () => act.current.reload() };
}

export interface Column<R> {
  head: ComponentChildren;
  cell: (row: R) => ComponentChildren;
  sort?: string; // name of the column for the server
  num?: boolean;
  small?: "hide"; // not on a phone
}

interface TableProps<R> {
  of: Rows<R>;
  columns: Column<R>[];
  id: (row: R) => string;
  href?: (row: R) => string;
  label: string;
  words: { loading: string; failed: string; action: string; works?: string };
  empty: ComponentChildren;
  dense?: boolean;
  tall?: boolean; // as high as the window allows
  cards?: boolean; // a row is a card on a phone
  chosen?: string; // id of the row that the address names
}

/** Rows in sight, the rest as room. J and K move, Enter opens. */
export function Table<R>({ of, columns, id, href, label, words, empty, tall = true, cards, chosen: named }: TableProps<R>) {
  const box = useRef<HTMLDivElement>(null);
  // Rows as they were drawn: while one scrolls, only those that come are made.
  const kept = useMemo(() => new Map<R, { n: number; selected: boolean; line: ComponentChildren }>(), [columns]);
  const [sight, setSight] = useState({ from: 0, to: 60 });
  const [chosen, setChosen] = useState(-1);
  const height = rowHeight();
  const look = () => {
    const el = box.current;
    if (!el) return;
    const first = Math.floor(el.scrollTop / height / stride) * stride; // drawn anew only once in so many rows
    const from = Math.max(0, first - stride);
    const to = first + Math.ceil(el.clientHeight / height) + 2 * stride;
    setSight((s) => (s.from === from && s.to === to ? s : { from, to }));
    if (of.more && !of.loading && to + 30 > of.rows.length) of.next();
  };
  useEffect(look, [of.rows.length, of.more, of.loading]);
  const move = (by: number) => {
    const next = Math.min(of.rows.length - 1, Math.max(0, chosen + by));
    setChosen(next);
    const el = box.current;
    if (!el) return;
    const top = next * height;
    if (top < el.scrollTop) el.scrollTop = top;
    else if (top + 2 * height > el.scrollTop + el.clientHeight) el.scrollTop = top + 2 * height - el.clientHeight;
  };
  useKeys({ j: () => move(1), k: () => move(-1), Enter: (e) => (chosen >= 0 && href && of.rows[chosen] && !(e.target as Element).closest("a,button") ? go(href(of.rows[chosen])) : false) });
  if (of.error && of.rows.length === 0) {
    if (of.error.denied) return <NotAllowed action={words.action} title="Not yours" />;
    if (of.error.code !== "lost") return <Failed title={words.failed} error={of.error} works={words.works} retry={of.reload} />;
  }
  if (of.rows.length === 0) return of.loading ? <Loading what={words.loading} lines={6} /> : <div>{empty}</div>;
  const sorted = query("sort");
  const drawn = (row: R, n: number) => {
    const selected = n === chosen || id(row) === named;
    const before = kept.get(row);
    if (before?.n === n && before.selected === selected) return before.line;
    const line = <Line key={id(row)} row={row} n={n} selected={selected} columns={columns} href={href} />;
    kept.set(row, { n, selected, line });
    return line;
  };
  const rows = of.rows.slice(sight.from, sight.to);
  const after = Math.max(0, of.rows.length - sight.from - rows.length);
  return (
    <div>
      <div class={tall ? "rows tall" : "rows"} ref={box} onScroll={look} tabIndex={0} role="group" aria-label={label}>
        <table class={cards ? "t cards" : "t"} aria-rowcount={of.total}>
          <thead>
            <tr>
              {columns.map((c) => {
                const way = c.sort && sorted === c.sort ? "ascending" : c.sort && sorted === "-" + c.sort ? "descending" : undefined;
                return (
                  <th scope="col" class={[c.num && "num", c.small && "no-small", way && "sort " + way].filter(Boolean).join(" ")} aria-sort={way as any}>
                    {c.sort ? (
                      <button type="button" onClick={() => setQuery({ sort: way === "ascending" ? "-" + c.sort : way === "descending" ? "" : c.sort })}>
                        {c.head}
                      </button>
                    ) : (
                      c.head
                    )}
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody>
            {sight.from > 0 && <Room rows={sight.from} height={height} columns={columns.length} />}
            {rows.map((row, i) => drawn(row, sight.from + i))}
            {after > 0 && <Room rows={after} height={height} columns={columns.length} />}
          </tbody>
        </table>
      </div>
      <p class="small dim count" role="status">
        {tally(of)}
        {of.loading && " · asking"}
        {of.error && of.error.code !== "lost" && ` · as of ${new Date(of.at).toLocaleTimeString()}: ${of.error.message}`}
      </p>
    </div>
  );
}

interface LineProps<R> {
  row: R;
  n: number;
  selected: boolean;
  columns: Column<R>[];
  href?: (row: R) => string;
}

/** One row. It is a component, so that a time that counts draws only its row. */
const Line = <R,>({ row, n, selected, columns, href }: LineProps<R>) => (
  <tr aria-rowindex={n + 2} aria-selected={selected ? "true" : undefined} onClick={(e) => href && !(e.target as Element).closest("a,button") && !getSelection()?.toString() && go(href(row))} class={href ? "opens" : undefined}>
    {columns.map((c) => (
      <td class={[c.num && "num", c.small && "no-small"].filter(Boolean).join(" ")}>{c.cell(row)}</td>
    ))}
  </tr>
);

/** How many there are; a list that nobody counts says how many were read. */
function tally<R>({ rows, total, more }: Rows<R>) {
  if (rows.length < total) return `${number(rows.length)} of ${number(total)}`;
  return more ? `the first ${number(rows.length)}` : `${number(rows.length)} in all`;
}

const Room = ({ rows, height, columns }: { rows: number; height: number; columns: number }) => (
  <tr aria-hidden="true" class="room">
    <td colSpan={columns} style={{ height: `${rows * height}px`, padding: 0 }} />
  </tr>
);

function rowHeight() {
  return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 32;
}
