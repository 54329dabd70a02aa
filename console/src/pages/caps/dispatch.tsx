// Having the members of a group do something: a form from the schema of their
// skill, and then the page of the task.
import {
  Answer, Button, call, Code, count, Failure, Fragment, go, h, link, Mark, may, number, offNow, Panel, problems, query, Said, SchemaForm, setQuery, useKeys, useLive, useShown, useState, type Commands,
  type Schema,
} from "../../core";
import type { Group, Member } from "./group";

type Skill = Commands["skill.discover"]["result"]["skills"][number];
type Capability = Exclude<Skill["capabilities"][number], string>;

export function Dispatch({ g }: { g: Group }) {
  const role = query("role");
  const whom = g.members.filter((m) => !role || m.role === role);
  // Members of one role are mostly alike: one that is there shows what they can.
  const example = whom.find((m) => m.status === "online") ?? whom[0] ?? g.members[0];
  const found = useLive(example && may("group:dispatch") ? "skill.discover" : undefined, { text: example?.skill_id, limit: 100 }, { on: ["skill"] });
  const skill = found.value.data?.skills.find((s) => s.skill_id === example?.skill_id);
  if (!may("group:dispatch"))
    return (
      <Panel title="Have them do something">
        <Unshown g={g} />
        <p class="small dim">You look on: commands to a group need <Code>group:dispatch</Code>. <a href={link("policies", { tab: "ask", action: "group:dispatch" })}>Why?</a></p>
      </Panel>
    );
  return (
    <Panel title="Have them do something" key_>
      <Answer of={found} action="skill:discover" loading="What they can do" failed="What they can do could not be read">
        {() => (skill && whom.length ? <Form key={skill.skill_id} g={g} whom={whom} skill={skill} /> : <div><Unshown g={g} /><Whom g={g} whom={whom} /><p class="dim small under">{whom.length ? `${example.skill_id} is not registered: nobody knows what it can do.` : "Nobody has this role."}</p></div>)}
      </Answer>
    </Panel>
  );
}

/** The page as a command, while there is nothing to dispatch. */
function Unshown({ g }: { g: Group }) {
  useShown({ command: "group.query", params: { cap_id: g.cap_id, group_id: g.group_id } });
  return null;
}

function Whom({ g, whom }: { g: Group; whom: Member[] }) {
  const roles = [...new Set(g.members.map((m) => m.role))];
  const there = whom.filter((m) => m.status === "online").length;
  return (
    <div class="field">
      <label class="lab" for="whom">Whom</label>
      <select class="in" id="whom" value={query("role")} onChange={(e) => setQuery({ role: e.currentTarget.value, do: "" })}>
        <option value="">all {count(g.members.length, "member")}</option>
        {roles.length > 1 && roles.map((r) => <option value={r}>{`role ${r}, ${number(g.members.filter((m) => m.role === r).length)}`}</option>)}
      </select>
      {there < whom.length && <span class="hint">{number(whom.length - there)} away: asked when back, until the deadline</span>}
    </div>
  );
}

function Form({ g, whom, skill }: { g: Group; whom: Member[]; skill: Skill }) {
  const all = skill.capabilities.map((c): Capability => (typeof c === "string" ? { capability_id: c } : c));
  const c = all.find((c) => c.capability_id === query("do")) ?? all[0];
  const id = c?.capability_id ?? "";
  const [values, setValues] = useState<Record<string, Record<string, unknown>>>({});
  const [completion, setCompletion] = useState("all");
  const [seconds, setSeconds] = useState("60");
  const [online, setOnline] = useState(false);
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Failure>();
  const schema = (typeof c?.params_schema === "object" ? c.params_schema : { type: "object", properties: {} }) as Schema;
  const params = values[id] ?? {};
  const wrong = problems(schema, params);
  const needs = Object.keys(wrong).length;
  if (error?.param) wrong[error.param.replace(/^params\./, "")] ??= String(error.details.reason ?? error.message);
  const wait = Math.round(Number(seconds) * 1000);
  const role = query("role");
  const asked = {
    cap_id: g.cap_id, group_id: g.group_id, capability_id: id, ...(Object.keys(params).length ? { params } : {}),
    ...(role || online ? { target: { ...(role ? { role } : {}), ...(online ? { online_only: true } : {}) } } : {}),
    ...(completion === "all" ? {} : { completion: completion as "first" }), deadline_ms: wait,
  };
  useShown({ command: "group.dispatch", params: asked }, [["T", "try it"], ["Ctrl Enter", "dispatch"], ["N", "add a member"]]);
  const not = offNow() || (!c && "They can do nothing") || (needs ? `${needs === 1 ? "one field" : `${needs} fields`} to mend` : "") || (wait >= 1000 ? "" : "The deadline is a second or more") || (busy && "They are asked");
  const run = async () => {
    setTried(true);
    if (not) return;
    setBusy(true);
    try {
      go(link("tasks", (await call("group.dispatch", asked)).task_id));
    } catch (e) {
      setError(e as Failure);
    }
    setBusy(false);
  };
  useKeys({ "Ctrl+Enter": () => void run(), t: () => document.querySelector<HTMLElement>(".dispatch .in")?.focus() });
  return (
    <form class="stack dispatch" onSubmit={(e) => (e.preventDefault(), void run())}>
      <Whom g={g} whom={whom} />
      <div class="field">
        <label class="lab" for="do">What</label>
        <select class="in" id="do" value={id} onChange={(e) => setQuery({ do: e.currentTarget.value })}>
          {all.map((c) => <option>{c.capability_id}</option>)}
        </select>
        <span class="hint">{[c?.description?.replace(/[.]$/, ""), whom.length > 1 && `as ${skill.skill_id} declares it`].filter(Boolean).join(", ")}</span>
      </div>
      <SchemaForm schema={schema} value={params} wrong={wrong} all={tried} onChange={(v) => (setValues({ ...values, [id]: v }), setError(undefined))} id={`do-${id}`} />
      <details>
        <summary class="small">Until {completion === "all" ? "all have done it" : completion}, for {seconds} s{online && ", only who is there"}</summary>
        <div class="fields">
          <div class="field">
            <label class="lab" for="completion">Complete when</label>
            <select class="in" id="completion" value={completion} onChange={(e) => setCompletion(e.currentTarget.value)}>
              <option value="all">all have done it</option>
              <option value="quorum">more than half have</option>
              <option value="first">the first has</option>
              <option value="deadline">the deadline comes</option>
            </select>
          </div>
          <div class="field">
            <label class="lab" for="deadline">Deadline</label>
            <span class="unit"><input class="in" id="deadline" inputMode="numeric" value={seconds} onInput={(e) => setSeconds(e.currentTarget.value)} /><span>s</span></span>
          </div>
          <label class="line small"><input type="checkbox" checked={online} onChange={(e) => setOnline(e.currentTarget.checked)} /> only who is there now</label>
        </div>
      </details>
      <Verdict g={g} />
      <div class="line wrap">
        <Button main type="submit" not={not}>Dispatch {id}</Button>
        <span class="small dim">{not}</span>
      </div>
      {error && !error.param && <p class="failed small" role="alert"><Said error={error} /></p>}
    </form>
  );
}

/** Whether policy lets the person do it. Each member is decided by itself, too. */
function Verdict({ g }: { g: Group }) {
  const asked = useLive(may("policy:explain") ? "policy.explain" : undefined, { action: "group:dispatch", resource: { type: "group", id: `${g.cap_id}/${g.group_id}` } }, { every: 0 });
  const x = asked.value.data;
  if (!x) return null;
  const allowed = x.decision === "allow", by = x.policies[0];
  return (
    <div class={`note small mid ${allowed ? "ok" : "failed"}`}>
      <Mark is={allowed ? "ok" : "denied"} />
      <div class="grow">
        <b>{allowed ? "You may." : "You may not."}</b> {by ? <>By <a href={link("policies", by.id)}><Code>{by.id}</Code></a>.</> : "No policy permits it."} Each member is judged by itself, too.
      </div>
    </div>
  );
}
