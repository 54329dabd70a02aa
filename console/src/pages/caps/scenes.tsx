// Scenes: who leads, who stands by, who takes part.
import {
  Answer, AsOf, Button, call, Code, Confirm, count, Empty, Facts, Failure, Fragment, go, h, Head, link, Mark, may, number, offNow, Panel, Pick, query, Said, Search, setQuery, State, Table, Time, useLive,
  useRows, useShown, useState, useTitle, type Commands, type ComponentChildren,
} from "../../core";

type Scene = Commands["scene.query"]["result"]["scenes"][number];
type Member = Scene["members"][number];

/** Role of those who lead, or could. */
const routes = (m: Member) => m.skill_role === "agent_route";

export function Scenes({ head }: { head: ComponentChildren }) {
  useTitle("Scenes");
  const params = { find: query("find") || undefined, status: (query("status") as "active") || undefined, sort: (query("sort") as "id") || undefined };
  useShown({ command: "scene.query", params }, [["J K", "move"], ["Enter", "open"]]);
  return (
    <>
      <Head crumb="Caps and scenes" title="Scenes" />
      <div class="filters">
        {head}
        <Search label="Find by type, Cap or member" />
        <Pick label="State" name="status" of={[{ id: "", word: "all" }, { id: "active", word: "led" }, { id: "suspended", word: "without a leader" }]} />
        <AsOf />
      </div>
      <Panel key_ tight label="Scenes">
        <SceneList
          params={params}
          empty={
            params.find || params.status ? (
              <Empty title="No scene fits" step={<Button onClick={() => setQuery({ find: "", status: "" })}>Show all</Button>} />
            ) : (
              <Empty title="No scenes yet" step={<Code>aibridge call scene.declare --help</Code>}>
                A RouteAgent declares a scene over a Cap and leads it. When it goes, a backup takes over by itself.
              </Empty>
            )
          }
        />
      </Panel>
    </>
  );
}

export function SceneList({ params, empty }: { params: Commands["scene.query"]["params"]; empty: ComponentChildren }) {
  const rows = useRows<Scene>("scene.query", params, "scenes", { on: ["scene"], when: (e) => !params.cap_id || e.data?.cap_id === params.cap_id });
  const href = (s: Scene) => link("scenes", s.scene_type, s.cap_id);
  return (
    <Table
      of={rows}
      id={(s) => `${s.scene_type}/${s.cap_id}`}
      href={href}
      label="Scenes"
      words={{ loading: "Page of 100", failed: "The scenes could not be read", action: "scene:query" }}
      columns={[
        { head: "Scene", sort: params.cap_id ? undefined : "id", cell: (s) => <a href={href(s)}><Code>{params.cap_id ? s.scene_type : `${s.scene_type}/${s.cap_id}`}</Code></a> },
        { head: "State", sort: params.cap_id ? undefined : "status", cell: (s) => <State is={s.status} word={s.status === "active" ? "led" : "no leader"} /> },
        { head: "In charge", cell: (s) => s.acting ?? "–", small: "hide" },
        { head: "Backups", num: true, cell: (s) => number(Math.max(0, s.members.filter(routes).length - 1)), small: "hide" },
        { head: "Members", sort: params.cap_id ? undefined : "members", num: true, cell: (s) => number(s.members.length) },
        { head: "Changed", sort: params.cap_id ? undefined : "updated_at", cell: (s) => <Time at={s.updated_at} />, small: "hide" },
      ]}
      empty={empty}
    />
  );
}

export function ScenePage({ type, cap }: { type: string; cap: string }) {
  const name = `${type} over ${cap}`;
  useTitle(name);
  const params = { scene_type: type, cap_id: cap };
  useShown({ command: "scene.query", params });
  const found = useLive("scene.query", params, { on: ["scene", "agent"], when: (e) => (e.family === "scene" ? e.data?.cap_id === cap : /line$/.test(e.name)) });
  return (
    <Answer of={found} action="scene:query" loading={name} failed="The scene could not be read">
      {({ scenes: [s] }) => (s ? <OneScene s={s} reload={found.reload} /> : <Empty title={`There is no scene ${name}`} step={<a href={link("scenes")}>All scenes</a>} />)}
    </Answer>
  );
}

function OneScene({ s, reload }: { s: Scene; reload: () => void }) {
  const leaders = s.members.filter(routes);
  const others = s.members.filter((m) => !routes(m));
  const there = s.members.filter((m) => m.status === "online").length;
  return (
    <>
      <Head
        crumb={
          <>
            <a href={link("scenes")}>Scenes</a> / <a href={link("caps", s.cap_id)}>{s.cap_id}</a>
          </>
        }
        title={s.scene_type}
        does={may("scene:declare.cancel") && <Leave s={s} m={s.members.find((m) => m.skill_id === s.owner) ?? s.members[0]} word="End the scene…" done={() => go(link("scenes"))} />}
      >
        <State is={s.status} word={s.status === "active" ? "led" : "no leader"}>{s.reason}</State>
      </Head>
      <div class="cols c-side">
        <div class="stack gap">
          <Panel key_ title="Who leads" more={s.acting ? undefined : <State is="suspended" word="nobody">{s.suspended_at ? <>since <Time at={s.suspended_at} /></> : undefined}</State>}>
            <ol class="lead" aria-label="RouteAgents, in the order in which they would lead">
              {leaders.map((m) => (
                <li class={m.skill_id === s.acting ? "line acting-one" : "line"}>
                  <Mark is={m.skill_id === s.acting ? "acting" : m.status === "online" ? "ok" : m.status === "suspended" ? "warning" : "away"} />
                  <span class="grow">
                    <a href={link("skills", m.skill_id)}>{m.skill_id}</a> <span class="dim">{m.skill_id === s.acting ? "is in charge" : m.status === "online" ? "stands by" : m.status}{m.skill_id === s.owner && ", the owner"}</span>
                    {m.reason && <span class="warning small"> {m.reason}</span>}
                  </span>
                  {may("scene:declare.cancel") && m.skill_id !== s.owner && <Leave s={s} m={m} word="Take out…" done={reload} quiet />}
                </li>
              ))}
            </ol>
            {leaders.length === 1 && <p class="small dim under">It has no backup: without it the scene stands still.</p>}
          </Panel>
          <Panel tight title="Members" more={`${number(there)} of ${number(s.members.length)} there`}>
            {others.length ? (
              <table class="t cards">
                <thead>
                  <tr>
                    <th scope="col">Skill</th>
                    <th scope="col">Role</th>
                    <th scope="col">State</th>
                    <th scope="col">Joined</th>
                    <th scope="col"><span class="vh">Acts</span></th>
                  </tr>
                </thead>
                <tbody>
                  {others.map((m) => (
                    <tr key={m.skill_id}>
                      <td><a href={link("skills", m.skill_id)}>{m.skill_id}</a></td>
                      <td>{m.skill_role}</td>
                      <td><State is={m.status}>{m.reason}</State></td>
                      <td><Time at={m.joined_at} /></td>
                      <td class="num">{may("scene:declare.cancel") && <Leave s={s} m={m} word="Take out…" done={reload} quiet />}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            ) : (
              <Empty title="Only RouteAgents so far">Skills of the Cap join with scene.join.</Empty>
            )}
          </Panel>
        </div>
        <Panel title="Card">
          <Facts
            of={[
              ["Type", <Code>{s.scene_type}</Code>],
              ["Channel", <a href={link("caps", s.cap_id)}>{s.cap_id}</a>],
              ["Owner", <a href={link("skills", s.owner)}>{s.owner}</a>],
              ["In charge", s.acting ?? "nobody"],
              ["Why not", s.reason],
              ["Declared", <Time at={s.declared_at} />],
              ["Changed", <Time at={s.updated_at} />],
              ["Members", count(s.members.length, "skill")],
              ["Audit", may("audit:query") && <a href={link("audit", { resource: `scene/${s.scene_type}/${s.cap_id}` })}>who changed it</a>],
            ]}
          />
        </Panel>
      </div>
    </>
  );
}

/** Takes a declaration back; the owner's ends the scene. */
function Leave({ s, m, word, done, quiet }: { s: Scene; m: Member; word: string; done: () => void; quiet?: boolean }) {
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState<Failure>();
  const ends = m.skill_id === s.owner;
  const params = { scene_type: s.scene_type, cap_id: s.cap_id, skill_id: m.skill_id };
  return (
    <>
      {error && <span class="failed small" role="alert"><Said error={error} /></span>}
      <Button quiet={quiet} danger={!quiet} not={offNow()} label={quiet ? `Take out ${m.skill_id}` : undefined} onClick={() => setAsking(true)}>{word}</Button>
      {asking && (
        <Confirm title={ends ? `End the scene ${s.scene_type}` : `Take ${m.skill_id} out of ${s.scene_type}`} act={ends ? "End it for all" : "Take it out"} onAct={() => call("scene.declare.cancel", params).then(done, setError)} onClose={() => setAsking(false)}>
          <p>{ends ? "It ends for all who take part." : m.skill_id === s.acting ? "It is in charge: a backup takes over, if there is one." : "It takes part no longer, until it joins again."}</p>
          <p class="small dim"><Code>aibridge call scene.declare.cancel scene_type={s.scene_type} cap_id={s.cap_id} skill_id={m.skill_id}</Code></p>
        </Confirm>
      )}
    </>
  );
}
