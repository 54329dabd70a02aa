// One conversation: what was said, tools and who was asked about them, and what
// you say next. The answer comes word by word.
import {
  Answer, Button, call, Code, duration, Empty, Facts, Failure, Fragment, go, h, Head, Left, link, Mark, may, NotAllowed, now, number, offNow, Panel, query, Said, State, Time, useEffect, useKeys, useLive,
  useRef, useShown, useState, useTitle, newID, type Commands,
} from "../../core";
import { money } from "./run";
import { Said as Message, type Talked } from "./messages";

type Kept = Commands["llm.conversation.get"]["result"];

export function Conversation({ id }: { id: string }) {
  const [session] = useState(id === "new" ? newID() : id);
  const kept = useLive(id === "new" ? undefined : "llm.conversation.get", { session_id: session }, { every: 10000 });
  useTitle(kept.value.data?.title || "Conversation");
  if (!may("llm:chat") && id === "new") return <NotAllowed action="llm:chat" title="Not yours" />;
  if (id === "new") return <Talk session={session} fresh />;
  return (
    <Answer of={kept} action="llm:read" loading="What was said" failed="There is no such conversation" works="It is forgotten after a time of quiet; those of others are not yours to see.">
      {(c) => <Talk session={session} c={c} reload={kept.reload} />}
    </Answer>
  );
}

/** A message as the bridge keeps it. */
interface Stored {
  role: string;
  tool_name?: string;
  segments: { type: string; text?: string; tool_call?: { name: string; args?: unknown } }[];
}

/** The same in the words of the page. */
function talked(m: Stored): Talked {
  const text = m.segments.filter((s) => s.type === "text").map((s) => s.text ?? "").join("");
  const calls = m.segments.filter((s) => s.tool_call).map((s) => ({ function: { name: s.tool_call!.name, arguments: JSON.stringify(s.tool_call!.args ?? {}) } }));
  return { role: m.role, content: text, name: m.tool_name, tool_calls: calls };
}

interface Doing {
  said: string;
  text: string;
  tools: { id: string; name: string; state: string }[];
}

const list = (text: string) => text.split(/[\s,]+/).filter(Boolean);

function Talk({ session, c, fresh, reload }: { session: string; c?: Kept; fresh?: boolean; reload?: () => void }) {
  const models = useLive("llm.models", {}, { every: 0 });
  const [text, setText] = useState("");
  const [model, setModel] = useState(query("model"));
  const [tools, setTools] = useState((c?.tools ?? []).join(" "));
  const [doing, setDoing] = useState<Doing>();
  const [error, setError] = useState<Failure>();
  const latest = useRef<HTMLDivElement>(null);
  const there = useRef(true);
  useEffect(() => () => void (there.current = false), []);
  const waiting = useLive(may("approval:list") ? "approval.list" : undefined, { state: "pending", limit: 200 }, { on: ["approval"] });
  const asked = (waiting.value.data?.approvals ?? []).filter((a) => a.session_id === session);
  const params = { session_id: session, message: text || "…", model: model || undefined, tools: tools.trim() || c?.tools.length ? list(tools) : undefined, stream: true };
  useShown({ command: "llm.chat", params }, [["Ctrl Enter", "send"]]);
  useEffect(() => latest.current?.scrollIntoView?.({ block: "nearest" }), [!!doing, c?.messages.length]);

  const hear = (event: string, data: any) =>
    setDoing((d) => {
      if (!d) return d;
      if (event === "llm.delta" && data.type === "text_delta") return { ...d, text: d.text + (data.text ?? "") };
      const id = data.call_id ?? data.id ?? data.name;
      if (event === "llm.tool_call") return { ...d, text: "", tools: [...d.tools, { id, name: data.name, state: "running" }] };
      if (event === "llm.tool_result") return { ...d, tools: d.tools.map((t) => (t.id === id ? { ...t, state: data.status === "Success" ? "ok" : data.status === "Skipped" ? "cancelled" : "failed" } : t)) };
      return d;
    });
  const send = async () => {
    const message = text.trim();
    if (!message || doing || offNow()) return;
    setText("");
    setError(undefined);
    setDoing({ said: message, text: "", tools: [] });
    try {
      const r = await call("llm.chat", { ...params, message }, { timeout: 600000, onEvent: hear });
      if (!there.current) return;
      if (r.ended) return go(link("conversations"));
      if (r.by === "command" && fresh) setError(new Failure("", r.result));
      if (fresh && r.by === "model") return go(link("conversations", session), true);
      if (r.by === "command") setCommand({ said: message, text: r.result });
      else setCommand(undefined);
      reload?.();
      settle.current = true;
    } catch (e) {
      setError(e as Failure);
      setText(message); // what was typed stays
      setDoing(undefined);
      reload?.();
    }
  };
  // What was streamed stays until the conversation that is kept has it.
  const settle = useRef(false);
  const [command, setCommand] = useState<{ said: string; text: string }>();
  useEffect(() => {
    if (settle.current) (settle.current = false), setDoing(undefined);
  }, [c?.active_at, command]);
  useKeys({ "Ctrl+Enter": () => void send() });
  return (
    <>
      <Head crumb={<><a href={link("conversations")}>Conversations</a> / {fresh ? "new" : session.slice(0, 13)}</>} title={<span class="cut">{c?.title || "New conversation"}</span>} does={may("llm:chat") && !fresh ? <a class="btn" href={link("conversations", "new")}>New conversation</a> : undefined}>
        {c?.answering && !doing && <State is="running" word="Being answered" />}
      </Head>
      <div class="cols c-side">
        <Panel key_ label="What was said">
          <div class="stack talk">
            {!c && !doing && <Empty title="Nothing was said yet">Say what you want to know, or <Code>/help</Code> for what is answered without a model.</Empty>}
            {(c?.messages ?? []).map((m) => (
              <Message of={talked(m as Stored)} />
            ))}
            {command && <><Message of={{ role: "user", content: command.said }} /><pre class="code" tabIndex={0}>{command.text}</pre></>}
            {doing && (
              <>
                <Message of={{ role: "user", content: doing.said }} />
                {doing.tools.map((t) => (
                  <p class="small"><State is={t.state} word={t.name} /></p>
                ))}
                <div aria-live="polite">{doing.text ? <Message of={{ role: "assistant", content: doing.text }} /> : <p class="small dim">{asked.length ? "It waits for an approval." : "It is being answered."}</p>}</div>
              </>
            )}
            {asked.map((a) => (
              <div class="note waiting mid">
                <Mark is="waiting" />
                <div class="grow">
                  <b>{a.tool}</b> waits for approval, <Left until={a.expires_at} />. <span class="mono small break">{JSON.stringify(a.arguments)}</span>
                </div>
                <a class="btn main" href={link("approvals", a.approval_id)}>Decide</a>
              </div>
            ))}
            {c?.locked && <p class="note small warning mid"><Mark is="warning" /><span class="grow">The tools are locked: {c.locked} <Code>/reset</Code> unlocks them.</span></p>}
            {error && <p class="note small failed" role="alert"><Mark is="failed" /><span class="grow">{error.code ? <Said error={error} /> : error.message}</span></p>}
            <div ref={latest} />
            {may("llm:chat") && (
              <form class="stack" onSubmit={(e) => (e.preventDefault(), void send())}>
                <label class="field">
                  <span class="lab">What you say</span>
                  <textarea class="in" rows={3} value={text} onInput={(e) => setText(e.currentTarget.value)} />
                </label>
                <div class="line">
                  <Button main type="submit" not={offNow() || (doing && "The last message is being answered") || (!text.trim() && "There is nothing to say yet")}>
                    Send <kbd>Ctrl Enter</kbd>
                  </Button>
                </div>
              </form>
            )}
          </div>
        </Panel>
        <div class="stack gap">
          <Panel title="From now on">
            <div class="stack">
              <label class="field">
                <span class="lab">Model</span>
                <select class="in" value={model} onChange={(e) => setModel(e.currentTarget.value)}>
                  <option value="">{c?.model ?? "the default one"}</option>
                  {(models.value.data?.models ?? []).map((m) => <option value={m.id}>{m.id}</option>)}
                </select>
              </label>
              <label class="field">
                <span class="lab">Tools it may use</span>
                <input class="in mono" placeholder="none" value={tools} onInput={(e) => setTools(e.currentTarget.value)} />
                <span class="hint">Patterns, such as <code>door.*</code>. Risky calls wait for an approval.</span>
              </label>
            </div>
          </Panel>
          {c && (
            <Panel title="Spent">
              <Facts of={[["Tokens", <b>{number(c.tokens)}</b>], ["Cost", money(c.cost)], ["Answers", number(c.turns)], ["Began", <Time at={c.began_at} />], ["Forgotten", `after ${duration(c.ends_at - now.value)} of quiet`]]} />
            </Panel>
          )}
        </div>
      </div>
    </>
  );
}
