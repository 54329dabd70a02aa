// One run: where it is, whom it waits for, what it did.
import {
  Answer, Button, call, Code, Confirm, Crossing, duration, Empty, Facts, Failure, Fragment, h, Head, Json, link, Mark, may, now, number, offNow, Panel, Pick, plain, query, Said,
  session, setQuery, State, Time, useEffect, useKeys, useLive, useRef, useShown, useState, useTitle, type Commands,
} from "../../core";
import { Graph } from "./graph";
import { Said as Message, type Talked } from "./messages";
import { auditLink, lines, Waterfall, type Approval, type Entry, type Line } from "./waterfall";

export type Run = Commands["llm.run.list"]["result"]["runs"][number];
type Status = Commands["llm.run.status"]["result"];

/** An amount in the currency of the prices, which nobody names. */
export const money = (n: number) => (n && n < 0.00005 ? "< 0.0001" : n < 100 ? n.toFixed(4) : n.toFixed(2));

export const nameOf = (r: Run) => (r.mode === "run" ? (r.package ?? r.workflow ?? "workflow").split("@")[0] : r.mode === "agent" ? (r.agent ?? "agent") : "chat");

const phaseWords: Record<string, string> = { Running: "Running", WaitingUser: "Waiting for you", WaitingApproval: "Waiting for an approval", Completed: "Completed", Failed: "Failed" };

export const Phase = ({ of }: { of: Run }) => <State is={of.phase} word={phaseWords[of.phase]} />;

export function RunPage({ id }: { id: string }) {
  const mine = { on: ["task"], when: (e: { topic: string }) => e.topic.includes(id), every: 15000 };
  const run = useLive("llm.run.status", { run_id: id, graph: true }, mine);
  const trace = useLive("llm.run.trace", { run_id: id, limit: 1000 }, mine);
  useTitle(run.value.data ? `Run of ${nameOf(run.value.data)}` : "Run");
  return (
    <Answer of={run} action="llm:read" loading="The run and its turns" failed="There is no such run" works="Runs at rest are kept for thirty days; runs of others are not yours to see.">
      {(r) => <OneRun r={r} trace={trace} reload={() => (run.reload(), trace.reload())} />}
    </Answer>
  );
}

const own = (r: Run) => session.value?.principal?.id === r.principal && session.value.principal.space_id === r.space_id;

function OneRun({ r, trace, reload }: { r: Status; trace: ReturnType<typeof useLive<"llm.run.trace">>; reload: () => void }) {
  const byTrace = r.trace_id ? { trace_id: r.trace_id } : undefined;
  const asked = useLive(byTrace && may("approval:list") ? "approval.list" : undefined, { ...byTrace, limit: 200 }, { on: ["approval"] });
  const entries = useLive(byTrace && may("audit:query") ? "audit.query" : undefined, { ...byTrace, limit: 1000 }, { on: ["task", "approval"], when: (e) => e.topic.includes(r.run_id) || e.family === "approval" });
  const approvals: Approval[] = asked.value.data?.approvals ?? [];
  const all: Entry[] = entries.value.data?.entries ?? [];
  const falls = lines(r, trace.value.data?.spans ?? [], approvals, all, now.value);
  const chosen = falls.find((l) => l.id === query("span"));
  const waits = approvals.find((a) => a.state === "pending");
  const view = query("view");
  const may_go_on = may("llm:run") && own(r) && ["WaitingUser", "Failed"].includes(r.phase);
  const cancels = may("llm:run") && ["Running", "WaitingUser", "WaitingApproval"].includes(r.phase);
  const shown = r.phase === "WaitingUser" && may_go_on ? { command: "llm.run.continue", params: { run_id: r.run_id, input: "…" } } : { command: "llm.run.status", params: { run_id: r.run_id }, line: `aibridge run follow ${r.run_id}` };
  useShown(shown, [["↑ ↓", "step"], ["W", "waterfall"], ["C", "conversation"], ...(may_go_on ? ([["S", "say"]] as [string, string][]) : []), ...(cancels ? ([["X", "cancel"]] as [string, string][]) : [])]);
  const move = (by: number) => {
    const next = falls[Math.max(0, Math.min(falls.length - 1, falls.findIndex((l) => l.id === (chosen?.id ?? "run")) + by))];
    setQuery({ span: next.id === "run" ? "" : next.id });
  };
  const [stopping, setStopping] = useState(false);
  useKeys({
    ArrowDown: () => (view ? false : move(1)), ArrowUp: () => (view ? false : move(-1)), j: () => (view ? false : move(1)), k: () => (view ? false : move(-1)),
    w: () => setQuery({ view: "" }), c: () => setQuery({ view: "conversation" }),
    s: () => (may_go_on ? document.getElementById("say")?.focus() : false),
    x: () => (cancels ? setStopping(true) : false),
    Escape: () => (query("span") ? setQuery({ span: "" }) : false),
  });
  return (
    <>
      <Head
        crumb={<><a href={link("runs")}>Runs</a> / {r.mode === "run" ? "workflow" : r.mode}</>}
        title={nameOf(r)}
        does={
          <>
            {may_go_on && (
              <Button onClick={() => document.getElementById("say")?.focus()}>
                Say something <kbd>S</kbd>
              </Button>
            )}
            {cancels && (
              <Button danger not={offNow()} onClick={() => setStopping(true)}>
                Cancel run
              </Button>
            )}
          </>
        }
      >
        {waits && r.phase === "Running" ? <State is="waiting" word="Waiting for approval">since <Time at={waits.asked_at} /></State> : <State is={r.phase} word={phaseWords[r.phase]}>{r.phase === "Running" ? "" : <>since <Time at={r.changed_at} /></>}</State>}
        <span class="tag mono" title={r.run_id}>{r.run_id.slice(0, 13)}</span>
      </Head>
      {stopping && <Cancel id={r.run_id} onClose={() => setStopping(false)} reload={reload} />}
      <div class="cols c-side">
        <div class="stack gap">
          {r.state_error && (
            <p class="note small warning mid">
              <Mark is="warning" />
              <span class="grow">Where it is cannot be told: {r.state_error}</span>
            </p>
          )}
          {r.graph && (
            <Panel title="Where it is" more={<span>{`step ${Math.min((r.steps_completed?.length ?? 0) + (r.phase === "Completed" ? 0 : 1), r.graph.nodes.length)} of ${r.graph.nodes.length}`} · autopilot {r.autopilot ? "on" : "off"}</span>}>
              <Graph of={r.graph} r={r} />
            </Panel>
          )}
          <section class="panel" aria-label="What it did">
            <header class="wraps">
              <h2>What it did</h2>
              <div class="more">
                <Pick label="How it is shown" name="view" of={[{ id: "", word: "Waterfall" }, { id: "conversation", word: "Conversation" }, { id: "json", word: "JSON" }]} />
              </div>
            </header>
            {view === "conversation" ? (
              <Spoken r={r} />
            ) : view === "json" ? (
              <div class="body"><Json value={{ run: r, trace: trace.value.data }} /></div>
            ) : (
              <Answer of={trace} action="llm:read" loading="What it asked and did" failed="What it did could not be read">
                {(t) => (
                  <>
                    <Waterfall of={falls} />
                    {t.next_after && <p class="small dim count">The first {number(t.next_after)} of {number(t.turns)} turns</p>}
                  </>
                )}
              </Answer>
            )}
          </section>
        </div>
        <div class="stack gap">
          {may_go_on || (r.phase === "Completed" && r.message) || r.reason ? <GoOn r={r} may={may_go_on} reload={reload} /> : null}
          {(chosen && chosen.id !== "run") || waits ? <One line={chosen && chosen.id !== "run" ? chosen : falls.find((l) => l.approval === waits && l.depth === 2)} r={r} /> : null}
          <Panel title="Spent">
            <Facts
              of={[
                ["Tokens", <b>{number(r.tokens)}</b>],
                ["Cost", money(r.cost)],
                ["Turns", number(r.turns)],
                ["Took", duration(falls[0].took ?? 0)],
                ["Model", r.model ?? "default"],
              ]}
            />
          </Panel>
          <Panel title="What it is">
            <Facts
              of={[
                ["By", r.principal],
                ["Package", r.package && <a href={link("runs", { package: r.package })}>{r.package}</a>],
                ["Workflow", r.workflow],
                ["Agent", r.agent],
                ["Project", <Code>{r.project}</Code>],
                ["Began", <Time at={r.started_at} />],
                ["Trace", r.trace_id && may("audit:query") && <a href={link("audit", { trace: r.trace_id })}>in the audit</a>],
              ]}
            />
          </Panel>
          {Object.keys(r.variables ?? {}).length > 0 && (
            <Panel title="Variables">
              <Json value={r.variables} />
            </Panel>
          )}
        </div>
      </div>
    </>
  );
}

function Cancel({ id, onClose, reload }: { id: string; onClose: () => void; reload: () => void }) {
  const [error, setError] = useState<Failure>();
  return (
    <>
      {error && <p class="note small failed" role="alert"><Mark is="failed" /><span><Said error={error} /></span></p>}
      {!error && (
        <Confirm title="Cancel this run?" act="Cancel run" not={offNow()} onAct={() => call("llm.run.cancel", { run_id: id }, { timeout: 60000 }).then(() => (reload(), onClose()), setError)} onClose={onClose}>
          <p>It stops where it is. What it has done stays done; it can be continued later.</p>
        </Confirm>
      )}
    </>
  );
}

/** What it asks, and the answer; or why it stopped, and going on. */
function GoOn({ r, may: offered, reload }: { r: Status; may: boolean; reload: () => void }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Failure>();
  const form = useRef<HTMLFormElement>(null);
  const send = async (input?: string) => {
    setBusy(true);
    setError(undefined);
    try {
      await call("llm.run.continue", input === undefined ? { run_id: r.run_id } : { run_id: r.run_id, input });
      setText("");
      reload();
    } catch (e) {
      setError(e as Failure);
    }
    setBusy(false);
  };
  useKeys({ "Ctrl+Enter": () => (offered && text.trim() && !offNow() ? void send(text) : false) });
  const questions = r.questions ?? [];
  const title = r.phase === "Completed" ? "What it said last" : r.phase === "Failed" ? "Why it stopped" : questions.length ? "It asks" : "It waits for you";
  return (
    <Panel key_ title={title}>
      <div class="stack">
        {r.reason && (
          <p>
            {r.reason} {r.stop_reason && <Code>{r.stop_reason}</Code>}
          </p>
        )}
        {r.message && <p class="theirs">{r.message}</p>}
        {questions.map((q) => (
          <div class="stack">
            <p class="theirs"><b>{q.question}</b></p>
            {offered && (q.options ?? []).length > 0 && (
              <div class="line wrap" role="group" aria-label="Answers to choose from">
                {q.options!.map((o) => (
                  <Button onClick={() => (setText(o), document.getElementById("say")?.focus())}>{o}</Button>
                ))}
              </div>
            )}
          </div>
        ))}
        {offered && (
          <form class="stack" ref={form} onSubmit={(e) => (e.preventDefault(), text.trim() && void send(text))}>
            <label class="field">
              <span class="lab">{questions.length ? "Your answer" : "What you say"}</span>
              <textarea id="say" class="in" rows={3} value={text} onInput={(e) => setText(e.currentTarget.value)} />
            </label>
            <div class="line wrap">
              <Button main type="submit" not={offNow() || (busy && "It is sent") || (!text.trim() && "There is nothing to say yet")}>
                {questions.length ? "Answer" : "Say it"} <kbd>Ctrl Enter</kbd>
              </Button>
              {r.phase === "Failed" && <Button not={offNow() || (busy && "It is sent")} onClick={() => void send()}>Resume</Button>}
            </div>
          </form>
        )}
        {!offered && r.phase === "WaitingUser" && <p class="small dim">Only {r.principal} can answer.</p>}
        {error && <p class="failed" role="alert"><Said error={error} /></p>}
      </div>
    </Panel>
  );
}

/** One thing that it did, with who was asked about it. */
function One({ line, r }: { line?: Line; r: Status }) {
  if (!line?.span) return null;
  const s = line.span, a = line.approval;
  if (a)
    return (
      <Panel key_={r.phase === "Running"} title={a.tool} more={<State is={a.state} />}>
        <div class="stack">
          <Crossing
            down
            of={[
              { name: a.requester, about: a.requester_kind },
              { name: nameOf(r), about: r.model ?? "default model" },
              { name: a.state === "pending" ? "Waiting" : plain(a.state), about: a.decided_by ? `by ${a.decided_by}` : "for approval", gate: true },
              { name: a.tool.split(".")[0], about: a.state === "used" ? "acted" : "has not acted", ahead: a.state !== "used" },
            ]}
          />
          <Json value={a.arguments} flat copy={false} />
          <Facts of={[["Why", a.why], ["Asked", <Time at={a.asked_at} />], ["Until", a.state === "pending" && <Time at={a.expires_at} />], ["Because", a.reason], ["Digest", <span class="mono break">{a.hash.slice(0, 16)}</span>]]} />
          <p><a class={a.state === "pending" ? "btn main" : "btn"} href={link("approvals", a.approval_id)}>{a.state === "pending" ? "Decide" : "The approval"}</a></p>
        </div>
      </Panel>
    );
  return (
    <Panel title={s.kind === "model" ? `Turn ${s.id}` : (s.name ?? s.id)} more={<State is={s.state} word={s.state === "unknown" ? "not known" : undefined} />}>
      <Facts
        of={[
          ["Model", s.kind === "model" && s.name],
          ["Provider", s.provider],
          ["Step", s.node_id],
          ["Arguments", s.about && <span class="mono break">{s.about}</span>],
          ["Code", s.code && <Code>{s.code}</Code>],
          ["Began", <Time at={s.at} />],
          ["Took", s.state !== "running" && duration(s.took_ms)],
          ["Tokens", s.kind === "model" && `${number(s.input_tokens ?? 0)} in, ${number(s.output_tokens ?? 0)} out`],
          ["Cost", s.kind === "model" && money(s.cost ?? 0)],
          ["Repeated", s.replayed && "done before a crash, not again"],
          ["Audit", line.audit !== undefined && <a href={auditLink(line.audit)}>{number(line.audit.seq)}</a>],
        ]}
      />
    </Panel>
  );
}

/** What was said: the last turn has all of it. */
function Spoken({ r }: { r: Status }) {
  const last = useLive(r.turns ? "llm.run.turns" : undefined, { run_id: r.run_id, after: Math.max(0, r.turns - 1), limit: 1 }, { every: 0 });
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => last.reload(), [r.changed_at]);
  if (!r.turns) return <Empty title="Nothing was said yet" />;
  return (
    <Answer of={last} action="llm:read" loading="What was said" failed="What was said could not be read">
      {(t) => {
        const turn = t.turns.at(-1);
        if (!turn) return <Empty title="Nothing was said yet" />;
        const said = [...(turn.request.messages as Talked[]), ...(turn.response.assistant ? [turn.response.assistant as Talked] : [])];
        const results = (turn.toolRuns ?? []).map((t): Talked => ({ role: "tool", content: JSON.stringify(t.result), name: t.toolName }));
        return (
          <div class="body stack talk" ref={end}>
            {[...said, ...results].map((m) => (
              <Message of={m} />
            ))}
          </div>
        );
      }}
    </Answer>
  );
}
