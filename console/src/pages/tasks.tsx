// Tasks: what runs. A task: how many did it, who did not, why.
import {
  Answer, AsOf, Button, call, Code, Confirm, count, duration, Empty, Facts, Failure, Fragment, go, h, Head, Json, link, Mark, may, ms, now, number, offNow, Panel,
  path, Pick, plain, query, Said, Search, setQuery, shapeOf, State, Table, Time, time, useEffect, useKeys, useLive, useRef, useRows, useShown, useState, useTitle,
  type Commands, type ComponentChildren, type Rows, type Shape,
} from "../core";

type Task = Commands["task.get"]["result"];
type Group = NonNullable<Task["group"]>;
type Member = NonNullable<Group["members"]>[number];

export default function Tasks() {
  const id = path.value[1];
  return id ? <TaskPage key={id} id={id} /> : <TaskList />;
}

/** What a task is, in a few words: climate/hall-b set. */
const nameOf = (t: Task) => (t.group ? `${t.group.cap_id}/${t.group.group_id} ${t.group.capability_id}` : t.command);

// The list ------------------------------------------------------------------

const states = ["complete", "partial", "succeeded", "failed", "cancelled"] as const;

function TaskList() {
  useTitle("Tasks");
  const state = query("state");
  const params = {
    find: query("find") || undefined, state: state && state !== "unfinished" ? state : undefined, unfinished: state === "unfinished" || undefined,
    principal: query("principal") || undefined, cap_id: query("cap") || undefined, group_id: query("group") || undefined, sort: query("sort") || undefined,
  };
  const rows = useRows<Task>("task.list", params, "tasks", { on: ["task"] });
  useShown({ command: "task.list", params }, [["J K", "move"], ["Enter", "open"]]);
  const chips = (["principal", "cap", "group"] as const).filter((name) => query(name));
  const filtered = params.find || state || chips.length > 0;
  return (
    <>
      <Head crumb="Tasks" title={rows.at ? count(rows.total, "task") : "Tasks"} />
      <div class="filters">
        <Search label="Find by id, command or group" />
        <Pick
          label="State"
          name="state"
          of={[{ id: "", word: "all" }, { id: "unfinished", word: <><Mark is="acting" /> running</> }, ...states.map((s) => ({ id: s, word: <><Mark is={shapeOf(s)} /> {s}</> }))]}
        />
        {chips.map((name) => (
          <button class="chip" type="button" onClick={() => setQuery({ [name]: "" })} aria-label={`Without the filter ${name}`}>
            <b>{name === "principal" ? "by" : name}</b> {query(name)} <span class="x">×</span>
          </button>
        ))}
        <AsOf />
      </div>
      <Panel key_ tight label="Tasks">
        <Table
          of={rows}
          id={(t) => t.task_id}
          href={(t) => link("tasks", t.task_id)}
          label="Tasks"
          words={{ loading: "Page of 100", failed: "The list could not be read", action: "task:list" }}
          columns={[
            { head: "Task", cell: (t) => <a href={link("tasks", t.task_id)}>{nameOf(t)}</a> },
            { head: "State", sort: "state", cell: (t) => <State is={t.state} /> },
            { head: "Done", cell: (t) => (t.group?.counts ? <Done counts={t.group.counts} /> : "") },
            { head: "By", sort: "principal", cell: (t) => t.principal, small: "hide" },
            { head: "Began", sort: "id", cell: (t) => <Time at={t.started_at} />, small: "hide" },
            { head: "Took", num: true, cell: (t) => took(t), small: "hide" },
            { head: "Command", sort: "command", cell: (t) => <Code>{t.command}</Code>, small: "hide" },
          ]}
          empty={
            filtered ? (
              <Empty title="No task fits" step={<Button onClick={() => setQuery({ find: "", state: "", principal: "", cap: "", group: "" })}>Show all</Button>} />
            ) : (
              <Empty title="No tasks yet" step={<a class="btn" href={link("caps")}>Caps and groups</a>}>
                A task is work that nobody waits for: a command to a group, or one that was sent with async. Dispatch to a group, and it stands here.
              </Empty>
            )
          }
        />
      </Panel>
    </>
  );
}

const ended = (t: Task) => t.ended_at as string | undefined;
const over = (t: Task) => !["pending", "running"].includes(t.state);
const took = (t: Task) => duration((ended(t) ? ms(ended(t)) : now.value) - ms(t.started_at));
const sum = (of: Record<string, number>) => Object.values(of).reduce((a, b) => a + b, 0);

const Done = ({ counts }: { counts: Record<string, number> }) => (
  <span class="line done">
    <span class="nowrap">{number(counts.ok ?? 0)} of {number(sum(counts))}</span>
    <Progress counts={counts} />
  </span>
);

// Its parts -----------------------------------------------------------------

const looks: Record<string, [shape: Shape, colour: string, bar: string]> = {
  ok: ["ok", "ok", "ok"],
  running: ["acting", "acting", "acting hatch"],
  accepted: ["acting", "acting", "acting hatch"],
  pending: ["pending", "muted", "acting hatch"],
  failed: ["failed", "failed", "failed"],
  rejected: ["failed", "failed", "failed"],
  denied: ["denied", "failed", "failed"],
  timed_out: ["late", "warning", "warning"],
  offline: ["away", "muted", "muted hatch"],
  cancelled: ["cancelled", "muted", "muted"],
};
const order = Object.keys(looks);

const MemberState = ({ is, late }: { is: string; late?: boolean }) => (
  <span class="state">
    <Mark is={late ? "late" : looks[is][0]} tone={late ? "warning" : looks[is][1]} />
    {late ? `${plain(is)}, late` : plain(is)}
  </span>
);

const present = (counts: Record<string, number>) => order.filter((s) => counts[s] > 0);

function Progress({ counts, large }: { counts: Record<string, number>; large?: boolean }) {
  return (
    <span class={large ? "progress large" : "progress"} role="img" aria-label={present(counts).map((s) => `${counts[s]} ${plain(s)}`).join(", ")}>
      {present(counts).map((s) => (
        <i class={looks[s][2]} style={{ flex: counts[s] }} />
      ))}
    </span>
  );
}

// One task ------------------------------------------------------------------

function TaskPage({ id }: { id: string }) {
  const task = useLive("task.get", { task_id: id }, { on: ["task"], when: (e) => e.topic.includes(id), every: 15000 });
  useTitle(task.value.data ? `Task ${nameOf(task.value.data)}` : "Task");
  return (
    <Answer of={task} action="task:get" loading="The task and its members" failed="There is no such task" works="Ended tasks are kept for a day; tasks of others are not yours to see.">
      {(t) => (t.group ? <GroupTask t={t} g={t.group} reload={task.reload} /> : <PlainTask t={t} reload={task.reload} />)}
    </Answer>
  );
}

const TaskHead = ({ t, does }: { t: Task; does: ComponentChildren }) => (
  <Head
    crumb={
      <>
        <a href={link("tasks")}>Tasks</a> / {t.command}
      </>
    }
    title={nameOf(t)}
    does={does}
  >
    <span class="tag mono" title={t.task_id}>{t.task_id.length > 18 ? t.task_id.slice(0, 13) : t.task_id}</span>
  </Head>
);

/** A command that was run without its caller waiting. */
function PlainTask({ t, reload }: { t: Task; reload: () => void }) {
  useShown(over(t) ? { command: "task.get", params: { task_id: t.task_id } } : { command: "task.cancel", params: { task_id: t.task_id } }, over(t) ? [] : [["X", "cancel"]]);
  return (
    <>
      <TaskHead t={t} does={<Cancel t={t} reload={reload} />} />
      <div class="cols c-side">
        <div class="stack gap">
          <Panel key_ title={over(t) ? `${plain(t.state).replace(/^./, (c) => c.toUpperCase())} after ${took(t)}` : `Runs for ${took(t)}`} more={<State is={t.state} />}>
            {t.error ? <Failed error={t.error} /> : t.result !== undefined ? <Json value={t.result} /> : t.progress ? <Told data={t.progress.data} event={t.progress.event} /> : <p class="dim">{over(t) ? "It returned nothing." : "It has told nothing yet."}</p>}
          </Panel>
        </div>
        <AskedFor t={t} />
      </div>
    </>
  );
}

const Failed = ({ error }: { error: { code: string; message: string; details: Record<string, unknown> } }) => (
  <div class="stack">
    <p class="line">
      <Mark is="failed" />
      <span>
        <Code>{error.code}</Code> {error.message}
      </span>
    </p>
    {Object.keys(error.details ?? {}).length > 0 && <Json value={error.details} />}
  </div>
);

/** What something told of its work: a meter with words, if it says how far it is. */
function Told({ data, event }: { data: unknown; event?: string }) {
  const said = data as { percent?: number; message?: string } | undefined;
  const percent = typeof said?.percent === "number" ? Math.min(100, Math.max(0, said.percent)) : undefined;
  if (percent === undefined && !said?.message) return data === undefined ? <span>{event}</span> : <Code>{short(data)}</Code>;
  return (
    <span class="line told">
      {percent !== undefined && (
        <span class="meter acting" aria-hidden="true">
          <i style={{ width: `${percent}%` }} />
        </span>
      )}
      <span>{[said?.message, percent !== undefined && `${Math.round(percent)} %`].filter(Boolean).join(", ")}</span>
    </span>
  );
}

const short = (v: unknown) => {
  const text = JSON.stringify(v) ?? "";
  return text.length > 90 ? text.slice(0, 89) + "…" : text;
};

function GroupTask({ t, g, reload }: { t: Task; g: Group; reload: () => void }) {
  const members = g.members ?? [];
  const counts = g.counts ?? {};
  const done = counts.ok ?? 0;
  const late = members.filter((m) => m.late);
  const chosen = members.find((m) => m.skill_id === query("member"));
  const retry = retryOf(t, g);
  useShown(retry ? { command: "group.dispatch", params: retry.params } : { command: "task.get", params: { task_id: t.task_id } }, [
    ["← → ↑ ↓", "member"],
    ...(retry && may("group:dispatch") ? ([["R", "retry"]] as [string, string][]) : []),
    ...(over(t) || !may("task:cancel") ? [] : ([["X", "cancel"]] as [string, string][])),
  ]);
  const times = members.filter((m) => m.asked_at && ["ok", "failed", "rejected"].includes(m.state)).map((m) => m.at - m.asked_at!).sort((a, b) => a - b);
  const attempts = members.reduce((n, m) => n + (m.attempts ?? 0), 0);
  return (
    <>
      <TaskHead
        t={t}
        does={
          <>
            {retry && <Retry what={retry} />}
            <Cancel t={t} reload={reload} />
          </>
        }
      />
      <div class="cols c-side">
        <div class="stack gap">
          <Panel key_ title={`${number(done)} of ${number(members.length)} ${done === 1 ? "has" : "have"} done it`} more={<State is={t.state}>{t.error?.message}</State>}>
            <Progress counts={counts} large />
            <div class="legend">
              {present(counts).map((s) => (
                <span class="state">
                  <Mark is={looks[s][0]} tone={looks[s][1]} />
                  {number(counts[s])} {plain(s)}
                </span>
              ))}
              {late.length > 0 && (
                <span class="state">
                  <Mark is="late" tone="warning" />
                  {number(late.length)} of them late
                </span>
              )}
            </div>
            <dl class="facts over">
              <div>
                <dt>Deadline</dt>
                <dd>
                  {time(g.deadline)} <small>{g.deadline > now.value && !over(t) ? `in ${duration(g.deadline - now.value)}` : ended(t) ? `ended ${time(ended(t))}` : "over"}</small>
                </dd>
              </div>
              <div>
                <dt>Complete when</dt>
                <dd>
                  {g.completion === "quorum" || (g.completion === "first" && g.n) ? number(g.n ?? 1) : g.completion} <small>{g.completion === "deadline" ? "has come" : g.completion === "first" ? "to do it" : "have done it"}</small>
                </dd>
              </div>
              <div>
                <dt>Latency p50 / p99</dt>
                <dd>{times.length ? `${duration(at(times, 0.5))} / ${duration(at(times, 0.99))}` : "–"}</dd>
              </div>
              <div>
                <dt>Attempts</dt>
                <dd>
                  {number(attempts)} <small>for {number(members.length)}</small>
                </dd>
              </div>
            </dl>
          </Panel>
          <Panel
            title="Members"
            more={
              <span>
                {number(members.length)} · Cap <a href={link("caps", g.cap_id)}>{g.cap_id}</a> / group <a href={link("caps", g.cap_id, g.group_id)}>{g.group_id}</a>
              </span>
            }
          >
            {members.length <= 200 ? <Matrix members={members} chosen={chosen?.skill_id} /> : <Heat members={members} />}
          </Panel>
          <Members t={t} g={g} members={members} counts={counts} late={late.length} chosen={chosen?.skill_id} />
        </div>
        <div class="stack gap">
          {chosen && <OneMember m={chosen} t={t} />}
          <AskedFor t={t} />
          {late.length > 0 && (
            <Panel title="Late answers">
              <ul class="stack small">
                {late.slice(0, 20).map((m) => (
                  <li>
                    <Mark is="late" tone="warning" /> <a href={memberLink(m.skill_id)}>{m.skill_id}</a> answered <b>{plain(m.state)}</b>
                    {ended(t) && ` ${duration(m.at - ms(ended(t)))} after the task had ended`}. Nothing ran twice.
                  </li>
                ))}
              </ul>
            </Panel>
          )}
        </div>
      </div>
    </>
  );
}

const at = (sorted: number[], part: number) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];

function memberLink(skill: string) {
  const params = new URLSearchParams(location.search);
  params.set("member", skill);
  return `${location.pathname}?${params}`;
}

/** A cell a member, in the order of the roster. Arrows move, Enter opens. */
function Matrix({ members, chosen }: { members: Member[]; chosen?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [here, setHere] = useState(0);
  const move = (e: KeyboardEvent) => {
    const cells = [...(box.current?.querySelectorAll("a") ?? [])];
    const from = cells.indexOf(document.activeElement as HTMLAnchorElement);
    const row = cells.filter((c) => c.offsetTop === cells[0].offsetTop).length;
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row, Home: -from, End: cells.length - 1 - from }[e.key];
    const to = cells[from + (by ?? 0)];
    if (by === undefined || from < 0 || !to) return;
    e.preventDefault();
    setHere(from + by);
    to.focus();
  };
  return (
    <>
      <div class="matrix" role="group" aria-label={`${count(members.length, "member")} by state`} ref={box} onKeyDown={move}>
        {members.map((m, i) => {
          const [shape, colour] = m.late ? (["late", "warning"] as const) : looks[m.state];
          const words = `${m.skill_id}: ${plain(m.state)}${m.late ? ", late" : ""}`;
          return (
            <a key={m.skill_id} href={memberLink(m.skill_id)} class={`mk-${colour} ${colour}`} title={words} aria-label={words} aria-current={m.skill_id === chosen ? "true" : undefined} tabIndex={i === Math.min(here, members.length - 1) ? 0 : -1} onFocus={() => setHere(i)}>
              <Mark is={shape} tone={colour} />
            </a>
          );
        })}
      </div>
      <p class="small dim under">In the order of the roster, fixed when the task began. Arrow keys move, Enter opens.</p>
    </>
  );
}

/** Many members: a cell for some of them, filled as far as they have come. */
function Heat({ members }: { members: Member[] }) {
  const size = members.length > 2000 ? 100 : 20;
  const cells = Array.from({ length: Math.ceil(members.length / size) }, (_, i) => members.slice(i * size, (i + 1) * size));
  const part = (of: Member[], in_: string[]) => (100 * of.filter((m) => in_.includes(m.state)).length) / of.length;
  return (
    <>
      <div class="heat" role="img" aria-label={`${number(members.length)} members, ${size} a cell`}>
        {cells.map((of) => {
          const bad = part(of, ["failed", "rejected", "denied", "timed_out"]);
          return <i class={of.some((m) => ["running", "accepted", "pending"].includes(m.state)) ? "now" : ""} style={{ "--done": `${part(of, ["ok"])}%`, "--bad": `${bad}%` } as any} />;
        })}
      </div>
      <div class="legend under">
        <span>each cell: {size} members</span>
        <span class="state"><i class="swatch ok" />ok</span>
        <span class="state"><i class="swatch failed" />failed, from the bottom</span>
        <span class="state"><i class="swatch acting" />at work</span>
      </div>
    </>
  );
}

function Members({ t, g, members, counts, late, chosen }: { t: Task; g: Group; members: Member[]; counts: Record<string, number>; late: number; chosen?: string }) {
  const undone = members.length - (counts.ok ?? 0);
  const show = query("show") || (undone ? "undone" : "all");
  const found = members.filter((m) => show === "all" || (show === "undone" ? m.state !== "ok" : show === "late" ? m.late : m.state === show));
  const sorted = sortMembers(found, query("sort"));
  const rows: Rows<Member> = { rows: sorted, total: sorted.length, more: false, loading: false, at: now.peek(), next: () => {}, reload: () => {} };
  const tab = (id: string, n: number, is?: string) => ({ id, word: <>{is && <Mark is={looks[is][0]} tone={looks[is][1]} />} {plain(id === "undone" ? "not done" : id)} {number(n)}</> });
  return (
    <Panel tight label="Members by state">
      <div class="filters inner">
        <Pick
          label="Filter by state"
          value={show}
          onPick={(v) => setQuery({ show: v })}
          of={[tab("all", members.length), ...(undone ? [tab("undone", undone)] : []), ...present(counts).filter((s) => s !== "ok").map((s) => tab(s, counts[s], s)), ...(late ? [{ id: "late", word: <><Mark is="late" tone="warning" /> late {number(late)}</> }] : [])]}
        />
      </div>
      <Table
        of={rows}
        tall={rows.rows.length > 20}
        cards
        id={(m) => m.skill_id}
        chosen={chosen}
        href={(m) => memberLink(m.skill_id)}
        label="Members"
        words={{ loading: "", failed: "", action: "task:get" }}
        columns={[
          { head: "State", sort: "state", cell: (m) => <MemberState is={m.state} late={m.late} /> },
          { head: "Skill", sort: "skill", cell: (m) => <a href={memberLink(m.skill_id)}>{m.skill_id}</a> },
          { head: "Role", cell: (m) => m.role ?? "" },
          { head: "Attempts", num: true, cell: (m) => (m.attempts ? number(m.attempts) : "–") },
          { head: "Latency", num: true, sort: "latency", cell: (m) => latency(m) },
          { head: "Answer", cell: (m) => <span class="cut wide-answer">{answerOf(m, t, g)}</span> },
          { head: "Since", sort: "since", cell: (m) => <Time at={m.at} /> },
        ]}
        empty={<Empty title={show === "undone" ? "Everybody has done it" : "Nobody is in this state"} shape={show === "undone" ? "ok" : undefined} />}
      />
    </Panel>
  );
}

const sorts: Record<string, (m: Member) => number | string> = {
  state: (m) => order.indexOf(m.state), skill: (m) => m.skill_id, since: (m) => m.at, latency: (m) => (m.asked_at ? m.at - m.asked_at : -1),
};

function sortMembers(of: Member[], by: string) {
  const key = sorts[by.replace(/^-/, "")];
  if (!key) return of;
  const way = by.startsWith("-") ? -1 : 1;
  return [...of].sort((a, b) => (key(a) < key(b) ? -way : key(a) > key(b) ? way : 0));
}

/** How long it took to answer; of one at work, how long it has been. */
function latency(m: Member) {
  if (!m.asked_at) return "–";
  return duration((["pending", "accepted", "running"].includes(m.state) ? now.value : m.at) - m.asked_at);
}

function answerOf(m: Member, t: Task, g: Group) {
  if (m.error)
    return (
      <>
        <Code>{m.error.code}</Code> {m.error.message}
      </>
    );
  switch (m.state) {
    case "running":
      return <Told data={m.progress} event="at work" />;
    case "accepted":
      return <span class="dim">accepted; it is at work</span>;
    case "pending":
      return <span class="dim">asked; no answer yet</span>;
    case "offline":
      return <span class="dim">{over(t) ? "was not there" : `asked when it comes back, until ${time(g.deadline)}`}</span>;
  }
  return m.data_dropped ? <span class="dim">more than is kept</span> : m.data === undefined ? "" : <Code>{short(m.data)}</Code>;
}

function OneMember({ m, t }: { m: Member; t: Task }) {
  return (
    <Panel title={m.skill_id} more={<a href={closed()}>Close</a>}>
      <div class="stack">
        <Facts
          of={[
            ["State", <MemberState is={m.state} late={m.late} />],
            ["Role", m.role],
            ["Asked", m.asked_at ? <Time at={m.asked_at} /> : "not yet"],
            ["Attempts", m.attempts ? number(m.attempts) : undefined],
            [["ok", "failed", "rejected"].includes(m.state) ? "Answered" : "Since", <Time at={m.at} />],
            ["Latency", m.asked_at ? latency(m) : undefined],
            ["By agent", m.agent_id && <a href={link("agents", m.agent_id)}>{m.agent_id}</a>],
          ]}
        />
        {m.progress !== undefined && <Told data={m.progress} />}
        {m.error && <Json value={m.error} />}
        {m.data !== undefined && <Json value={m.data} />}
        {m.data_dropped && <p class="small dim">Its answer was more than is kept: 64 KiB, or 512 KiB of all members together.</p>}
        {m.state === "timed_out" && <p class="small dim">It may have run it: nobody can tell before it answers.</p>}
        <p class="line wrap">
          {m.agent_id && <a href={link("agents", m.agent_id)}>Open the agent</a>}
          <a href={link("skills", m.skill_id)}>Open the skill</a>
        </p>
        {t.group && <Retry what={dispatchTo(t, t.group, [m])} quiet />}
      </div>
    </Panel>
  );
}

function closed() {
  const params = new URLSearchParams(location.search);
  params.delete("member");
  return location.pathname + (params.size ? `?${params}` : "");
}

function AskedFor({ t }: { t: Task }) {
  const g = t.group;
  const roles = [...new Set(g?.members?.map((m) => m.role).filter(Boolean))].slice(0, 6);
  const approvals = useLive(t.trace_id && may("approval:list") ? "approval.list" : undefined, { trace_id: t.trace_id, limit: 1 }, { on: ["approval"] });
  const approval = approvals.value.data?.approvals[0];
  return (
    <Panel title="Asked for">
      <Facts
        of={[
          ["What", g ? <Code>{g.capability_id} {g.params === undefined ? "" : JSON.stringify(g.params)}</Code> : <Code>{t.command}</Code>],
          ["Whom", g && (roles.length ? <>role {roles.map((r, i) => [i > 0 && ", ", <Code>{r}</Code>])}</> : count(g.members?.length ?? 0, "member"))],
          ["By", <a href={link("tasks", { principal: t.principal })}>{t.principal}</a>],
          ["Began", <Time at={t.started_at} />],
          ["Ended", ended(t) && <><Time at={ended(t)} /> <span class="dim">after {took(t)}</span></>],
          ["Approval", approvals.value.data && (approval ? <a href={link("approvals", approval.approval_id)}>{plain(approval.state)}</a> : "not needed")],
          ["Audit", t.trace_id && may("audit:query") && <a href={link("audit", { trace: t.trace_id })}>who did what</a>],
          ["Trace", t.trace_id && <Code>{t.trace_id}</Code>],
          ["Task", <Code>{t.task_id}</Code>],
        ]}
      />
    </Panel>
  );
}

// Acts ----------------------------------------------------------------------

interface Again {
  params: Commands["group.dispatch"]["params"];
  members: Member[];
  word: string; // "2 failed"
}

/** The same for some of the members, as a new task. */
const dispatchTo = (t: Task, g: Group, members: Member[], word = members[0].skill_id): Again => ({
  word, members,
  params: {
    cap_id: g.cap_id, group_id: g.group_id, capability_id: g.capability_id, ...(g.params ? { params: g.params as Record<string, unknown> } : {}),
    target: { skill_ids: members.map((m) => m.skill_id) }, deadline_ms: Math.max(1000, g.deadline - ms(t.started_at)),
  },
});

/** Who would be asked again: those of the state that is shown, else those that failed. */
function retryOf(t: Task, g: Group): Again | undefined {
  const show = query("show");
  const open = ["ok", "pending", "accepted", "running", ...(over(t) ? [] : ["offline"])];
  const wanted = order.includes(show) && !open.includes(show) ? [show] : ["failed", "rejected"];
  const members = (g.members ?? []).filter((m) => wanted.includes(m.state));
  return members.length ? dispatchTo(t, g, members, `${number(members.length)} ${wanted.length > 1 ? "failed" : plain(show)}`) : undefined;
}

function Retry({ what, quiet }: { what: Again; quiet?: boolean }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Failure>();
  const id = quiet ? undefined : "retry";
  useKeys(quiet ? {} : { r: () => document.getElementById("retry")?.querySelector("button")?.focus() });
  if (!may("group:dispatch")) return null;
  const mayTwice = what.members.some((m) => m.state === "timed_out");
  const run = async () => {
    setBusy(true);
    setError(undefined);
    try {
      go(link("tasks", (await call("group.dispatch", what.params)).task_id));
    } catch (e) {
      setError(e as Failure);
    }
    setBusy(false);
  };
  return (
    <span class="line wrap" id={id}>
      {error && <span class="failed small" role="alert"><Said error={error} /></span>}
      <Button not={offNow() || (busy && "It is asked")} onClick={run}>
        {quiet ? `Ask ${what.word} again` : `Retry ${what.word}`} {!quiet && <kbd>R</kbd>}
      </Button>
      {mayTwice && <span class="small dim">who timed out may run it twice</span>}
    </span>
  );
}

function Cancel({ t, reload }: { t: Task; reload: () => void }) {
  const [asking, setAsking] = useState(false);
  const [reason, setReason] = useState("");
  const [error, setError] = useState<Failure>();
  const can = !over(t) && may("task:cancel");
  useKeys({ x: () => (can && !offNow() ? setAsking(true) : false) });
  useEffect(() => (over(t) ? setAsking(false) : undefined), [t.state]);
  if (!can) return null;
  const params = { task_id: t.task_id, ...(reason ? { reason } : {}) };
  const act = () => call("task.cancel", params).then(reload, setError);
  return (
    <>
      {error && <span class="failed small" role="alert"><Said error={error} /></span>}
      <Button danger not={offNow()} onClick={() => setAsking(true)}>
        Cancel task
      </Button>
      {asking && (
        <Confirm title={`Cancel ${nameOf(t)}`} act="Cancel task" onAct={act} onClose={() => setAsking(false)}>
          <p>{t.group ? "Who has no answer yet is told to stop, and who is away is not asked any more. What was done stays done." : "It is told to stop. What it has done stays done."}</p>
          <div class="field">
            <label class="lab" for="cancel-reason">Reason, for those who look later</label>
            <input class="in" id="cancel-reason" maxLength={256} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
          </div>
          <p class="small dim">
            <Code>aibridge call task.cancel task_id={t.task_id}</Code>
          </p>
        </Confirm>
      )}
    </>
  );
}
