// Approvals: who asks, with exactly what, until when. Approve or deny.
import {
  Answer, AsOf, Button, call, canonical, Code, Copy, count, Crossing, dev, Empty, Failure, Fragment, go, h, Head, Icon, Left, link, linkState, Mark, may, NotAllowed, now, number, offNow, Panel,
  path, Pick, query, Said, session, setQuery, State, time, Time, titleOf, limits, unitOf, useEffect, useKeys, useLive, useRef, useRows, useShown, useState, useTitle, duration, Table, lostAt, type Commands, type Schema, type Shape,
} from "../core";

type Approval = Commands["approval.get"]["result"];

export default function Approvals() {
  const id = path.value[1];
  const show = query("show");
  const waiting = useLive("approval.list", { state: "pending", mine: show === "mine" || undefined, sort: "expires_at", limit: 100 }, { on: ["approval"], every: 30000 });
  const pending = waiting.value.data;
  useTitle(pending ? `${number(pending.total)} wait` : "Approvals");
  useEffect(() => {
    document.body.classList.toggle("detail-open", !!id);
    document.body.classList.toggle("list-open", !id);
    return () => document.body.classList.remove("detail-open", "list-open");
  }, [id]);
  if (waiting.value.error?.denied) return <NotAllowed action="approval:list" title="Not yours" />;
  return (
    <>
      <div class={id ? "no-small" : ""}>
        <Head crumb="Approvals" title={pending ? (pending.total ? `${number(pending.total)} wait${pending.total === 1 ? "s" : ""}` : "Nothing waits") : "Approvals"} does={<Notify />} />
      </div>
      {show === "all" && !id ? (
        <History />
      ) : (
        <div class="cols c-list">
          <Inbox waiting={waiting} id={id} />
          {id ? <One key={id} id={id} /> : <Nothing some={!!pending?.total} />}
        </div>
      )}
    </>
  );
}

const Nothing = ({ some }: { some: boolean }) => (
  <section class="panel">
    {some ? (
      <Empty title="Choose an approval" step={<p><kbd>J</kbd> <kbd>K</kbd> move · <kbd>Enter</kbd> open</p>}>
        You see who asks, with exactly which parameters, why, and until when. Nothing runs before somebody agrees.
      </Empty>
    ) : (
      <Empty title="Nothing waits for you" shape="ok" step={<a class="btn" href={link("approvals", { show: "all" })}>History</a>}>
        Models stop here when a call is risky.
      </Empty>
    )}
  </section>
);

const Filters = () => (
  <div class="filters">
    <Pick
      label="State"
      value={query("show")}
      onPick={(v) => go(link("approvals", { show: v }))}
      of={[{ id: "", word: <><Mark is="waiting" /> pending</> }, { id: "mine", word: "mine to decide" }, { id: "all", word: "all" }]}
    />
    <AsOf />
  </div>
);

function Inbox({ waiting, id }: { waiting: { value: any; reload: () => void }; id?: string }) {
  const late = useLive("approval.list", { over: true, limit: 6 }, { on: ["approval"] });
  const pending: Approval[] = waiting.value.data?.approvals ?? [];
  const decided = late.value.data?.approvals ?? [];
  const all = [...pending, ...decided];
  const [at, setAt] = useState(-1);
  const chosen = id ? all.findIndex((a) => a.approval_id === id) : at;
  const move = (by: number) => {
    const next = Math.max(0, Math.min(all.length - 1, chosen + by));
    if (id && all[next]) go(link("approvals", all[next].approval_id, { show: query("show") }));
    setAt(next);
  };
  useKeys(
    {
      j: () => move(1),
      k: () => move(-1),
      Enter: (e) => (!id && all[at] && !(e.target as Element).closest("a,button") ? go(link("approvals", all[at].approval_id)) : false),
      Escape: () => (id ? go(link("approvals", { show: query("show") })) : false),
    },
  );
  return (
    <div>
      <Filters />
      <div class="stack">
        <Panel title="Pending" tight label="Inbox" more="next deadline first">
          <Answer of={waiting} action="approval:list" loading="Up to 100, next deadline first" failed="The list could not be read" works="The approvals themselves are safe and still wait.">
            {() =>
              pending.length ? (
                <ul class="inbox" aria-label="Approvals that wait">
                  {pending.map((a, i) => (
                    <Line a={a} current={a.approval_id === id} chosen={!id && i === at} />
                  ))}
                </ul>
              ) : (
                <Empty title="Nothing waits for you" shape="ok" />
              )
            }
          </Answer>
        </Panel>
        {decided.length > 0 && (
          <Panel title="Decided lately" tight more={<a href={link("approvals", { show: "all" })}>History</a>}>
            <ul class="inbox" aria-label="Decided">
              {decided.map((a, i) => (
                <Line a={a} current={a.approval_id === id} chosen={!id && i + pending.length === at} />
              ))}
            </ul>
          </Panel>
        )}
      </div>
    </div>
  );
}

const shapes: Record<string, Shape> = { pending: "waiting", approved: "ok", used: "ok", denied: "denied", expired: "late", withdrawn: "cancelled" };

const short = (args: unknown) => (args && typeof args === "object" ? Object.values(args).map((v) => (typeof v === "string" ? v : JSON.stringify(v))).join(" · ") : "");

function Line({ a, current, chosen }: { a: Approval; current: boolean; chosen: boolean }) {
  return (
    <li>
      <a class={chosen ? "is-focus" : undefined} href={link("approvals", a.approval_id, { show: query("show") })} aria-current={current ? "true" : undefined}>
        <span class="lead">
          <Mark is={shapes[a.state] ?? "pending"} />
          <b class="cut">{a.tool}</b>
          {a.roster && a.roster.length > 1 && <span class="tag">group</span>}
          <em>{a.state === "pending" ? linkState.value === "live" ? <Left until={a.expires_at} /> : `was ${duration(a.expires_at - lostAt.value)}` : time(a.decided_at ?? a.asked_at, false)}</em>
        </span>
        <span class="args">{short(a.arguments)}</span>
        <span class="small dim cut">{about(a)}</span>
      </a>
    </li>
  );
}

const isMe = (name?: string) => !!name && name === session.value?.principal?.id;

/** Who it is for, or how it ended. */
function about(a: Approval): string {
  switch (a.state) {
    case "pending":
      return isMe(a.requester) && !dev.value ? "you asked; somebody else decides" : `for ${a.requester}`;
    case "approved":
    case "used":
      return `approved by ${isMe(a.decided_by) ? "you" : (a.decided_by ?? "nobody")}${a.reason ? `: ${a.reason}` : ""}${a.state === "used" ? " · ran" : " · not run yet"}`;
    case "denied":
      return `denied by ${isMe(a.decided_by) ? "you" : (a.decided_by ?? "nobody")}${a.reason ? ": " + a.reason : ""}`;
    case "expired":
      return "nobody decided in time";
  }
  return a.reason || "the call ended first";
}

/** Notifications of the browser, when the person asks for them. */
function Notify() {
  const there = "Notification" in window;
  const [is, set] = useState(there ? Notification.permission : "denied");
  if (!there || is !== "default") return null;
  return (
    <span class="no-small">
      <Button onClick={async () => set(await Notification.requestPermission())}>Ask me by notification</Button>
    </span>
  );
}

function History() {
  const params = { sort: query("sort") || undefined, state: (query("state") || undefined) as any };
  const rows = useRows<Approval>("approval.list", params, "approvals", { on: ["approval"] });
  useShown({ command: "approval.list", params }, [["J K", "move"], ["Enter", "open"]]);
  return (
    <>
      <div class="line wrap">
        <Filters />
        <div class="filters">
          <Pick label="Outcome" value={query("state")} onPick={(v) => setQuery({ state: v })} of={["", "used", "denied", "expired", "withdrawn"].map((s) => ({ id: s, word: s || "any" }))} />
        </div>
      </div>
      <Panel key_ tight label="History">
        <Table
          of={rows}
          id={(a) => a.approval_id}
          href={(a) => link("approvals", a.approval_id)}
          label="Approvals"
          words={{ loading: "The latest 100", failed: "The list could not be read", action: "approval:list" }}
          columns={[
            { head: "State", cell: (a) => <State is={a.state} shape={shapes[a.state]} /> },
            { head: "Tool", sort: "tool", cell: (a) => <a href={link("approvals", a.approval_id)}>{a.tool}</a> },
            { head: "With", cell: (a) => <span class="cut mono small">{short(a.arguments)}</span>, small: "hide" },
            { head: "For", sort: "requester", cell: (a) => a.requester, small: "hide" },
            { head: "Asked", sort: "id", cell: (a) => <Time at={a.asked_at} />, small: "hide" },
            { head: "Outcome", cell: about },
          ]}
          empty={<Empty title="Nothing was asked yet">Models stop here when a call is risky.</Empty>}
        />
      </Panel>
    </>
  );
}

// One approval --------------------------------------------------------------

function One({ id }: { id: string }) {
  const approval = useLive("approval.get", { approval_id: id }, { on: ["approval"], when: (e) => e.data?.approval_id === id });
  return (
    <Answer of={approval} action="approval:get" loading="Who asks, with exactly what" failed="This approval is not there" works="It may be in another space, or no longer kept.">
      {(a) => <Detail a={a} reload={approval.reload} />}
    </Answer>
  );
}

/** The capability that a tool stands for, for titles and units of its parameters. */
function useCapability(a: Approval) {
  const dot = a.tool.indexOf(".");
  const skill = a.source === "skill" && dot > 0 ? a.tool.slice(0, dot) : undefined;
  const found = useLive(skill && may("skill:discover") ? "skill.discover" : undefined, { text: skill, limit: 20 }, { every: 0 });
  const s = found.value.data?.skills.find((s) => s.skill_id === skill);
  const c = s?.capabilities.find((c) => typeof c !== "string" && c.capability_id === a.tool.slice(dot + 1));
  return { skill: s, capability: typeof c === "object" ? c : undefined };
}

function Detail({ a, reload }: { a: Approval; reload: () => void }) {
  const { skill, capability } = useCapability(a);
  const risk = capability?.risk;
  const hashed = { arguments: a.arguments, roster: a.roster ?? [], tool: a.tool };
  return (
    <article class="panel key" aria-labelledby="ap">
      <div class="body">
        <a class="btn quiet only-small" href={link("approvals", { show: query("show") })}>
          <Icon is="back" />
          All approvals
        </a>
        <div class="line apart wrap top-line">
          <div>
            <p class="small dim">
              {a.title ?? capability?.name ?? "A tool"} · {a.source ?? "tool"} {skill && <a href={link("skills", skill.skill_id)}>{skill.skill_id}</a>} · asked <Time at={a.asked_at} />
            </p>
            <h1 id="ap" class="tool">
              {a.tool} {risk && <span class={risk === "low" ? "tag" : "tag risk"}>risk {risk}</span>}
            </h1>
          </div>
          <Until a={a} />
        </div>
        <Crossing
          of={[
            { name: a.requester, about: a.requester_kind ?? "principal" },
            { name: "model", about: a.skill_id ? `asked by skill ${a.skill_id}` : a.session_id ? "in a conversation" : "in a query" },
            ...(a.task_id ? [{ name: "run", about: a.task_id }] : []),
            { name: a.state === "pending" ? (isMe(a.requester) && !dev.value ? "Somebody decides" : "You decide") : about(a).split(/[:·]/)[0], about: a.state === "pending" ? a.why : <Time at={a.decided_at} />, gate: true },
            { name: a.roster?.length ? (a.roster.length === 1 ? a.roster[0] : count(a.roster.length, "member")) : a.tool.split(".")[0], about: a.state === "used" ? "let through once" : skill ? skill.status : (a.source ?? ""), ahead: a.state !== "used" },
          ]}
        />
      </div>
      <div class="body part">
        <div class="cols c-2 wide-gap">
          <div class="stack">
            <h2>With exactly this</h2>
            <Params args={a.arguments} schema={typeof capability?.params_schema === "object" ? (capability.params_schema as Schema) : undefined} />
          </div>
          <div class="stack">
            <div class="line apart">
              <h2>As it is hashed</h2>
              <Copy text={canonical(hashed)} />
            </div>
            <pre class="code" tabIndex={0}>
              {canonical(hashed)}
            </pre>
            <p class="small">
              <span class="dim">SHA-256</span> <Code>{a.hash.replace(/(.{4})(?=.)/g, "$1 ")}</Code>
            </p>
            <p class="small dim">The digest covers this, the tool as it is declared, and whom it reaches. The decision holds for it and no other: if one of them changes before it runs, or policy forbids it, it does not run.</p>
          </div>
        </div>
      </div>
      <div class="body part">
        <div class="cols c-2 wide-gap">
          <div class="stack">
            <h2>Why {a.state === "pending" ? "you are asked" : "it was asked"}</h2>
            <p>{a.why}</p>
            {a.roster && a.roster.length > 0 && (
              <>
                <h2>It would reach</h2>
                <ul class="line wrap">
                  {a.roster.map((s) => (
                    <li class="tag">
                      <a href={link("skills", s)}>{s}</a>
                    </li>
                  ))}
                </ul>
              </>
            )}
            {a.state !== "pending" && (
              <>
                <h2>Decided</h2>
                <p class="line wrap">
                  <Mark is={shapes[a.state]} />
                  <b>{about(a)}</b> <span class="dim"><Time at={a.decided_at} /></span>
                </p>
              </>
            )}
          </div>
          <div class="stack">
            <Votes a={a} />
            <Before a={a} />
            <p class="small">
              {a.task_id && <><a href={link("runs", a.task_id)}>Whole run</a> · </>}
              {a.session_id && <><a href={link("runs", a.session_id, { of: "conversation" })}>Whole conversation</a> · </>}
              {a.trace_id && may("audit:query") && <><a href={link("audit", { trace: a.trace_id })}>Who did what</a> · </>}
              {a.trace_id && <>trace <Code>{a.trace_id}</Code></>}
            </p>
          </div>
        </div>
      </div>
      {a.state === "pending" && may("approval:edit") && <Edit key={a.hash} a={a} reload={reload} />}
      {a.state === "pending" && <Equal a={a} reload={reload} />}
      {a.state === "pending" && <Decide a={a} reload={reload} />}
      {a.state !== "pending" && <Shown a={a} />}
    </article>
  );
}

function Shown({ a }: { a: Approval }) {
  useShown({ command: "approval.get", params: { approval_id: a.approval_id } }, [["J K", "next"]]);
  return null;
}

function Until({ a }: { a: Approval }) {
  if (a.state !== "pending") return <State is={a.state} shape={shapes[a.state]} />;
  const lost = linkState.value !== "live";
  return (
    <div class="left-small until">
      <p class="state waiting">
        <Mark is="waiting" />
        {lost ? `was ${duration(a.expires_at - lostAt.value)}` : a.expires_at > now.value ? <Left until={a.expires_at} /> : "time is over"}
      </p>
      <p class="small dim">
        until <Time at={a.expires_at} />; silence denies
      </p>
    </div>
  );
}

/** The arguments with the titles and units of the schema. Text is the model's. */
function Params({ args, schema }: { args: unknown; schema?: Schema }) {
  const entries = args && typeof args === "object" && !Array.isArray(args) ? Object.entries(args) : [["", args] as [string, unknown]];
  if (entries.length === 0) return <p class="dim">Without parameters.</p>;
  return (
    <table class="params">
      <tbody>
        {entries.map(([name, value]) => {
          const s = schema?.properties?.[name];
          const unit = s && unitOf(s);
          const text = typeof value === "string";
          return (
            <tr>
              <th scope="row">
                {titleOf(name, s)} <small>{name}{text && (value as string).length > 20 ? ", written by the model" : ""}</small>
              </th>
              <td class={text && (value as string).length > 40 ? "long" : undefined}>
                {typeof value === "object" && value !== null ? <pre class="code">{JSON.stringify(value, null, 2)}</pre> : <b>{String(value)}</b>} {unit}
                {s && <small>{limits(s) || s.description}</small>}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

const names = (list?: string[]) => (list ?? []).join(", ");

/** Who has agreed, who may, and who may later. */
function Votes({ a }: { a: Approval }) {
  const who = [names(a.deciders?.people), ...(a.deciders?.roles ?? []).map((r) => `role ${r}`)].filter(Boolean).join(", ");
  const later = [names(a.escalates_to?.people), ...(a.escalates_to?.roles ?? []).map((r) => `role ${r}`)].filter(Boolean).join(", ");
  if (!who && !later && !a.needs && !a.changes?.length) return null;
  return (
    <>
      <h2>Who decides</h2>
      {(a.needs ?? 1) > 1 && <p>{a.votes?.length ?? 0} of {a.needs} have agreed</p>}
      {!!a.votes?.length && (
        <ul class="stack small">
          {a.votes.map((v) => (
            <li class="line">
              <Mark is="ok" /> <b>{isMe(v.by) ? "you" : v.by}</b> {v.for && <>for {v.for}</>} <span class="dim"><Time at={v.at} /> {v.reason}</span>
            </li>
          ))}
        </ul>
      )}
      {who && (
        <p class="small">
          {who}
          {Object.entries(a.deciders?.substitutes ?? {}).map(([person, by]) => <>; {by} in place of {person}</>)}
        </p>
      )}
      {later && <p class="small dim">{a.escalated_at ? "Since" : "From"} <Time at={a.escalated_at ?? a.escalates_at} /> also {later}</p>}
      {!!a.changes?.length && (
        <>
          <h2>{a.edited_by ? `Changed by ${isMe(a.edited_by) ? "you" : a.edited_by}` : "Changed"}</h2>
          <ul class="stack small">
            {a.changes.map((c) => <li>{c}</li>)}
            {a.edited_for && <li class="dim">{a.edited_for}</li>}
          </ul>
        </>
      )}
    </>
  );
}

/** Other arguments: another question, to which somebody else agrees. */
function Edit({ a, reload }: { a: Approval; reload: () => void }) {
  const [text, setText] = useState(JSON.stringify(a.arguments, null, 2));
  const [reason, setReason] = useState("");
  const [error, setError] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  let args: unknown;
  try {
    args = JSON.parse(text);
  } catch {
    args = undefined;
  }
  const same = args !== undefined && canonical(args) === canonical(a.arguments);
  const not = offNow() || (busy ? "It is asked" : args === undefined ? "This is no JSON" : same ? "These are the arguments it has" : "");
  const edit = async () => {
    if (not) return;
    setBusy(true);
    setError(undefined);
    try {
      await call("approval.edit", { approval_id: a.approval_id, nonce: a.nonce ?? "", arguments: args, ...(reason ? { reason } : {}) });
    } catch (e) {
      setError(e as Failure);
    }
    setBusy(false);
    reload();
  };
  return (
    <details class="body part">
      <summary>Change the arguments</summary>
      <form class="stack" aria-label="Change the arguments" onSubmit={(e) => (e.preventDefault(), void edit())}>
        <p class="small dim">The changed call is another question: whoever has agreed has not agreed to this, and you do not decide about it alone.</p>
        <label class="lab" for="args">Arguments, as JSON</label>
        <textarea class="in mono" id="args" rows={Math.min(12, text.split("\n").length + 1)} value={text} onInput={(e) => setText(e.currentTarget.value)} />
        <label class="lab" for="edit-why">Why <span class="dimmer">(the model reads it)</span></label>
        <input class="in" id="edit-why" maxLength={500} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
        {error && (
          <span class="err" role="alert">
            <Mark is="failed" />
            <Said error={error} />
          </span>
        )}
        <Button not={not} onClick={() => edit()}>Ask about the changed call</Button>
      </form>
    </details>
  );
}

/** The calls that are equal to this one, decided together. */
function Equal({ a, reload }: { a: Approval; reload: () => void }) {
  const same = useLive("approval.list", { hash: a.hash, state: "pending", mine: true, limit: 100 }, { on: ["approval"] });
  const [said, setSaid] = useState("");
  const [error, setError] = useState<Failure>();
  const others = same.value.data?.approvals ?? [];
  if (others.length < 2 || !may("approval:decide")) return null;
  const decide = async (decision: "approve" | "deny") => {
    setError(undefined);
    try {
      const done = await call("approval.batch", { decision, approvals: others.map((o) => ({ approval_id: o.approval_id, nonce: o.nonce ?? "" })) });
      setSaid(done.failed ? `${done.failed} could not be decided` : "");
    } catch (e) {
      setError(e as Failure);
    }
    reload();
  };
  return (
    <details class="body part">
      <summary>{count(others.length, "equal call")} wait</summary>
      <ul class="stack small">
        {others.map((o) => (
          <li class="line">
            <Mark is="waiting" /> <a href={link("approvals", o.approval_id)}>{o.tool}</a> for {o.requester}, asked <Time at={o.asked_at} />
          </li>
        ))}
      </ul>
      {error && (
        <span class="err" role="alert">
          <Mark is="failed" />
          <Said error={error} />
        </span>
      )}
      {said && <p class="small">{said}</p>}
      <p class="line">
        <Button not={offNow()} onClick={() => decide("deny")}>Deny all {String(others.length)}</Button>
        <Button not={offNow()} onClick={() => decide("approve")}>Approve all {String(others.length)}</Button>
      </p>
    </details>
  );
}

/** The same call before: same tool, arguments and roster. */
function Before({ a }: { a: Approval }) {
  const same = useLive("approval.list", { hash: a.hash, over: true, limit: 4 }, { every: 0 });
  const before = same.value.data?.approvals.filter((b) => b.approval_id !== a.approval_id).slice(0, 3) ?? [];
  return (
    <>
      <h2>This call before</h2>
      {before.length ? (
        <ul class="stack small">
          {before.map((b) => (
            <li class="line">
              <Mark is={shapes[b.state]} />
              <a href={link("approvals", b.approval_id)}><Time at={b.asked_at} seconds={false} /></a> {about(b)}
            </li>
          ))}
        </ul>
      ) : (
        <p class="small dim">{same.value.loading ? "" : "Never: nothing was asked about with this digest."}</p>
      )}
    </>
  );
}

function Decide({ a, reload }: { a: Approval; reload: () => void }) {
  const [reason, setReason] = useState("");
  const [choice, setChoice] = useState<"approve" | "deny" | "">("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Failure>();
  const field = useRef<HTMLInputElement>(null);
  const own = isMe(a.requester) && !dev.value;
  const over = a.expires_at <= now.value;
  const can = may("approval:decide");
  const params = { approval_id: a.approval_id, nonce: a.nonce ?? "", decision: choice || ("approve" as const), ...(reason ? { reason } : {}) };
  useShown({ command: "approval.decide", params, line: `aibridge approvals ${choice || "approve"} ${a.approval_id}` }, [["J K", "next"], ...(can ? ([["A", "approve"], ["D", "deny"], ["Ctrl Enter", "confirm"]] as [string, string][]) : [])]);
  const choose = (what: "approve" | "deny") => {
    setChoice(what);
    field.current?.focus();
  };
  const decide = async (decision: "approve" | "deny") => {
    if (busy || offNow() || over) return;
    setBusy(true);
    setError(undefined);
    try {
      await call("approval.decide", { ...params, decision });
    } catch (e) {
      setError(e as Failure);
    }
    setBusy(false);
    reload();
  };
  useKeys({ a: () => can && choose("approve"), d: () => can && choose("deny"), "Ctrl+Enter": () => (choice ? void decide(choice) : false) });
  if (!can)
    return (
      <p class="body part small">
        <Mark is="denied" /> You may look, not decide: needs <Code>approval:decide</Code>. <a href={link("policies", { tab: "ask", action: "approval:decide" })}>Why?</a>
      </p>
    );
  const not = offNow() || (over ? "The time to decide is over" : busy ? "It is asked" : "");
  return (
    <form class="decide" aria-label="Decide" onSubmit={(e) => (e.preventDefault(), choice && void decide(choice))}>
      <div class="field">
        {error && (
          <span class="err" role="alert">
            <Mark is="failed" />
            <Said error={error} />
          </span>
        )}
        {own && <span class="hint">You asked for it: somebody else decides, unless policy lets you.</span>}
        <label class="lab" for="why">
          Reason <span class="dimmer">(the model reads it when you deny)</span>
        </label>
        <input
          class="in"
          id="why"
          ref={field}
          maxLength={500}
          value={reason}
          placeholder={choice === "deny" ? "Why not" : "Reason, optional when you approve"}
          onInput={(e) => setReason(e.currentTarget.value)}
        />
        {choice && <span class="hint">{choice === "approve" ? "Approve" : "Deny"}: <kbd>Ctrl Enter</kbd> does it.</span>}
      </div>
      <Button big not={not} main={choice === "deny"} onClick={() => decide("deny")}>
        Deny <kbd>D</kbd>
      </Button>
      <Button big main={choice !== "deny"} not={not} onClick={() => decide("approve")}>
        Approve, runs once <kbd>A</kbd>
      </Button>
    </form>
  );
}
