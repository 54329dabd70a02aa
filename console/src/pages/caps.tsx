// Caps, groups and scenes: who works together, what they share, who leads.
import {
  Answer, AsOf, Button, call, Code, Confirm, count, Empty, Facts, Failure, Fragment, go, h, Head, link, may, number, offNow, Panel, path, Pick, plain, query, Said, Search, setQuery, State,
  Table, Time, useKeys, useLive, useRows, useShown, useState, useTitle, type Commands,
} from "../core";
import { AddMember } from "./caps/add";
import { GroupPage } from "./caps/group";
import { SceneList, ScenePage, Scenes } from "./caps/scenes";

type Cap = Commands["cap.query"]["result"]["caps"][number];
type Group = Commands["group.list"]["result"]["groups"][number];

export default function Caps() {
  const [first, a, b] = path.value;
  if (first === "scenes") return a && b ? <ScenePage key={`${a}/${b}`} type={a} cap={b} /> : <Scenes head={<Which here="scenes" />} />;
  if (b) return <GroupPage key={`${a}/${b}`} cap={a} group={b} />;
  if (a) return <CapPage key={a} id={a} />;
  return query("show") === "groups" ? <Groups /> : <CapList />;
}

const Which = ({ here }: { here: "caps" | "groups" | "scenes" }) => (
  <span class="pick" role="group" aria-label="What is listed">
    {(["caps", "groups", "scenes"] as const).map((w) => (
      <a href={w === "groups" ? link("caps", { show: "groups" }) : link(w)} aria-current={here === w ? "true" : undefined}>
        {w === "caps" ? "Caps" : w === "groups" ? "Groups" : "Scenes"}
      </a>
    ))}
  </span>
);

function CapList() {
  useTitle("Caps");
  const params = { find: query("find") || undefined, status: query("status") || undefined, sort: query("sort") || undefined };
  const rows = useRows<Cap>("cap.query", params, "caps", { on: ["cap"], when: (e) => !e.name.startsWith("group.data") && !e.name.startsWith("cap.vfs") });
  useShown({ command: "cap.query", params }, [["J K", "move"], ["Enter", "open"]]);
  return (
    <>
      <Head crumb="Caps and scenes" title={rows.at ? count(rows.total, "Cap") : "Caps"} />
      <div class="filters">
        <Which here="caps" />
        <Search label="Find by id, name or skill" />
        <Pick label="State" name="status" of={[{ id: "", word: "all" }, { id: "active", word: "active" }, { id: "inactive", word: "inactive" }]} />
        <AsOf />
      </div>
      <Panel key_ tight label="Caps">
        <Table
          of={rows}
          id={(c) => c.cap_id}
          href={(c) => link("caps", c.cap_id)}
          label="Caps"
          words={{ loading: "Page of 100", failed: "The list could not be read", action: "cap:query" }}
          columns={[
            { head: "Cap", sort: "id", cell: (c) => <a href={link("caps", c.cap_id)}><Code>{c.cap_id}</Code></a> },
            { head: "State", sort: "status", cell: (c) => <Activity is={c.status} /> },
            { head: "Name", sort: "name", cell: (c) => <span class="cut on">{c.cap_name}</span>, small: "hide" },
            { head: "Of skill", sort: "skill", cell: (c) => <a href={link("skills", c.skill_id)}>{c.skill_id}</a>, small: "hide" },
            { head: "Groups", sort: "groups", num: true, cell: (c) => number(c.groups) },
            { head: "Files", cell: (c) => (c.sync_enabled ? (c.sync_type === "SCHEDULED" ? "mirrored by schedule" : "mirrored") : <span class="dim">not mirrored</span>), small: "hide" },
            { head: "Changed", sort: "updated_at", cell: (c) => <Time at={c.updated_at} />, small: "hide" },
          ]}
          empty={
            params.find || params.status ? (
              <Empty title="No Cap fits" step={<Button onClick={() => setQuery({ find: "", status: "" })}>Show all</Button>} />
            ) : (
              <Empty title="No Caps yet" step={<Code>aibridge call cap.declare cap_id=climate cap_name=Climate skill_id=heating</Code>}>
                A Cap is a channel in which skills work together: groups of members, links between them, values and files that they share.
              </Empty>
            )
          }
        />
      </Panel>
    </>
  );
}

function Groups() {
  useTitle("Groups");
  const params = { find: query("find") || undefined, sort: (query("sort") as "id") || undefined };
  useShown({ command: "group.list", params }, [["J K", "move"], ["Enter", "open"]]);
  return (
    <>
      <Head crumb="Caps and scenes" title="Groups" />
      <div class="filters">
        <Which here="groups" />
        <Search label="Find by group or Cap" />
        <AsOf />
      </div>
      <Panel key_ tight label="Groups">
        <GroupTable params={params} whole />
      </Panel>
    </>
  );
}

/** Groups, of all Caps or of one. */
function GroupTable({ params, whole }: { params: Commands["group.list"]["params"]; whole?: boolean }) {
  const rows = useRows<Group>("group.list", params, "groups", { on: ["cap"], when: (e) => !e.name.startsWith("cap.vfs") && (whole || e.data?.cap_id === params.cap_id) });
  const href = (g: Group) => link("caps", g.cap_id, g.group_id);
  return (
    <Table
      of={rows}
      id={(g) => `${g.cap_id}/${g.group_id}`}
      href={href}
      label="Groups"
      words={{ loading: "Page of 100", failed: "The groups could not be read", action: "group:list" }}
      columns={[
        { head: "Group", sort: "id", cell: (g) => <a href={href(g)}><Code>{whole ? `${g.cap_id}/${g.group_id}` : g.group_id}</Code></a> },
        { head: "There", cell: (g) => <State is={g.online === 0 ? "offline" : g.online < g.members ? "partial" : "online"} word={`${number(g.online)} of ${number(g.members)}`} /> },
        { head: "Members", sort: "members", num: true, cell: (g) => number(g.members), small: "hide" },
        { head: "Links", num: true, cell: (g) => number(g.links), small: "hide" },
        { head: "Values", num: true, cell: (g) => number(g.data) },
        { head: "Since", sort: "born_at", cell: (g) => <Time at={g.born_at} />, small: "hide" },
      ]}
      empty={
        params.find ? (
          <Empty title="No group fits" step={<Button onClick={() => setQuery({ find: "" })}>Show all</Button>} />
        ) : (
          <Empty title="No groups yet">{whole ? "You see the groups that you take part in, and those of your Caps." : "The first member makes a group. You see those that you take part in."}</Empty>
        )
      }
    />
  );
}

const Activity = ({ is }: { is: string }) => <State is={is === "active" ? "active" : "suspended"} word={is} shape={is === "active" ? undefined : "cancelled"} />;

// One Cap -------------------------------------------------------------------

function CapPage({ id }: { id: string }) {
  useTitle(`Cap ${id}`);
  const found = useLive("cap.query", { cap_id: id }, { on: ["cap"], when: (e) => e.data?.cap_id === id && /^cap\.(declared|updated|removed)|^group\.member/.test(e.name) });
  return (
    <Answer of={found} action="cap:query" loading={id} failed="The Cap could not be read">
      {({ caps: [c] }) => (c ? <OneCap c={c} reload={found.reload} /> : <Empty title={`There is no Cap ${id}`} step={<a href={link("caps")}>All Caps</a>} />)}
    </Answer>
  );
}

function OneCap({ c, reload }: { c: Cap; reload: () => void }) {
  useShown({ command: "cap.query", params: { cap_id: c.cap_id } }, may("group:member.add") ? [["N", "add a member"]] : []);
  useKeys({ n: () => (may("group:member.add") ? setQuery({ add: "1" }) : false) });
  return (
    <>
      <Head crumb={<a href={link("caps")}>Caps</a>} title={c.cap_id} does={<CapActs c={c} reload={reload} />}>
        <Activity is={c.status} />
      </Head>
      <div class="cols c-side">
        <div class="stack gap">
          <Panel key_ tight title="Groups" more={may("group:member.add") && <Button quiet onClick={() => setQuery({ add: query("add") ? "" : "1" })}>Add a member</Button>}>
            {query("add") && <AddMember cap={c.cap_id} onDone={() => setQuery({ add: "" })} />}
            <GroupTable params={{ cap_id: c.cap_id, sort: query("sort") as "id" || undefined }} />
          </Panel>
          <Panel tight title="Scenes" more="with this Cap as their channel">
            <SceneList params={{ cap_id: c.cap_id }} empty={<Empty title="No scene uses it">A scene is declared by a RouteAgent, which then leads those who join.</Empty>} />
          </Panel>
        </div>
        <div class="stack gap">
          <Panel title="Card">
            <Facts
              of={[
                ["Name", c.cap_name],
                ["About", c.cap_desc],
                ["Of skill", <a href={link("skills", c.skill_id)}>{c.skill_id}</a>],
                ["Kind", c.cap_type],
                ["Links", c.link_type === "bidirectional" ? "in both directions" : c.link_type],
                ["A group holds", c.max_members && `at most ${count(c.max_members, "member")}`],
                ["Scenes", c.supported_scenes?.join(", ") || "any"],
                ["Declared", <Time at={c.declared_at} />],
                ["Changed", <Time at={c.updated_at} />],
                ["Revision", number(c.revision)],
                ["Audit", may("audit:query") && <a href={link("audit", { resource: `cap/${c.cap_id}` })}>who changed it</a>],
              ]}
            />
          </Panel>
          <Mirror c={c} />
        </div>
      </div>
    </>
  );
}

/** Where the Cap's files stand, in three lines; the page Files has the rest. */
function Mirror({ c }: { c: Cap }) {
  const status = useLive(c.sync_enabled && may("cap:vfs.sync.status") ? "cap.vfs.sync.status" : undefined, { cap_id: c.cap_id, limit: 1 }, { on: ["cap"], when: (e) => e.data?.cap_id === c.cap_id && e.name.startsWith("cap.vfs") });
  return (
    <Panel title="Files" more={c.sync_enabled && <a href={link("files", { tab: "sync", cap: c.cap_id })}>Open</a>}>
      {!c.sync_enabled ? (
        <p class="dim">Not mirrored: it was declared without.</p>
      ) : (
        <Answer of={status} action="cap:vfs.sync.status" loading="Where its files stand" failed="Where its files stand could not be read">
          {(s) => (
            <Facts
              of={[
                ["State", <State is={s.paused ? "pending" : s.sync_status} word={s.paused ? "paused" : undefined} shape={s.paused ? "cancelled" : s.sync_status === "synced" ? "ok" : s.sync_status === "syncing" ? "acting" : undefined} />],
                ["Behind", s.pending || s.failed ? `${number(s.pending)} wait, ${number(s.failed)} failed` : undefined],
                ["Conflicts", s.conflicts ? count(s.conflicts, "kept copy", "kept copies") : undefined],
                ["Compared", s.last_sync_time ? <Time at={s.last_sync_time} /> : "never"],
                ["Folders", s.folders?.length ? `of ${count(s.folders.length, "device")}` : undefined],
                ["When both changed", plain(c.sync_conflict ?? "remote_wins")],
              ]}
            />
          )}
        </Answer>
      )}
    </Panel>
  );
}

function CapActs({ c, reload }: { c: Cap; reload: () => void }) {
  const [removing, setRemoving] = useState(false);
  const [error, setError] = useState<Failure>();
  const off = c.status === "active";
  const toggle = () => call("cap.update", { cap_id: c.cap_id, cap_info: { status: off ? "inactive" : "active" }, revision: c.revision }).then(() => (setError(undefined), reload()), setError);
  const force = c.groups > 0;
  return (
    <>
      {error && <span class="failed small" role="alert"><Said error={error} /></span>}
      {may("cap:update") && <Button not={offNow()} onClick={toggle}>{off ? "Put at rest" : "Let it work"}</Button>}
      {may("cap:remove") && <Button danger not={offNow()} onClick={() => setRemoving(true)}>Remove…</Button>}
      {removing && (
        <Confirm title={`Remove the Cap ${c.cap_id}`} act={`Remove ${c.cap_id}`} onAct={() => call("cap.remove", { cap_id: c.cap_id, ...(force ? { force } : {}) }).then(() => go(link("caps")), setError)} onClose={() => setRemoving(false)}>
          <p>{force ? `Its ${count(c.groups, "group")} end with it: members, links and values are gone.` : "It has no groups."} Its files stay in the VFS.</p>
          <p class="small dim"><Code>aibridge call cap.remove cap_id={c.cap_id}{force && " force=true"}</Code></p>
        </Confirm>
      )}
    </>
  );
}
