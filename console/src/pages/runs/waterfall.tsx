// When a run asked its model, ran tools and waited for people.
import { duration, Fragment, h, link, Mark, number, query, shapeOf, time, type Commands, type Shape } from "../../core";
import { money, type Run } from "./run";

export type Span = Commands["llm.run.trace"]["result"]["spans"][number];
export type Approval = Commands["approval.list"]["result"]["approvals"][number];
export type Entry = Commands["audit.query"]["result"]["entries"][number];

/** A line of the waterfall. */
export interface Line {
  id: string;
  depth: number;
  shape: Shape;
  name: string;
  about?: string;
  at: number;
  to: number;
  bar: string; // class
  tokens?: number;
  cost?: number;
  audit?: Entry;
  took?: number;
  span?: Span;
  approval?: Approval;
}

const shapes: Record<Span["state"], Shape> = { running: "acting", ok: "ok", failed: "failed", unknown: "warning" };

/** The lines of a run: it, its turns, their calls, and who was asked about them. */
export function lines(r: Run, spans: Span[], approvals: Approval[], entries: Entry[], now: number): Line[] {
  const left = [...approvals].sort((a, b) => a.asked_at - b.asked_at);
  const end = (s: Span) => (s.state === "running" ? now : s.at + s.took_ms);
  const list: Line[] = [];
  const began = entries.find((e) => e.event === "llm.run.start");
  for (const s of spans) {
    const depth = s.kind === "model" ? 1 : 2;
    const about = s.kind === "model" ? [s.name ?? "the model is asked", s.provider && `at ${s.provider}`].filter(Boolean).join(" ") : s.about === "{}" ? "" : s.about;
    const audited = s.call_id ? entries.find((e) => e.event === "llm.run.call" && e.details?.turn === s.parent && e.details?.call_id === s.call_id) : undefined;
    const asked = s.kind === "tool" ? left.findIndex((a) => a.tool === s.name && a.asked_at <= end(s) + 1000) : -1; // a call that waited begins when that is decided
    const approval = asked >= 0 ? left.splice(asked, 1)[0] : undefined;
    const waits = approval?.state === "pending";
    list.push({
      id: s.id, depth, shape: waits ? "waiting" : shapes[s.state], name: s.kind === "model" ? s.id : (s.name ?? ""), about, at: s.at, to: end(s),
      bar: s.kind === "model" ? "ink" : waits ? "waiting" : s.state === "failed" ? "failed" : "acting", tokens: s.kind === "model" ? (s.input_tokens ?? 0) + (s.output_tokens ?? 0) : undefined, cost: s.kind === "model" ? (s.cost ?? 0) : undefined,
      audit: audited, took: end(s) - s.at, span: s, approval,
    });
    if (approval) list.push(...asking(s, approval, entries, now));
  }
  const last = Math.max(r.changed_at, ...list.map((l) => l.to));
  const to = r.phase === "Running" ? now : last;
  return [{ id: "run", depth: 0, shape: r.phase === "Running" && approvals.some((a) => a.state === "pending") ? "waiting" : shapeOf(r.phase), name: r.workflow ? (r.package ?? r.workflow).split("@")[0] : r.mode, about: `run, for ${r.principal}`, at: r.started_at, to, bar: "quiet", tokens: r.tokens, cost: r.cost, audit: began, took: to - r.started_at }, ...list];
}

/** Who was asked, and what acts then. */
function asking(s: Span, a: Approval, entries: Entry[], now: number): Line[] {
  const decided = a.decided_at ?? 0;
  const told = entries.filter((e) => e.details?.approval_id === a.approval_id);
  const entry = told.find((e) => e.event !== "approval.requested") ?? told[0];
  const waits = a.state === "pending";
  const to = waits ? now : decided || s.at + s.took_ms;
  const who = waits ? "an operator" : (a.decided_by ?? "nobody");
  const did = { pending: `until ${time(a.expires_at, false)}`, approved: "agreed", used: "agreed", denied: "denied", expired: "decided in time", withdrawn: "decided before the call ended" }[a.state];
  const asked: Line = { id: `${s.id}.approval`, depth: 3, shape: shapeOf(a.state), name: who, about: did, at: a.asked_at, to, bar: waits ? "waiting hatch" : a.state === "denied" ? "failed" : "ok", audit: entry, took: to - a.asked_at, approval: a, span: s };
  const skill = a.tool.split(".")[0];
  if (waits) return [asked, { id: `${s.id}.acts`, depth: 3, shape: "away", name: skill, about: "acts when agreed", at: now, to: now, bar: "muted hatch", approval: a, span: s }];
  if (a.state !== "used" || !decided) return [asked];
  const invoked = entries.find((e) => e.event === "skill.invoke" && Date.parse(e.time) >= decided);
  const end = s.state === "running" ? now : s.at + s.took_ms;
  return [asked, { id: `${s.id}.acts`, depth: 3, shape: shapes[s.state], name: skill, about: s.state === "ok" ? "acted" : s.state === "running" ? "acts" : "did not do it", at: decided, to: end, bar: s.state === "failed" ? "failed" : "acting", audit: invoked, took: end - decided, span: s }];
}

export function Waterfall({ of }: { of: Line[] }) {
  const from = of[0].at, to = Math.max(...of.map((l) => l.to), from + 1);
  const place = (l: Line) => {
    const left = Math.min(99, (100 * (l.at - from)) / (to - from));
    return { left: `${left}%`, width: `${Math.max(0.5, Math.min(100 - left, (100 * (l.to - l.at)) / (to - from)))}%` };
  };
  const chosen = query("span");
  const seconds = to - from < 600_000;
  return (
    <div class="fall" role="group" aria-label="What it did, in time">
      <div class="r h" aria-hidden="true">
        <span>Step</span>
        <span class="axis">
          <span>{time(from, seconds)}</span>
          <span>{time((from + to) / 2, seconds)}</span>
          <span>{time(to, seconds)}</span>
        </span>
        <span class="num">Tokens</span>
        <span class="num">Cost</span>
        <span class="num">Took</span>
        <span class="num">Audit</span>
      </div>
      {of.map((l) => {
        const params = new URLSearchParams(location.search);
        l.id === "run" ? params.delete("span") : params.set("span", l.id);
        return (
          <a class="r" key={l.id} href={location.pathname + (params.size ? "?" + params : "")} aria-current={l.id === chosen || (l.id === "run" && !chosen) ? "true" : undefined}>
            <span class="nm" style={{ "--d": l.depth }}>
              <Mark is={l.shape} />
              <span class="cut">
                <b>{l.name}</b> <span class="dim">{l.about}</span>
              </span>
              <span class="vh">, {words[l.shape] ?? l.shape}</span>
            </span>
            <span class="lane">
              <i class={l.bar} style={place(l)} />
            </span>
            <span class="num">{l.tokens !== undefined && <>{number(l.tokens)}<span class="vh"> tokens</span></>}</span>
            <span class="num">{l.cost !== undefined ? money(l.cost) : ""}</span>
            <span class="num">{l.took !== undefined ? duration(l.took) : ""}</span>
            <span class="num">{l.audit !== undefined && <><span class="vh">entry </span>{number(l.audit.seq)}<span class="vh"> of the audit</span></>}</span>
          </a>
        );
      })}
    </div>
  );
}

const words: Partial<Record<Shape, string>> = { ok: "done", waiting: "waits", acting: "runs", failed: "failed", denied: "denied", away: "has not acted", warning: "not known", cancelled: "withdrawn", late: "expired" };

/** Address of an entry of the audit. */
export const auditLink = (e: Entry) => link("audit", { entry: e.seq, bridge: e.bridge_id });
