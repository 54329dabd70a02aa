// Home: what wants attention, what went through the bridge, what happened
// last. On an empty bridge it leads through the first five minutes.
import {
  Answer, AsOf, call, Code, Copy, count, dev, duration, Empty, Facts, Fragment, go, h, Head, link, Mark, may, now, number, Outcome, Panel, Pick, query, Said, session, Spark, State, Time, time,
  useEffect, useKeys, useLive, useShown, useState, useTitle, Button, offNow, type ComponentChildren, type Commands, type Failure, type Shape,
} from "../core";

export default function Home() {
  useTitle("Home");
  const agents = useLive(may("agent:list") ? "agent.list" : undefined, { type: "end_agent", limit: 1 }, { on: ["agent"], when: (e) => /registered$/.test(e.name), pace: 5000 });
  const audit = useLive(may("audit:query") ? "audit.query" : undefined, { event: "skill.invoke", limit: 1 }, { every: 0 });
  const fresh = agents.value.data?.total === 0 && (audit.value.data?.entries.length === 0 || !may("audit:query"));
  const [leading, setLeading] = useState(false);
  useEffect(() => {
    if (fresh && may("agent:register")) setLeading(true);
  }, [fresh]);
  if (query("first") !== "0" && (leading || query("first") === "1")) return <First />;
  return <Overview />;
}

function Overview() {
  const status = useLive(may("bridge:status") ? "bridge.status" : undefined, {}, { every: 5000 });
  useShown({ command: "bridge.status", params: {} }, [["J K", "move"], ["Enter", "open"], ["G A", "approvals"]]);
  const b = session.value?.bridge;
  return (
    <>
      <Head crumb={<>{b?.id} · space <Code>{session.value?.principal?.space_id}</Code></>} title={<Now />} />
      <div class="stack gap">
        <Attention />
        {may("bridge:status") ? (
          <Answer of={status} action="bridge:status" loading="Counts for the last hour" failed="The bridge answers, but its counts do not" works="Approvals and tasks work.">
            {(s) => <Readings s={s} />}
          </Answer>
        ) : (
          <p class="small dim">
            Rates need <Code>bridge:status</Code>. What is yours is below. <a href={link("policies", { tab: "ask", action: "bridge:status" })}>Why?</a>
          </p>
        )}
        <div class="cols c-21">
          <Last />
          <UnderWay />
        </div>
      </div>
    </>
  );
}

const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

function Now() {
  const d = new Date(now.value);
  return <>{`${days[d.getDay()]}, ${d.getDate()} ${months[d.getMonth()]}, ${time(now.value - (now.value % 60000), false)}`}</>;
}

// Wants attention -----------------------------------------------------------

interface Want {
  shape: Shape;
  title: string;
  about: ComponentChildren;
  when?: ComponentChildren;
  href: string;
}

const day = 24 * 3600e3;

/** What wants somebody, the most urgent first. Each is asked for by itself, and
 * only where the person may. */
function useWants(): { wants: Want[]; loading: boolean } {
  const approvals = useLive(may("approval:list") ? "approval.list" : undefined, { state: "pending", sort: "expires_at", limit: 1 }, { on: ["approval"] });
  const models = useLive(may("llm:status") ? "llm.status" : undefined, {}, { every: 10000 });
  const budgets = useLive(may("llm:spend") ? "llm.budget.list" : undefined, {});
  const partial = useLive(may("task:list") ? "task.list" : undefined, { state: "partial", limit: 3 }, { on: ["task"], when: (e) => e.name === "task.partial", pace: 5000 });
  const certs = useLive(may("cert:list") ? "cert.list" : undefined, { expires_within_days: 14, limit: 3 }, { on: ["cert", "security"] });
  const requests = useLive(may("cert:approve") ? "cert.list" : undefined, { of: "requests", status: "pending", limit: 1 }, { on: ["cert", "security"] });
  const offline = useLive(may("agent:list") ? "agent.list" : undefined, { status: "offline", sort: "-since", limit: 3 }, { on: ["agent"], pace: 5000 });
  const status = useLive(may("bridge:status") ? "bridge.status" : undefined, {}, { every: 15000 });
  const down = useLive(may("link:list") && (status.value.data?.links?.connected ?? 0) < (status.value.data?.links?.total ?? 0) ? "link.list" : undefined, {}, { every: 15000 });
  const vfs = useLive(may("vfs:health") ? "vfs.health" : undefined, {}, { every: 30000 });
  const wants: Want[] = [];
  const a = approvals.value.data;
  if (a && a.total > 0) {
    const first = a.approvals[0];
    wants.push({ shape: "waiting", title: `${count(a.total, "approval")} wait${a.total === 1 ? "s" : ""}`, about: <><Code>{first.tool}</Code> for {first.requester}: {first.why}</>, when: <>expires {time(first.expires_at, false)}</>, href: a.total === 1 ? link("approvals", first.approval_id) : link("approvals") });
  }
  const s = status.value.data;
  if (s && !s.ready) wants.push({ shape: "failed", title: "The bridge cannot work", about: s.why, href: link("settings") });
  for (const p of models.value.data?.providers.filter((p) => p.breaker !== "closed") ?? [])
    wants.push({ shape: "failed", title: "Provider fails", about: <><Code>{p.name}</Code> is left alone{p.last_error && `: ${p.last_error}`}</>, when: p.retry_after_ms ? `next try in ${duration(p.retry_after_ms)}` : "", href: link("models") });
  for (const b of budgets.value.data?.budgets.filter((b) => b.percent >= 80) ?? [])
    wants.push({ shape: b.percent >= 100 ? "failed" : "warning", title: b.percent >= 100 ? "Budget is spent" : "Budget nearly spent", about: <><Code>{b.owner}</Code>, of the {b.window}: {number(Math.floor(b.percent))} %</>, when: <>until <Time at={b.resets_at} seconds={false} /></>, href: link("models") });
  for (const t of partial.value.data?.tasks.filter((t) => Date.parse(t.started_at) > Date.now() - day) ?? [])
    wants.push({ shape: "warning", title: "Task partial", about: <><Code>{t.group ? `${t.group.cap_id}/${t.group.group_id} ${t.group.capability_id}` : t.command}</Code>: {counts(t.group?.counts)}</>, when: <Time at={t.ended_at as string | undefined} seconds={false} />, href: link("tasks", t.task_id) });
  for (const l of down.value.data?.links.filter((l) => l.state === "down" || l.state === "unknown") ?? [])
    wants.push({ shape: "failed", title: l.state === "down" ? "Link is down" : "Link is not heard of", about: <><Code>{l.link}</Code> {l.waiting > 0 && `${count(l.waiting, "message")} wait${l.waiting === 1 ? "s" : ""}: `}{l.problem}</>, when: <Time at={l.since} seconds={false} />, href: link("links", l.link) });
  const dropped = s?.readings.find((r) => r.name === "dropped")?.now ?? 0;
  if (dropped > 0) wants.push({ shape: "warning", title: "Messages dropped", about: `${number(dropped)} in the last hour: their receivers were away for too long, or too slow`, href: link("topics") });
  const behind = vfs.value.data?.others?.filter((v) => v.status === "offline") ?? [];
  for (const v of behind) wants.push({ shape: "warning", title: "VFS away", about: <><Code>{v.vfs_id}</Code> {v.reason}</>, href: link("files") });
  const r = requests.value.data;
  if (r && r.total > 0) wants.push({ shape: "waiting", title: `${count(r.total, "request")} for a certificate`, about: <>{r.requests?.[0]?.principal} asks</>, href: link("access", { tab: "requests" }) });
  for (const c of certs.value.data?.certificates?.filter((c) => c.status === "valid") ?? [])
    wants.push({ shape: "warning", title: "Certificate expires", about: <><Code>{c.principal}</Code>, serial <Code>{c.serial}</Code></>, when: <>in {duration(c.expires_at - now.value)}</>, href: link("access", { find: c.principal }) });
  const o = offline.value.data;
  if (o && o.total > 0) wants.push({ shape: "away", title: `${count(o.total, "agent")} offline`, about: <>{o.agents.map((x, i) => [i > 0 && ", ", <Code>{x.agent_id}</Code>])}{o.total > 3 && " and others"}</>, href: link("agents", { status: "offline" }) });
  return { wants, loading: !!approvals.value.loading && !approvals.value.at };
}

const counts = (of?: Record<string, number>) => Object.entries(of ?? {}).map(([state, n]) => `${n} ${state.replaceAll("_", " ")}`).join(", ");

function Attention() {
  const { wants, loading } = useWants();
  const [at, setAt] = useState(-1);
  useKeys({ j: () => setAt(Math.min(at + 1, wants.length - 1)), k: () => setAt(Math.max(at - 1, 0)), Enter: (e) => (wants[at] && !(e.target as Element).closest("a,button") ? go(wants[at].href) : false) });
  return (
    <Panel title="Wants attention" key_ tight more={wants.length > 0 && <>{number(wants.length)} · most urgent first <AsOf /></>}>
      {wants.length > 0 ? (
        <ul class="attn">
          {wants.map((w, i) => (
            <li>
              <a href={w.href} class={i === at ? "is-focus" : undefined}>
                <Mark is={w.shape} />
                <b>{w.title}</b>
                <span class="cut">{w.about}</span>
                <em>{w.when}</em>
              </a>
            </li>
          ))}
        </ul>
      ) : (
        !loading && (
          <Empty title="Nothing wants attention" shape="ok">
            You would be told here, and by notification where you allow it.
          </Empty>
        )
      )}
    </Panel>
  );
}

// Readings ------------------------------------------------------------------

function Readings({ s }: { s: Commands["bridge.status"]["result"] }) {
  const one = (name: string, title: string, unit: string) => {
    const r = s.readings.find((r) => r.name === name);
    if (!r) return null;
    return (
      <div>
        <dt>{title}</dt>
        <dd>
          {number(r.now)} <small>{unit}</small>
        </dd>
        <Spark points={r.points} label={`${title}, the last hour`} />
      </div>
    );
  };
  const of = s.readings.find((r) => r.name === "sessions")?.now ?? 0;
  return (
    <dl class="readings">
      {one("received", "Messages in", "/ s")}
      {one("sent", "Messages out", "/ s")}
      {one("commands", "Commands", "/ min")}
      {one("command_p99", "Commands, p99", "ms")}
      {one("clients", "Clients", `of ${number(of)} sessions`)}
      {one("denied", "Refused", "last hour")}
    </dl>
  );
}

function Last() {
  const entries = useLive(may("audit:query") ? "audit.query" : undefined, { limit: 8 }, { every: 5000, on: ["task", "approval", "agent"], pace: 3000 });
  return (
    <Panel title="What happened last" tight more={<a href={link("audit")}>All in the audit</a>}>
      {!may("audit:query") ? (
        <Empty title="In part">
          All of it needs <Code>audit:query</Code>.
        </Empty>
      ) : (
        <Answer of={entries} action="audit:query" loading="Newest 8" failed="The audit could not be read">
          {(found) => (
            <table class="t">
              <thead>
                <tr>
                  <th scope="col">When</th>
                  <th scope="col">What</th>
                  <th scope="col" class="no-small">On</th>
                  <th scope="col" class="no-small">Who</th>
                  <th scope="col">Outcome</th>
                  <th scope="col" class="num no-small">Audit</th>
                </tr>
              </thead>
              <tbody>
                {found.entries.map((e) => (
                  <tr key={e.seq}>
                    <td><Time at={e.time} /></td>
                    <td><Code>{e.event}</Code></td>
                    <td class="no-small">{e.resource}</td>
                    <td class="no-small">{e.principal}</td>
                    <td><Outcome code={e.code}>{e.code === "ok" ? undefined : e.code}</Outcome></td>
                    <td class="num no-small"><a href={link("audit", { entry: e.seq, bridge: e.bridge_id })}>{number(e.seq)}</a></td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Answer>
      )}
    </Panel>
  );
}

function UnderWay() {
  const tasks = useLive(may("task:list") ? "task.list" : undefined, { unfinished: true, limit: 8 }, { on: ["task"], when: (e) => e.name !== "task.progress", pace: 3000 });
  if (!may("task:list")) return null;
  return (
    <Panel title="Under way" tight>
      <Answer of={tasks} action="task:list" loading="Tasks that run" failed="The tasks could not be read">
        {(found) =>
          found.tasks.length ? (
            <table class="t">
              <thead>
                <tr>
                  <th scope="col">What</th>
                  <th scope="col">State</th>
                  <th scope="col">Since</th>
                </tr>
              </thead>
              <tbody>
                {found.tasks.map((t) => (
                  <tr key={t.task_id}>
                    <td><a href={link("tasks", t.task_id)}>{t.group ? `${t.group.cap_id}/${t.group.group_id}` : t.command}</a></td>
                    <td><State is={t.state} /></td>
                    <td><Time at={t.started_at} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <Empty title="Nothing runs" />
          )
        }
      </Answer>
    </Panel>
  );
}

// The first five minutes ------------------------------------------------------

type Agent = Commands["agent.list"]["result"]["agents"][number];

function First() {
  useTitle("First steps");
  const [language, setLanguage] = useState("shell");
  const agents = useLive(may("agent:list") ? "agent.list" : undefined, { type: "end_agent", limit: 20, sort: "-registered_at" }, { on: ["agent"], every: 5000, pace: 2000 });
  const device = agents.value.data?.agents.find((a) => a.status === "online") ?? agents.value.data?.agents[0];
  const details = useLive(device ? "agent.get" : undefined, { agent_id: device?.agent_id ?? "" }, { on: ["agent", "skill"] });
  const calls = useLive(may("audit:query") ? "audit.query" : undefined, { event: "skill.invoke", limit: 3 }, { every: 3000 });
  const models = useLive(may("llm:status") ? "llm.status" : undefined, {}, { every: 10000 });
  const [tried, setTried] = useState(false);
  const called = tried || (calls.value.data?.entries.length ?? 0) > 0;
  const asked = (models.value.data?.providers.length ?? 0) > 0;
  const steps = [!!device, !!device, called, asked, false];
  const current = steps.indexOf(false);
  const kind = (i: number) => (steps[i] ? "done" : i === current ? "now" : "later");
  const b = session.value?.bridge;
  const lines = deviceLines(language, b?.mqtt ?? "127.0.0.1:1883");
  const skill = details.value.data?.skills[0];
  useShown({ command: skill ? "skill.discover" : "agent.list", params: skill ? { text: skill } : {} });
  return (
    <>
      <Head crumb={device ? "First five minutes" : "Empty bridge · first five minutes"} title="From a device to a model, in five steps" does={<a class="btn quiet" href={link({ first: "0" })}>Skip this</a>} />
      <div class="cols c-side">
        <section class="panel key" aria-label="First steps">
          <ol class="steps">
            <li class={kind(0)}>
              <span class="nr" />
              <div class="stack">
                <div class="line apart wrap">
                  <h2>Connect a device</h2>
                  <Pick label="Language" value={language} onPick={setLanguage} of={[{ id: "shell", word: "Shell" }, { id: "python", word: "Python" }, { id: "go", word: "Go" }]} />
                </div>
                <p class="dim">Any MQTT client will do. These lines are a device; paste them into a terminal on this machine.</p>
                <div class="json">
                  <pre class="code" tabIndex={0}>
                    {lines}
                  </pre>
                  <Copy text={lines} />
                </div>
              </div>
            </li>
            <li class={kind(1)}>
              <span class="nr" />
              <div class="stack">
                <h2>It appears</h2>
                {device ? <Appeared device={device} skills={details.value.data?.skills ?? []} /> : <p>It stands here by itself as soon as it is there.</p>}
              </div>
            </li>
            <li class={kind(2)}>
              <span class="nr" />
              <div class="stack">
                <h2>Try it</h2>
                <p class="dim">The form is made from the schema that the device declared. Whoever calls it, from wherever, gets the same answer.</p>
                {skill && <Quick skill={skill} onDone={() => setTried(true)} />}
                {device && skill && (
                  <p>
                    <a href={link("agents", device.agent_id, { skill })}>All that it can do</a>
                  </p>
                )}
              </div>
            </li>
            <li class={kind(3)}>
              <span class="nr" />
              <div class="stack">
                <h2>Ask a model to do it</h2>
                <p>
                  Point the bridge at any OpenAI-compatible URL, then say what you want. What is risky waits for <a href={link("approvals")}>your approval</a>. <a href={link("models")}>{asked ? "Ask" : "Connect a model"}</a>
                </p>
              </div>
            </li>
            <li class={kind(4)}>
              <span class="nr" />
              <div class="stack">
                <h2>See who did what</h2>
                <p>
                  Each call, yours and the model’s, stands in <a href={link("audit")}>the audit</a>: who, what, on whose behalf, with which outcome.
                </p>
                {(calls.value.data?.entries ?? []).map((e) => (
                  <p class="small line">
                    <Time at={e.time} /> <Code>{e.event}</Code> {e.resource} by {e.principal} <Outcome code={e.code} />
                  </p>
                ))}
              </div>
            </li>
          </ol>
        </section>
        <div class="stack gap">
          <Panel title="This bridge">
            <Facts
              of={[
                ["MQTT", b?.mqtt && <Code>{b.mqtt}</Code>],
                ["MQTT, TLS", b?.mqtts && <Code>{b.mqtts}</Code>],
                ["WebSocket", b?.ws && <Code>{`ws://${b.ws}/mqtt`}</Code>],
                ["HTTP, MCP", <Code>{location.origin}</Code>],
                ["Agents", number(agents.value.data?.total ?? 0)],
              ]}
            />
          </Panel>
          {dev.value && (
            <Panel title="Nobody else can reach it">
              <p class="dim">
                It listens on this machine only. Under <Code>--dev</Code> everyone here is <Code>anonymous</Code> and may do everything.
              </p>
            </Panel>
          )}
        </div>
      </div>
    </>
  );
}

/** A device in a few lines, for a terminal on this machine. */
function deviceLines(language: string, mqtt: string): string {
  const name = "lamp-1";
  const run: Record<string, string> = { shell: `aibridge agent end --id ${name} --skills skills`, python: "python3 device.py", go: "go run ." };
  const at = mqtt === "127.0.0.1:1883" ? "" : `AIBRIDGE_URL=mqtt://${mqtt} `;
  return [`aibridge new device ${name} --lang ${language}`, `cd ${name}`, at + run[language]].join("\n");
}

const Appeared = ({ device, skills }: { device: Agent; skills: string[] }) => (
  <div class="note ok">
    <Mark is={device.status === "online" ? "ok" : "away"} />
    <div class="grow">
      <b>{device.agent_id}</b> {device.status === "online" ? "is online" : "is offline"}
      {device.since && <> since {time(device.since)}</>}
      {skills.length > 0 && <> and offers {count(skills.length, "skill")}: {skills.slice(0, 3).map((s, i) => [i > 0 && ", ", <Code>{s}</Code>])}</>}.
    </div>
    <a class="btn" href={link("agents", device.agent_id)}>
      Open its page
    </a>
  </div>
);

/** The first capability that runs with nothing to fill in, or its page. */
function Quick({ skill, onDone }: { skill: string; onDone: () => void }) {
  const found = useLive("skill.discover", { text: skill, limit: 100 }, { every: 0 });
  const [result, setResult] = useState<{ data?: unknown; error?: Failure }>();
  const s = found.value.data?.skills.find((s) => s.skill_id === skill);
  const all = s?.capabilities.map((c) => (typeof c === "string" ? { capability_id: c, params_schema: undefined } : c)) ?? [];
  const c = all.find((c) => !(typeof c.params_schema === "object" && (c.params_schema.required as unknown[] | undefined)?.length)) ;
  if (!c) return <a class="btn main" href={link("skills", skill)}>Try {skill}</a>;
  const run = () =>
    call("skill.invoke", { skill_id: skill, capability_id: c.capability_id, params: {} }).then(
      (r) => (setResult({ data: r.data }), onDone()),
      (error) => setResult({ error }),
    );
  return (
    <div class="stack">
      <div class="line wrap">
        <Button main not={offNow()} onClick={run}>
          Run {skill}.{c.capability_id}
        </Button>
        <span class="small dim">It takes no parameters.</span>
      </div>
      <div aria-live="polite">
        {result && (result.error ? <Said error={result.error} /> : <State is="ok"><Code>{JSON.stringify(result.data)}</Code></State>)}
      </div>
    </div>
  );
}

