// Models: who spends, what is left, who answers.
import {
  Answer, AsOf, Button, bytes, call, Code, duration, Empty, Failure, Fragment, h, Head, link, Mark, may, NotAllowed, number, offNow, Panel, Pick, plain, query, Said, setQuery, shapeOf, State, Table, Time,
  Facts, useEffect, useKeys, useLive, useRows, useShown, useState, useTitle, type Commands,
} from "../core";
import { Bars, days, series } from "./models/chart";
import { Playground } from "./models/playground";

type Row = Commands["llm.spend"]["result"]["rows"][number];
type Budget = Commands["llm.budget.list"]["result"]["budgets"][number];
export type Dimension = "principal" | "model" | "provider" | "skill" | "run";

export default function Models() {
  useTitle("Models");
  return query("tab") === "playground" ? <Playground /> : <Spending />;
}

const utcDay = (t: number) => new Date(t).toISOString().slice(0, 10);

/** The first day of what is shown. */
function since(span: string) {
  const today = Date.now();
  if (span === "7d") return utcDay(today - 6 * 86400_000);
  if (span === "21d") return utcDay(today - 20 * 86400_000);
  return utcDay(today).slice(0, 8) + "01";
}

const spans = [{ id: "7d", word: "7 d" }, { id: "21d", word: "21 d" }, { id: "", word: "month" }];
const dimensions: { id: string; word: string }[] = [{ id: "", word: "model" }, { id: "principal", word: "principal" }, { id: "provider", word: "provider" }, { id: "skill", word: "skill" }, { id: "run", word: "run" }];

/** Sums of money as people read them; small ones in full. */
const cost = (n: number) => (n === 0 ? "0.00" : n < 0.01 ? n.toFixed(6) : n < 1 ? n.toFixed(4) : n.toFixed(2).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f"));

function Spending() {
  const from = since(query("span"));
  const by = (query("by") || "model") as Dimension;
  const allowed = may("llm:spend");
  const chart = useLive(allowed ? "llm.spend" : undefined, { since: from, by: ["day", by], sort: "day", limit: 1000 }, { every: 15000 });
  const [saving, setSaving] = useState(false);
  const [error, setError] = useState<Failure>();
  const save = async () => {
    setSaving(true);
    setError(undefined);
    try {
      download(`spending-${from}.csv`, await csv(from));
    } catch (e) {
      setError(e as Failure);
    }
    setSaving(false);
  };
  const pick = (id: string) => setQuery({ by: id });
  useShown({ command: "llm.spend", params: { since: from, by: ["day", by] } }, [["1 … 5", "by"], ["C", "CSV"], ["P", "playground"]]);
  useKeys({
    ...Object.fromEntries(dimensions.map((d, i) => [String(i + 1), () => pick(d.id)])),
    c: () => document.querySelector<HTMLElement>("#csv button")?.focus(),
    p: () => (may("llm:query") ? setQuery({ tab: "playground" }, true) : false),
  });
  const sum = chart.value.data?.sum;
  const when = query("span") ? `in ${query("span") === "7d" ? 7 : 21} days` : "this month";
  return (
    <>
      <Head
        crumb="Models"
        title={sum ? (sum.cost > 0 || sum.tokens === 0 ? `${cost(sum.cost)} ${when}` : `${number(sum.tokens)} tokens ${when}`) : "Models"}
        does={
          <>
            <Pick label="Since when" name="span" of={spans} />
            {allowed && (
              <span id="csv">
                <Button not={offNow() || (saving && "It is being read")} onClick={() => void save()}>CSV</Button>
              </span>
            )}
            {may("llm:query") && <a class="btn" href={link("models", { tab: "playground" })}>Playground</a>}
          </>
        }
      >
        <AsOf />
      </Head>
      {error && <p class="note small failed" role="alert"><Mark is="failed" /><span class="grow"><Said error={error} /></span></p>}
      <div class="cols c-side">
        <div class="stack gap">
          <section class="panel key" aria-label="By day">
            <header class="wraps">
              <h2>{sum && sum.cost === 0 ? "Tokens by day" : "Cost by day"}</h2>
              <div class="more">
                <span>by</span>
                <Pick label="Told apart by" name="by" of={dimensions} />
              </div>
            </header>
            <div class="body">
              {allowed ? (
                <Answer of={chart} action="llm:spend" loading="What was spent" failed="What was spent could not be read">
                  {(d) =>
                    d.rows.length === 0 ? (
                      <Empty title="Nothing was spent" step={may("llm:query") ? <a class="btn" href={link("models", { tab: "playground" })}>Ask a model</a> : undefined}>
                        What models are asked, and what it costs, stands here by day.
                      </Empty>
                    ) : (
                      <Bars days={days(from, utcDay(Date.now()))} of={series(d.rows, by, d.sum.cost === 0 ? "tokens" : "cost")} what={d.sum.cost === 0 ? "tokens" : "cost"} cut={!!d.next_cursor} />
                    )
                  }
                </Answer>
              ) : (
                <NotAllowed action="llm:spend" title="Not yours" />
              )}
            </div>
          </section>
          {allowed && <Who from={from} by={by} whole={sum} />}
          {allowed && <Budgets />}
        </div>
        <div class="stack gap">
          <Providers sum={sum} />
        </div>
      </div>
    </>
  );
}

const text = (r: Row, by: Dimension) => ({ principal: r.principal, model: r.model, provider: r.provider || (r.repeated ? "from the cache" : ""), skill: r.skill_id, run: r.run_id })[by] ?? "";

function Who({ from, by, whole }: { from: string; by: Dimension; whole?: { cost: number; tokens: number; requests: number; repeated: number } }) {
  const told: Dimension[] = by === "principal" || by === "model" ? ["principal", "model"] : [by, "principal"];
  const rows = useRows<Row>("llm.spend", { since: from, by: told, sort: query("sort") || undefined }, "rows");
  const asked = (whole?.requests ?? 0) + (whole?.repeated ?? 0);
  useEffect(() => rows.reload(), [asked]);
  const part = (r: Row) => (whole?.cost ? r.cost / whole.cost : whole?.tokens ? r.tokens / whole.tokens : 0);
  const name = (r: Row, d: Dimension) => {
    const t = text(r, d);
    if (!t) return <span class="dim">{d === "run" ? "no run" : d === "skill" ? "no skill" : "–"}</span>;
    return d === "run" && !t.startsWith("(") ? <a class="mono" href={link("runs", t)}>{t.slice(0, 13)}</a> : t;
  };
  return (
    <Panel title="Who spent it" tight more={<span>since {from} UTC</span>}>
      <Table
        of={rows}
        id={(r) => told.map((d) => text(r, d)).join(" ")}
        label="Who spent it"
        words={{ loading: "The dearest 100", failed: "What was spent could not be read", action: "llm:spend" }}
        columns={[
          ...told.map((d) => ({ head: d.charAt(0).toUpperCase() + d.slice(1), sort: ["principal", "model", "provider"].includes(d) ? d : undefined, cell: (r: Row) => name(r, d) })),
          { head: "Requests", sort: "requests", num: true, cell: (r) => number(r.requests), small: "hide" as const },
          { head: "Tokens", sort: "tokens", num: true, cell: (r) => number(r.tokens), small: "hide" as const },
          { head: "Cost", sort: "cost", num: true, cell: (r) => cost(r.cost) },
          {
            head: "Part",
            small: "hide" as const,
            cell: (r) => (
              <span class="meter part-of" role="img" aria-label={`${Math.round(100 * part(r))} %`}>
                <i style={{ width: `${100 * part(r)}%` }} />
              </span>
            ),
          },
        ]}
        empty={<Empty title="Nobody has spent anything" />}
      />
    </Panel>
  );
}

const units: Record<string, (n: number) => string> = { tokens: (n) => `${number(n)} tokens`, cost, requests: (n) => `${number(n)} requests` };

function Budgets() {
  const budgets = useLive("llm.budget.list", {}, { every: 15000 });
  return (
    <Panel title="Budgets" tight more={<span class="no-small">when one is spent, queries get 4014</span>}>
      <Answer of={budgets} action="llm:spend" loading="Budgets" failed="The budgets could not be read">
        {(d) =>
          d.budgets.length === 0 ? (
            <Empty title="No budgets">
              Nothing bounds what is spent. <Code>budgets</Code> in the configuration of models does, by principal, key or space.
            </Empty>
          ) : (
            <>
              <table class="t">
                <thead>
                  <tr>
                    <th scope="col">Per</th>
                    <th scope="col" class="no-small">Window</th>
                    <th scope="col">Spent</th>
                    <th scope="col" class="num">Left</th>
                    <th scope="col" class="no-small">Resets</th>
                  </tr>
                </thead>
                <tbody>
                  {d.budgets.map((b) => (
                    <BudgetRow b={b} />
                  ))}
                </tbody>
              </table>
              {d.total > d.budgets.length && <p class="small dim count">{number(d.budgets.length)} of {number(d.total)}, those used up most</p>}
            </>
          )
        }
      </Answer>
    </Panel>
  );
}

function BudgetRow({ b }: { b: Budget }) {
  const near = [...b.limits].sort((x, y) => y.spent / y.limit - x.spent / x.limit)[0];
  const state = b.percent >= 100 ? "failed" : b.percent >= 80 ? "warning" : "";
  const spent = Math.round(b.percent);
  return (
    <tr>
      <td>
        {b.per === "principal" ? "" : <span class="dim">{b.per} </span>}
        {b.owner}
      </td>
      <td class="no-small">{b.window}</td>
      <td>
        <span class="line">
          <span class={`meter budget ${state}`} aria-hidden="true">
            <i style={{ width: `${Math.min(100, b.percent)}%` }} />
            <u style={{ left: "80%" }} />
          </span>
          <span class={`nowrap ${state}`}>{spent < 1 && b.percent > 0 ? "< 1" : spent} %</span>
          {state && <span class="vh">{state === "failed" ? "used up" : "nearly used up"}</span>}
        </span>
      </td>
      <td class={`num ${b.percent >= 100 ? "failed" : ""}`}>{near ? units[near.of](near.left) : "–"}{b.percent >= 100 && ", 4014"}</td>
      <td class="no-small"><Time at={b.resets_at} seconds={false} /></td>
    </tr>
  );
}

const breakers: Record<string, string> = { closed: "closed", open: "open: left alone", "half-open": "half-open: the next request will tell" };

function Providers({ sum }: { sum?: { requests: number; repeated: number } }) {
  const status = useLive(may("llm:status") ? "llm.status" : undefined, {}, { every: 5000 });
  if (!may("llm:status")) return <Panel title="Providers"><NotAllowed action="llm:status" title="Not yours" /></Panel>;
  return (
    <Answer of={status} action="llm:status" loading="Providers" failed="How the providers fare could not be read">
      {(s) => {
        const slow = s.providers.filter((p) => p.latency).sort((a, b) => b.latency!.answers - a.latency!.answers);
        return (
          <>
            <Panel title="Providers" more={<State is={s.status} shape={s.status === "available" ? "ok" : s.status === "degraded" ? "warning" : s.status === "unavailable" ? "failed" : "pending"} />}>
              {s.providers.length === 0 ? (
                <Empty title="No language model is configured">
                  <Code>aibridge serve --llm-base-url URL --llm-model NAME</Code>, or a file by <Code>--llm-file</Code>.
                </Empty>
              ) : (
                <ul class="providers">
                  {s.providers.map((p) => (
                    <li>
                      <Mark is={shapeOf(p.breaker)} tone={p.breaker === "half-open" ? "waiting" : undefined} />
                      <span class="grow">
                        <b>{p.name}</b> {breakers[p.breaker]}
                        <small>{p.models.join(", ")} · {p.wire} · {number(p.active_requests)} of {number(p.concurrency)} at once</small>
                        {(p.last_error || p.retry_after_ms) && <small class="failed">{p.last_error && plain(p.last_error)}{p.retry_after_ms ? `; tried again in ${duration(p.retry_after_ms)}` : ""}</small>}
                      </span>
                      {p.latency && <small class="nowrap">p50 {duration(p.latency.whole_p50_ms)}</small>}
                    </li>
                  ))}
                </ul>
              )}
            </Panel>
            {slow.length > 0 && (
              <Panel title="Answers, last hour">
                <Facts
                  of={slow.slice(0, 4).flatMap((p): [string, h.JSX.Element | string][] => [
                    [slow.length > 1 ? `${p.name}, first word` : "First word", `p50 ${duration(p.latency!.first_p50_ms)}, p99 ${duration(p.latency!.first_p99_ms)}`],
                    [slow.length > 1 ? `${p.name}, whole` : "Whole", `p50 ${duration(p.latency!.whole_p50_ms)}, p99 ${duration(p.latency!.whole_p99_ms)}`],
                  ])}
                />
              </Panel>
            )}
            {s.cache && (
              <Panel title="Cache">
                <Facts
                  of={[
                    ["Kept", s.cache.ttl_ms ? `for ${duration(s.cache.ttl_ms)}, ${s.cache.shared ? "shared in the space" : "for who asked"}` : "nothing"],
                    ["Answers", number(s.cache.answers)],
                    ["Size", `${bytes(s.cache.bytes)} of ${bytes(s.cache.limit_bytes)}`],
                    ["From it", sum && sum.requests + sum.repeated > 0 && `${number(Math.round((100 * sum.repeated) / (sum.requests + sum.repeated)))} % of answers`],
                  ]}
                />
              </Panel>
            )}
            <p class="small dim">Configuration {s.revision} · up for {duration(1000 * s.uptime)}</p>
          </>
        );
      }}
    </Answer>
  );
}

// CSV ------------------------------------------------------------------------

const columns = ["day", "space_id", "principal", "principal_kind", "model", "provider", "skill_id", "run_id", "requests", "repeated", "input_tokens", "cached_tokens", "output_tokens", "tokens", "cost"] as const;

/** All that was spent, told apart as far as it is kept. */
async function csv(from: string): Promise<string> {
  const lines = [columns.join(",")];
  for (let cursor: string | undefined; ; ) {
    const got = await call("llm.spend", { since: from, by: ["day", "principal", "model", "provider", "skill", "run"], sort: "day", limit: 1000, cursor });
    for (const r of got.rows) lines.push(columns.map((c) => cell(r[c])).join(","));
    if (!(cursor = got.next_cursor)) return lines.join("\r\n") + "\r\n";
  }
}

/** A value that no spreadsheet takes for a formula. */
function cell(v: string | number | undefined) {
  if (typeof v === "number") return String(v);
  const t = /^[=+\-@\t\r]/.test(v ?? "") ? "'" + v : (v ?? "");
  return /[",\r\n]/.test(t) ? `"${t.replaceAll('"', '""')}"` : t;
}

function download(name: string, of: string) {
  const url = URL.createObjectURL(new Blob([of], { type: "text/csv" }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
