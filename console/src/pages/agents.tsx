// Agents: who is there. An agent: is it there, what can it do, try it.
import {
  Ago, Answer, AsOf, Button, call, Code, Confirm, count, duration, Empty, Facts, Failure, Fragment, h, Head, Json, link, Mark, may, now, number, offNow, Outcome, Panel, path,
  Pick, plain, Presence, problems, query, Said, SchemaForm, Search, setQuery, State, Table, Time, time, useEffect, useKeys, useLive, useRows, useShown, useState, useTitle,
  type Commands, type Schema,
} from "../core";

type Agent = Commands["agent.list"]["result"]["agents"][number];
type Skill = Commands["skill.discover"]["result"]["skills"][number];
type Capability = Exclude<Skill["capabilities"][number], string>;

export default function Agents() {
  const [first, id] = path.value;
  if (first === "skills") return id ? <SkillPage key={id} id={id} /> : <Skills />;
  return id ? <AgentPage key={id} id={id} /> : <AgentList />;
}

const kinds: Record<string, string> = { end_agent: "end agent", route_agent: "route agent", mcp_agent: "MCP agent" };

const Both = ({ here }: { here: "agents" | "skills" }) => (
  <span class="pick" role="group" aria-label="What is listed">
    <a href={link("agents")} aria-current={here === "agents" ? "true" : undefined}>
      Agents
    </a>
    <a href={link("skills")} aria-current={here === "skills" ? "true" : undefined}>
      Skills
    </a>
  </span>
);

function AgentList() {
  useTitle("Agents");
  const params = { find: query("find") || undefined, status: query("status") || undefined, type: query("type") || undefined, sort: query("sort") || undefined };
  const rows = useRows<Agent>("agent.list", params, "agents", { on: ["agent"] });
  useShown({ command: "agent.list", params }, [["J K", "move"], ["Enter", "open"]]);
  const filtered = params.find || params.status || params.type;
  return (
    <>
      <Head crumb="Agents" title={rows.at ? count(rows.total, "agent") : "Agents"} />
      <div class="filters">
        <Both here="agents" />
        <Search label="Find by id or name" />
        <Pick label="Status" name="status" of={[{ id: "", word: "all" }, { id: "online", word: "online" }, { id: "offline", word: "offline" }]} />
        <AsOf />
      </div>
      <Panel key_ tight label="Agents">
        <Table
          of={rows}
          id={(a) => a.agent_id}
          href={(a) => link("agents", a.agent_id)}
          label="Agents"
          words={{ loading: "Page of 100", failed: "The list could not be read", action: "agent:list" }}
          columns={[
            { head: "Agent", sort: "id", cell: (a) => <a href={link("agents", a.agent_id)}><Code>{a.agent_id}</Code></a> },
            { head: "State", sort: "status", cell: (a) => <State is={a.status} /> },
            { head: "Since", sort: "since", cell: (a) => <Time at={a.since} />, small: "hide" },
            { head: "Name", sort: "name", cell: (a) => a.name ?? "", small: "hide" },
            { head: "Type", sort: "type", cell: (a) => kinds[a.type] ?? a.type, small: "hide" },
            { head: "Owner", cell: (a) => a.owner, small: "hide" },
          ]}
          empty={
            filtered ? (
              <Empty title="No agent fits" step={<Button onClick={() => setQuery({ find: "", status: "", type: "" })}>Show all</Button>} />
            ) : (
              <Empty title="No agents yet" step={<a class="btn" href={link({ first: "1" })}>Connect a device</a>}>
                Three lines connect the first.
              </Empty>
            )
          }
        />
      </Panel>
    </>
  );
}

function Skills() {
  useTitle("Skills");
  const params = { text: query("find") || undefined };
  const rows = useRows<Skill>("skill.discover", params, "skills", { on: ["skill", "agent"] });
  useShown({ command: "skill.discover", params }, [["J K", "move"], ["Enter", "open"]]);
  return (
    <>
      <Head crumb="Agents" title={rows.at ? count(rows.total, "skill") : "Skills"} />
      <div class="filters">
        <Both here="skills" />
        <Search label="Find by words" />
        <AsOf />
      </div>
      <Panel key_ tight label="Skills">
        <Table
          of={rows}
          id={(s) => s.skill_id}
          href={(s) => link("skills", s.skill_id)}
          label="Skills"
          words={{ loading: "Page of 100", failed: "The list could not be read", action: "skill:discover" }}
          columns={[
            { head: "Skill", cell: (s) => <a href={link("skills", s.skill_id)}><Code>{s.skill_id}</Code></a> },
            { head: "State", cell: (s) => <State is={s.status} /> },
            { head: "Name", cell: (s) => s.name, small: "hide" },
            { head: "Can", cell: (s) => <span class="cut">{s.capabilities.map(idOf).join(", ")}</span> },
            { head: "Served by", num: true, cell: (s) => (s.agent_ids.length ? count(s.agent_ids.length, "agent") : "its endpoint"), small: "hide" },
          ]}
          empty={<Empty title={params.text ? "No skill fits" : "No skills yet"}>A skill is a named set of capabilities that agents serve.</Empty>}
        />
      </Panel>
    </>
  );
}

const idOf = (c: Skill["capabilities"][number]) => (typeof c === "string" ? c : c.capability_id);

// One agent ---------------------------------------------------------------

function AgentPage({ id }: { id: string }) {
  useTitle(id);
  const agent = useLive("agent.get", { agent_id: id }, { on: ["agent", "skill"], when: (e) => e.family === "skill" || e.data?.agent_id === id });
  return (
    <Answer of={agent} action="agent:get" loading={id} failed={`${id} is not there`} works="It may never have registered, or live in another space.">
      {(a) => <OneAgent a={a} />}
    </Answer>
  );
}

function OneAgent({ a }: { a: Commands["agent.get"]["result"] }) {
  const session = useSession(a.agent_id);
  return (
    <>
      <Head
        crumb={
          <>
            <a href={link("agents")}>Agents</a> / {kinds[a.type] ?? a.type}
          </>
        }
        title={a.agent_id}
        does={session && <Kick client={session.client_id} />}
      >
        <State is={a.status}>{a.since ? `since ${time(a.since)}` : undefined}</State>
      </Head>
      <div class="cols c-side">
        <div class="stack gap">
          <div class="cols c-2">
            <TryIt skills={a.skills} agent={a.agent_id} />
            <PresencePanel a={a} />
          </div>
          {may("agent:doctor") && <Doctor agent={a.agent_id} />}
          {session && may("session:trace") && <Trace key={session.client_id} client={session.client_id} />}
          <Recent of={[`agent/${a.agent_id}`, ...a.skills.slice(0, 3).map((s) => `skill/${s}`)]} />
        </div>
        <div class="stack gap">
          <Panel title="Card">
            <Facts
              of={[
                ["Name", a.name],
                ["Owner", <Code>{a.owner}</Code>],
                ["Registered", <Time at={a.registered_at} />],
                ["Skills", a.skills.length ? a.skills.map((s, i) => [i > 0 && ", ", <a href={link("skills", s)}>{s}</a>]) : "none"],
                ["Endpoints", a.endpoints?.map((e) => <div><Code>{e}</Code></div>)],
                ["Heartbeat", a.last_heartbeat ? <span><Ago at={a.last_heartbeat} /> ago</span> : undefined],
                ["Asked on", <a href={link("topics", { filter: a.request_topic.replace(/[^/]*$/, "#") })} title="Hear its topics"><Code>{a.request_topic}</Code></a>],
                ["Space", <Code>{a.space_id}</Code>],
              ]}
            />
          </Panel>
          <SessionPanel session={session} />
          <Certificate principal={a.owner} agent={a.agent_id} />
        </div>
      </div>
    </>
  );
}

/** What is wrong with an agent, and what to do about it: what most likely is the cause first. */
function Doctor({ agent }: { agent: string }) {
  const [all, setAll] = useState(false);
  const found = useLive("agent.doctor", { agent_id: agent }, { every: 5000, on: ["agent"], when: (e) => e.data?.agent_id === agent });
  return (
    <Panel title="Health" more={<Button quiet onClick={() => setAll(!all)}>{all ? "Hide the checks" : "Show the checks"}</Button>}>
      <Answer of={found} action="agent:doctor" loading={agent} failed="It could not be examined">
        {(r) => (
          <div class="stack">
            {r.healthy && <State is="ok">Nothing is wrong</State>}
            {r.findings.map((f) => (
              <div class={f.severity === "problem" ? "note failed small" : "note small"} key={f.check + f.what}>
                <Mark is={f.severity === "problem" ? "failed" : "late"} />
                <div class="grow">
                  <b>{f.what}</b>
                  <p class="dim">{f.do}</p>
                </div>
              </div>
            ))}
            {all && <Facts of={r.checks.map((c) => [c.check, <span>{c.state}: {c.what}</span>])} />}
          </div>
        )}
      </Answer>
    </Panel>
  );
}

type Session = Commands["session.get"]["result"];

/** The MQTT session of an agent: the one of its id, as agents name themselves. */
function useSession(id: string): Session | undefined {
  const s = useLive(may("session:get") ? "session.get" : undefined, { client_id: id }, { every: 5000, on: ["agent"], when: (e) => e.data?.agent_id === id });
  return s.value.error?.code === "3001" ? undefined : s.value.data;
}

function SessionPanel({ session: s }: { session?: Session }) {
  if (!may("session:get"))
    return (
      <Panel title="MQTT session">
        <p class="dim">
          You see the card, not the session: needs <Code>session:get</Code>. <a href={link("policies", { tab: "ask", action: "session:get" })}>Why?</a>
        </p>
      </Panel>
    );
  if (!s)
    return (
      <Panel title="MQTT session">
        <p class="dim">None under its id. It may come by WebSocket or HTTP, or under a client id of its own.</p>
      </Panel>
    );
  return (
    <Panel title="MQTT session">
      <Facts
        of={[
          ["State", <State is={s.state}>{`MQTT ${s.protocol}${s.listener === "mqtts" ? ", TLS" : ""}`}</State>],
          ["Client id", <Code>{s.client_id}</Code>],
          ["Principal", s.principal],
          ["From", s.remote],
          ["In flight", number(s.inflight)],
          ["Queued", s.queued ? `${number(s.queued)} messages` : "0"],
          ["Subscriptions", (
            <details>
              <summary>{count(s.subscriptions, "filter")}</summary>
              <ul>
                {s.filters.map((f) => (
                  <li>
                    <Code>{f.filter}</Code> <span class="dim">QoS {f.qos}</span>
                  </li>
                ))}
              </ul>
            </details>
          )],
          ["Kept for", s.expiry >= 4294967295 ? "ever" : s.expiry ? `${duration(s.expiry * 1000)} after it leaves` : "not kept"],
          ["Will", s.will_topic && <Code>{s.will_topic}</Code>],
        ]}
      />
    </Panel>
  );
}

type Headline = Commands["session.trace.get"]["result"]["headlines"][number];

const mostLines = 200;

/** The packets of a client while it is traced: their headlines, the newest first. */
function useTrace(client: string) {
  const [lines, setLines] = useState<Headline[]>([]);
  const [ends, setEnds] = useState(0);
  const [round, setRound] = useState(0); // of traces that were started here
  useEffect(() => {
    let over = false, after = 0, timer = 0;
    setLines([]);
    const ask = async () => {
      try {
        const got = await call("session.trace.get", { client_id: client, after: after || undefined, limit: 1000 });
        if (over) return;
        after = got.headlines.at(-1)?.n ?? after;
        setEnds(got.ends_at);
        if (got.headlines.length) setLines((known) => [...got.headlines.toReversed(), ...known].slice(0, mostLines));
        if (got.ends_at > Date.now()) timer = window.setTimeout(ask, 1000);
      } catch (e) {
        if (over) return;
        if ((e as Failure).code === "3001") return setEnds(0); // it is not traced
        timer = window.setTimeout(ask, 5000);
      }
    };
    void ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [client, round]);
  return { lines, ends, again: () => setRound((n) => n + 1) };
}

function Trace({ client }: { client: string }) {
  const { lines, ends, again } = useTrace(client);
  const [error, setError] = useState<Failure>();
  const runs = ends > now.value;
  const act = (command: "session.trace.start" | "session.trace.stop") => call(command, { client_id: client }).then(() => (setError(undefined), again()), setError);
  return (
    <Panel
      title="Trace"
      tight={lines.length > 0}
      more={
        <>
          {runs && <span class="small">for {duration(ends - now.value)} more</span>}
          {ends > 0 && <Button quiet not={offNow()} onClick={() => void act("session.trace.stop")}>Forget it</Button>}
          <Button quiet not={offNow() || (runs && "It is traced")} onClick={() => void act("session.trace.start")}>Trace for five minutes</Button>
        </>
      }
    >
      {error && <p class="failed small"><Said error={error} /></p>}
      {lines.length > 0 ? (
        <table class="t">
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Packet</th>
              <th scope="col">About</th>
              <th scope="col" class="no-small">Says</th>
              <th scope="col" class="num no-small">Bytes</th>
            </tr>
          </thead>
          <tbody>
            {lines.map((l) => (
              <tr key={l.n}>
                <td><Time at={l.at} /></td>
                <td class="nowrap">
                  <span aria-hidden="true">{l.from === "client" ? "→ " : "← "}</span>
                  <span class="vh">{l.from === "client" ? "from the client: " : "to the client: "}</span>
                  {l.type}
                </td>
                <td><span class="break">{(l.topic ?? l.filters?.join(", ")) && <Code>{l.topic ?? l.filters?.join(", ")}</Code>}</span></td>
                <td class="no-small">{[l.qos && `QoS ${l.qos}`, l.retain && "retained", l.dup && "again", ...(l.reasons ?? [])].filter(Boolean).join(", ")}</td>
                <td class="num no-small">{l.size ? number(l.size) : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="small dim">{runs ? "It has sent and got nothing since." : "Each packet that it sends and gets, without what it carries. That it was traced, and by whom, stands in the audit."}</p>
      )}
    </Panel>
  );
}

function Kick({ client }: { client: string }) {
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState<Failure>();
  if (!may("session:kick")) return null;
  const kick = () => call("session.kick", { client_id: client }).then(() => setError(undefined), setError);
  return (
    <>
      {error && <Said error={error} />}
      <Button not={offNow()} onClick={() => setAsking(true)}>
        Kick
      </Button>
      {asking && (
        <Confirm title={`Disconnect ${client}`} act={`Disconnect ${client}`} onAct={kick} onClose={() => setAsking(false)}>
          <p>Its connection ends. It may come back at once, and finds what waited for it.</p>
          <p class="small dim">
            <Code>aibridge session kick {client}</Code>
          </p>
        </Confirm>
      )}
    </>
  );
}

function PresencePanel({ a }: { a: Commands["agent.get"]["result"] }) {
  const to = now.value;
  const changes = a.presence;
  const from = Math.max(to - 24 * 3600e3, changes[0]?.at ?? to);
  const spans: { online: boolean; from: number; to: number }[] = [];
  changes.forEach((c, i) => {
    const end = changes[i + 1]?.at ?? to;
    if (end > from) spans.push({ online: c.status === "online", from: Math.max(c.at, from), to: end });
  });
  const there = spans.filter((s) => s.online).reduce((sum, s) => sum + s.to - s.from, 0);
  const aways = spans.filter((s) => !s.online);
  const last = changes.at(-1);
  return (
    <Panel title="Presence" more={spans.length > 0 && `${((100 * there) / Math.max(1, to - from)).toFixed(1)} % of ${duration(to - from)}`}>
      {last ? (
        <>
          <Presence spans={spans} from={from} to={to} />
          <div class="scale">
            <span>{time(from, false)}</span>
            <span>now</span>
          </div>
          <p class="small dim">
            {last.status === "online" ? "Online" : "Offline"} since {time(last.at)}
            {last.reason && `: ${last.reason}`}. {aways.length > 0 && `Away ${aways.length === 1 ? "once" : `${aways.length} times`}, for ${duration(aways.reduce((sum, s) => sum + s.to - s.from, 0))}.`}
          </p>
        </>
      ) : (
        <p class="dim">It has not been seen since the bridge started.</p>
      )}
    </Panel>
  );
}

function Recent({ of }: { of: string[] }) {
  const [at, setAt] = useState(of.length > 1 ? 1 : 0);
  const resource = of[at] ?? of[0];
  const entries = useLive(may("audit:query") ? "audit.query" : undefined, { resource, limit: 10 }, { every: 5000 });
  return (
    <Panel
      title="Recent commands"
      tight
      more={
        <>
          {of.length > 1 && <Pick label="Of what" value={resource} onPick={(r) => setAt(of.indexOf(r))} of={of.map((r) => ({ id: r, word: r }))} />}
          <a href={link("audit", { resource })}>All</a>
        </>
      }
    >
      {!may("audit:query") ? (
        <div class="empty">
          <p>
            All of it needs <Code>audit:query</Code>.
          </p>
        </div>
      ) : (
        <Answer of={entries} action="audit:query" loading="Newest 10" failed="The audit could not be read">
          {(found) =>
            found.entries.length === 0 ? (
              <Empty title="Nothing yet">Every call will stand here: who, what, with which outcome.</Empty>
            ) : (
              <table class="t">
                <thead>
                  <tr>
                    <th scope="col">When</th>
                    <th scope="col">Command</th>
                    <th scope="col" class="no-small">By</th>
                    <th scope="col">Outcome</th>
                    <th scope="col" class="num no-small">Audit</th>
                  </tr>
                </thead>
                <tbody>
                  {found.entries.map((e) => (
                    <tr key={e.seq}>
                      <td><Time at={e.time} /></td>
                      <td><Code>{e.event}{e.params ? " " + shortOf(e.params) : ""}</Code></td>
                      <td class="no-small">{e.principal}</td>
                      <td><Outcome code={e.code}>{e.code === "ok" ? undefined : e.code}</Outcome></td>
                      <td class="num no-small"><a href={link("audit", { entry: e.seq, bridge: e.bridge_id })}>{number(e.seq)}</a></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )
          }
        </Answer>
      )}
    </Panel>
  );
}

const shortOf = (params: unknown) => {
  const text = JSON.stringify(params);
  return text.length > 80 ? text.slice(0, 79) + "…" : text;
};

function Certificate({ principal, agent }: { principal: string; agent: string }) {
  const mine = useLive(may("cert:list") ? "cert.list" : undefined, { principal: agent, status: "valid", limit: 1 }, { on: ["cert", "security"] });
  const owners = useLive(may("cert:list") && principal !== agent ? "cert.list" : undefined, { principal, status: "valid", limit: 1 }, { on: ["cert", "security"] });
  const [revoking, setRevoking] = useState(false);
  const [reason, setReason] = useState("");
  const [error, setError] = useState<Failure>();
  const c = mine.value.data?.certificates?.[0] ?? owners.value.data?.certificates?.[0];
  if (!may("cert:list")) return null;
  return (
    <Panel title="Certificate" more={c && may("cert:revoke") && <Button quiet danger not={offNow()} onClick={() => setRevoking(true)}>Revoke…</Button>}>
      {c ? (
        <Facts
          of={[
            ["Status", <State is={c.status}>{`${duration(c.expires_at - now.value)} left`}</State>],
            ["Serial", <Code>{c.serial}</Code>],
            ["Of", c.principal],
            ["Authority", c.authority],
            ["May", c.roles?.map((r) => `role ${r}`).join(", ")],
            ["Until", <Time at={c.expires_at} />],
          ]}
        />
      ) : (
        <p class="dim">It has none that is valid. It came in with a key, a token, or by <Code>--dev</Code>.</p>
      )}
      {error && <p class="failed"><Said error={error} /></p>}
      {revoking && c && (
        <Confirm
          title={`Revoke the certificate of ${c.principal}`}
          act={`Revoke ${c.serial}`}
          not={!reason.trim() && "It needs a reason"}
          onAct={() => call("cert.revoke", { serial: c.serial, reason }).then(() => (setError(undefined), mine.reload(), owners.reload()), setError)}
          onClose={() => setRevoking(false)}
        >
          <p>
            Serial <Code>{c.serial}</Code>. Connections that were opened with it end at once. It cannot be undone; the holder needs a new one.
          </p>
          <label class="field">
            <span>
              Reason <small class="dim">required</small>
            </span>
            <input class="in" maxLength={256} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
            <span class="hint">for those who read it later</span>
          </label>
        </Confirm>
      )}
    </Panel>
  );
}

// Try it ------------------------------------------------------------------

function SkillPage({ id }: { id: string }) {
  useTitle(id);
  const skill = useSkill(id);
  return (
    <Answer of={skill} action="skill:discover" loading={id} failed="The skill could not be read">
      {(found) => {
        const s = found.skills.find((s) => s.skill_id === id);
        if (!s) return <Empty title={`There is no skill ${id}`} step={<a href={link("skills")}>All skills</a>} />;
        return (
          <>
            <Head crumb={<a href={link("skills")}>Skills</a>} title={s.skill_id}>
              <State is={s.status} /> <span class="tag">v{s.version}</span>
            </Head>
            <div class="cols c-side">
              <div class="stack gap">
                <TryIt skills={[s.skill_id]} key_ />
                <Recent of={[`skill/${s.skill_id}`]} />
              </div>
              <Panel title="Card">
                <Facts
                  of={[
                    ["Name", s.name],
                    ["About", s.description],
                    ["Type", s.type],
                    ["Agents", s.agent_ids.map((a, i) => [i > 0 && ", ", <a href={link("agents", a)}>{a}</a>])],
                    ["Endpoints", s.endpoints.map((e) => <div><Code>{e}</Code></div>)],
                    ["Space", <Code>{s.space_id}</Code>],
                  ]}
                />
              </Panel>
            </div>
          </>
        );
      }}
    </Answer>
  );
}

const useSkill = (id: string) => useLive(id ? "skill.discover" : undefined, { text: id, limit: 1000 }, { on: ["skill", "agent"] });

/** A form for a capability, made of its schema. Policy is asked while one types. */
export function TryIt({ skills, agent, key_ }: { skills: string[]; agent?: string; key_?: boolean }) {
  const chosen = query("skill") && skills.includes(query("skill")) ? query("skill") : (skills[0] ?? "");
  const found = useSkill(chosen);
  const skill = found.value.data?.skills.find((s) => s.skill_id === chosen);
  if (skills.length === 0)
    return (
      <Panel title="Try it" key_={key_}>
        <p class="dim">{agent} serves no skill.</p>
      </Panel>
    );
  return (
    <Panel
      title="Try it"
      key_={key_}
      more={
        skills.length > 1 ? (
          <select class="in" aria-label="Skill" value={chosen} onChange={(e) => setQuery({ skill: e.currentTarget.value, capability: "" })}>
            {skills.map((s) => (
              <option>{s}</option>
            ))}
          </select>
        ) : (
          <span>
            skill <a href={link("skills", chosen)}>{chosen}</a> {skill?.version}
          </span>
        )
      }
    >
      <Answer of={found} action="skill:discover" loading={chosen} failed="The skill could not be read">
        {() => (skill ? <Try key={chosen} skill={skill} /> : <p class="dim">The skill is gone.</p>)}
      </Answer>
    </Panel>
  );
}

type Done = { at: number; result?: Commands["skill.invoke"]["result"]; error?: Failure; took: number };

function Try({ skill }: { skill: Skill }) {
  const all = skill.capabilities.map((c): Capability => (typeof c === "string" ? { capability_id: c } : c));
  const c = all.find((c) => c.capability_id === query("capability")) ?? all[0];
  const [values, setValues] = useState<Record<string, Record<string, unknown>>>({});
  const [done, setDone] = useState<Done>();
  const [busy, setBusy] = useState(false);
  const [asJSON, setAsJSON] = useState(false);
  const [tried, setTried] = useState(false);
  const id = c?.capability_id ?? "";
  const schema = (typeof c?.params_schema === "object" ? c.params_schema : { type: "object", properties: {} }) as Schema;
  const params = values[id] ?? {};
  const wrong = problems(schema, params);
  if (done?.error?.param) wrong[done.error.param.replace(/^params\./, "")] ??= String(done.error.details.reason ?? done.error.message);
  const needs = Object.keys(problems(schema, params)).length;
  const call_ = { skill_id: skill.skill_id, capability_id: id, params };
  useShown({ command: "skill.invoke", params: call_ }, [["T", "try it"], ["Ctrl Enter", "run"], ["1–9", "capability"]]);
  const run = async () => {
    setTried(true);
    if (needs || busy || offNow()) return;
    setBusy(true);
    const at = Date.now();
    try {
      const result = await call("skill.invoke", call_);
      setDone({ at, result, took: Date.now() - at });
    } catch (e) {
      setDone({ at, error: e as Failure, took: Date.now() - at });
    }
    setBusy(false);
  };
  const keys: Record<string, () => void> = { "Ctrl+Enter": () => void run(), t: () => document.querySelector<HTMLElement>(".try .in, .try button.main")?.focus() };
  all.slice(0, 9).forEach((c, i) => (keys[String(i + 1)] = () => setQuery({ capability: c.capability_id })));
  useKeys(keys);
  useEffect(() => setDone(undefined), [id]);
  const not = offNow() || (needs ? `${needs === 1 ? "one field" : `${needs} fields`} to mend` : "");
  return (
    <form class="stack try" onSubmit={(e) => (e.preventDefault(), void run())}>
      <div class="line apart wrap">
        <Pick label="Capability" value={id} onPick={(v) => setQuery({ capability: v })} of={all.map((c) => ({ id: c.capability_id, word: c.capability_id }))} />
        <span class="line">
          {c?.effect && <span class="tag">{c.effect}</span>}
          {c?.risk && <span class={c.risk === "high" ? "tag risk" : "tag"}>risk {c.risk}</span>}
        </span>
      </div>
      <p class="small dim">
        {c?.description} {c?.idempotent && "Running it twice is as good as once."}
      </p>
      {asJSON ? <Json value={call_} /> : <SchemaForm schema={schema} value={params} wrong={wrong} all={tried} onChange={(v) => (setValues({ ...values, [id]: v }), setDone(done?.error?.param ? undefined : done))} id={`try-${id}`} />}
      <Verdict skill={skill.skill_id} risk={c?.risk} />
      <div class="line wrap">
        <Button main type="submit" not={not}>
          Run {skill.skill_id}.{id}
        </Button>
        <span class="small dim">{busy ? "It is asked" : not}</span>
        <span class="grow" />
        <Button quiet onClick={() => setAsJSON(!asJSON)}>
          {asJSON ? "as a form" : "as JSON"}
        </Button>
      </div>
      <div aria-live="polite">{done && <Ended done={done} />}</div>
    </form>
  );
}

function Ended({ done }: { done: Done }) {
  const { error, result } = done;
  return error ? (
    <div class="note failed small">
      <Mark is={error.denied ? "denied" : error.code === "4007" ? "late" : "failed"} />
      <div class="grow">
        <b>{error.denied ? "Refused." : error.code === "4007" ? "It did not answer in time. It may still act: asked again under the same id, it does not act twice." : "It failed."}</b> <Said error={error} />
      </div>
    </div>
  ) : (
    <div class="stack">
      <State is="ok">
        {duration(done.took)}, at {time(done.at)}
        {result?.agent_id && `, by ${result.agent_id}`}
      </State>
      <Json value={result?.data} />
    </div>
  );
}

/** Whether policy lets the person run it, and which policy says so. */
function Verdict({ skill, risk }: { skill: string; risk?: string }) {
  const asked = useLive(may("policy:explain") ? "policy.explain" : undefined, { action: "skill:invoke", resource: { type: "skill", id: skill } }, { every: 0 });
  const x = asked.value.data;
  if (!may("policy:explain"))
    return may("skill:invoke") ? null : (
      <p class="small">
        <Mark is="denied" /> You may not: needs <Code>skill:invoke</Code>.
      </p>
    );
  if (!x) return null;
  const allowed = x.decision === "allow";
  const by = x.policies[0];
  return (
    <div class={`note small mid ${allowed ? "ok" : "failed"}`}>
      <Mark is={allowed ? "ok" : "denied"} />
      <div class="grow">
        <b>{allowed ? "You may." : "You may not."}</b>{" "}
        {by ? (
          <>
            {allowed ? "Permitted" : "Forbidden"} by <a href={link("policies", by.id)}><Code>{by.id}</Code></a>
            {by.why && `: ${by.why}`}.
          </>
        ) : (
          "No policy permits it."
        )}{" "}
        {(risk === "high" || risk === "ask") && `A model would have to wait for an approval: risk ${plain(risk)}.`}
      </div>
    </div>
  );
}

