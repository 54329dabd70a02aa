// A group: who is in it and how they are joined, what they share, and having
// them do something.
import {
  Answer, Button, call, Code, Confirm, count, Facts, Failure, Fragment, h, Head, link, may, now, number, offNow, Panel, query, Said, setQuery, State, Table, Time, useKeys, useLive,
  useState, useTitle, type Commands, type Rows,
} from "../../core";
import { AddMember } from "./add";
import { Data } from "./data";
import { Dispatch } from "./dispatch";
import { Graph, memberLink } from "./graph";

export type Group = Commands["group.query"]["result"];
export type Member = Group["members"][number];

export function GroupPage({ cap, group }: { cap: string; group: string }) {
  useTitle(`${cap}/${group}`);
  const of = { cap_id: cap, group_id: group };
  const found = useLive("group.query", of, {
    on: ["cap", "agent"],
    when: (e) => (e.family === "agent" ? /line$/.test(e.name) : e.data?.cap_id === cap && (e.data.group_id === undefined || e.data.group_id === group) && !/^(group\.data|cap\.vfs)/.test(e.name)),
  });
  return (
    <Answer of={found} action="group:query" loading={`${cap}/${group}`} failed="There is no such group" works="It ends with its last member.">
      {(g) => <OneGroup g={g} reload={found.reload} />}
    </Answer>
  );
}

function OneGroup({ g, reload }: { g: Group; reload: () => void }) {
  const chosen = g.members.find((m) => m.skill_id === query("member"));
  const there = g.members.filter((m) => m.status === "online").length;
  const add = may("group:member.add");
  useKeys({ n: () => (add ? setQuery({ add: "1" }) : false) });
  return (
    <>
      <Head
        crumb={
          <>
            <a href={link("caps")}>Caps</a> / <a href={link("caps", g.cap_id)}>{g.cap_id}</a>
          </>
        }
        title={g.group_id}
        does={may("task:list") && <a class="btn" href={link("tasks", { cap: g.cap_id, group: g.group_id })}>Its tasks</a>}
      >
        <State is={there === 0 ? "offline" : there < g.members.length ? "partial" : "online"} word={`${number(there)} of ${count(g.members.length, "member")} there`} />
      </Head>
      <div class="cols c-side">
        <div class="stack gap">
          <Panel
            title="Members and links"
            more={
              <>
                {g.links.length > 0 && <span class="no-small">{count(g.links.length, "link")}</span>}
                {add && <Button quiet onClick={() => setQuery({ add: query("add") ? "" : "1" })}>Add a member</Button>}
              </>
            }
            tight
          >
            {query("add") && <AddMember cap={g.cap_id} group={g.group_id} onDone={() => (setQuery({ add: "" }), reload())} />}
            <Graph g={g} chosen={chosen?.skill_id} />
            {g.members.length > 8 && <Members g={g} chosen={chosen?.skill_id} />}
          </Panel>
          <Data g={g} />
        </div>
        <div class="stack gap">
          {chosen && <OneMember key={chosen.skill_id} g={g} m={chosen} reload={reload} />}
          <Dispatch g={g} />
          <Panel title="Card">
            <Facts
              of={[
                ["Cap", <a href={link("caps", g.cap_id)}>{g.cap_id}</a>],
                ["Since", <Time at={g.born_at} />],
                ["Revision", number(g.revision)],
                ["Files", <a href={link("files", `${g.cap_id}:${g.group_id}`)}>{g.cap_id}:{g.group_id}</a>],
                ["Audit", may("audit:query") && <a href={link("audit", { resource: `group/${g.cap_id}/${g.group_id}` })}>who changed it</a>],
              ]}
            />
          </Panel>
        </div>
      </div>
    </>
  );
}

const attributes = (m: Member) => Object.entries(m.attributes ?? {}).map(([k, v]) => <span class="tag">{k} {v}</span>);

/** A list of many members; few are told by the picture alone. */
function Members({ g, chosen }: { g: Group; chosen?: string }) {
  const all: Rows<Member> = { rows: g.members, total: g.members.length, more: false, loading: false, at: now.peek(), next: () => {}, reload: () => {} };
  return (
    <div class="part">
      <Table
        of={all}
        tall={g.members.length > 20}
        id={(m) => m.skill_id}
        chosen={chosen}
        href={(m) => memberLink(m.skill_id)}
        label="Members"
        words={{ loading: "", failed: "", action: "group:query" }}
        columns={[
          { head: "Skill", cell: (m) => <a href={memberLink(m.skill_id)}>{m.skill_id}</a> },
          { head: "State", cell: (m) => <State is={m.status} /> },
          { head: "Role", cell: (m) => m.role },
          { head: "Attributes", cell: (m) => <span class="line">{attributes(m)}</span>, small: "hide" },
          { head: "Joined", cell: (m) => <Time at={m.joined_at} />, small: "hide" },
        ]}
        empty=""
      />
    </div>
  );
}

function OneMember({ g, m, reload }: { g: Group; m: Member; reload: () => void }) {
  const [error, setError] = useState<Failure>();
  const [leaving, setLeaving] = useState(false);
  const [role, setRole] = useState(m.role);
  const [to, setTo] = useState("");
  const of = { cap_id: g.cap_id, group_id: g.group_id };
  const done = () => (setError(undefined), reload());
  const links = g.links.filter((l) => l.source_skill_id === m.skill_id);
  const free = g.members.filter((o) => o.skill_id !== m.skill_id && !links.some((l) => l.target_skill_id === o.skill_id));
  const close = memberLink("");
  return (
    <Panel title={m.skill_id} more={<a href={close}>Close</a>}>
      <div class="stack">
        <Facts
          of={[
            ["State", <State is={m.status} />],
            ["Role", may("group:member.update") ? undefined : m.role],
            ["Attributes", m.attributes && <span class="line wrap">{attributes(m)}</span>],
            ["Joined", <Time at={m.joined_at} />],
            ["Skill", <a href={link("skills", m.skill_id)}>open it</a>],
          ]}
        />
        {may("group:member.update") && (
          <form class="field" onSubmit={(e) => (e.preventDefault(), role && role !== m.role && void call("group.member.update", { ...of, skill_id: m.skill_id, role }).then(done, setError))}>
            <label class="lab" for="role">Role</label>
            <span class="line">
              <input class="in" id="role" maxLength={64} value={role} onInput={(e) => setRole(e.currentTarget.value)} />
              {role !== m.role && <Button type="submit" not={offNow() || (!role && "It needs a role")}>Change</Button>}
            </span>
          </form>
        )}
        {links.length > 0 && (
          <ul class="stack tightly" aria-label="Links from here">
            {links.map((l) => (
              <li class="line">
                <span class="grow">to <a href={memberLink(l.target_skill_id)}>{l.target_skill_id}</a> <span class="dim">{l.link_type}</span></span>
                {may("group:link.remove") && (
                  <Button quiet not={offNow()} label={`Unlink ${l.target_skill_id}`} onClick={() => void call("group.link.remove", { ...of, source_skill_id: m.skill_id, target_skill_id: l.target_skill_id }).then(done, setError)}>Unlink</Button>
                )}
              </li>
            ))}
          </ul>
        )}
        {may("group:link.add") && free.length > 0 && (
          <form class="field" onSubmit={(e) => (e.preventDefault(), to && void call("group.link.add", { ...of, source_skill_id: m.skill_id, target_skill_id: to, link_type: links[0]?.link_type ?? "data" }).then(() => (setTo(""), done()), setError))}>
            <label class="lab" for="link-to">Link it to</label>
            <span class="line">
              <select class="in" id="link-to" value={to} onChange={(e) => setTo(e.currentTarget.value)}>
                <option value="">–</option>
                {free.map((o) => <option>{o.skill_id}</option>)}
              </select>
              {to && <Button type="submit" not={offNow()}>Link</Button>}
            </span>
          </form>
        )}
        {error && <p class="failed small" role="alert"><Said error={error} /></p>}
        {may("group:member.remove") && <span><Button danger not={offNow()} onClick={() => setLeaving(true)}>Take it out…</Button></span>}
        {leaving && (
          <Confirm title={`Take ${m.skill_id} out of ${g.group_id}`} act={`Take ${m.skill_id} out`} onAct={() => call("group.member.remove", { ...of, skill_id: m.skill_id }).then(done, setError)} onClose={() => setLeaving(false)}>
            <p>Its links go with it.{g.members.length === 1 && " It is the last member: the group ends, and its values are gone."}</p>
            <p class="small dim"><Code>aibridge call group.member.remove cap_id={g.cap_id} group_id={g.group_id} skill_id={m.skill_id}</Code></p>
          </Confirm>
        )}
      </div>
    </Panel>
  );
}
