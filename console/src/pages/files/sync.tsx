// Sync: which Caps' files are as they should be; of one, what is behind and
// why, what lost a conflict, and the folders of devices.
import {
  Ago, Answer, AsOf, Button, bytes, call, Code, Confirm, count, Empty, Facts, Failure, Fragment, h, Head, link, Mark, may, number, offNow, Panel, Pick, plain, query, Said, Search, setQuery, State, Table, Time,
  useKeys, useLive, useRows, useShown, useState, useTitle, type Commands, type ComponentChildren, type Shape,
} from "../../core";

type Row = Commands["cap.vfs.sync.list"]["result"]["mirrors"][number];
type Status = Commands["cap.vfs.sync.status"]["result"];
type Folder = NonNullable<Status["folders"]>[number];
type Lost = { vfs_path: string; checksum?: string; size: number; lost_at: number; rule?: string; owner?: string; folder?: string };

const shapes: Record<string, Shape> = { synced: "ok", syncing: "acting", pending: "waiting", conflict: "warning", failed: "failed" };

const Stand = ({ is, paused, children }: { is: string; paused?: boolean; children?: ComponentChildren }) => (
  <State is={is} shape={paused ? "cancelled" : shapes[is]} word={paused ? "paused" : undefined}>{children}</State>
);

/** Why a mirror is behind, in a few words. */
function why(m: Row): string {
  const said = [];
  if (m.trouble) said.push(m.trouble);
  else if (m.circuit !== "closed") said.push("the VFS does not answer");
  if (m.failed) said.push(`${count(m.failed, "file")} failed`);
  if (m.pending) said.push(`${count(m.pending, "file")} ${m.pending === 1 ? "waits" : "wait"}`);
  if (m.folders_behind) said.push(`${count(m.folders_behind, "device")} behind`);
  return said.join("; ");
}

export function Mirrors({ head }: { head: ComponentChildren }) {
  useTitle("Sync");
  const behind = query("show") === "behind";
  const params = { find: query("find") || undefined, behind: behind || undefined, sort: query("sort") || undefined };
  const rows = useRows<Row>("cap.vfs.sync.list", params, "mirrors", { on: ["cap"], when: (e) => /^cap\.(vfs|declared|updated|removed)/.test(e.name) });
  useShown({ command: "cap.vfs.sync.list", params }, [["J K", "move"], ["Enter", "open"]]);
  const href = (m: Row) => link("files", { tab: "sync", cap: m.cap_id });
  return (
    <>
      <Head crumb="Files" title={rows.at ? count(rows.total, behind ? "mirror behind" : "mirror", behind ? "mirrors behind" : "mirrors") : "Sync"} />
      {head}
      <div class="filters">
        <Search label="Find by Cap" />
        <Pick label="Which" name="show" of={[{ id: "", word: "all" }, { id: "behind", word: "behind" }]} />
        <AsOf />
      </div>
      <Panel key_ tight label="Mirrors">
        <Table
          of={rows}
          id={(m) => m.cap_id}
          href={href}
          label="Mirrors"
          words={{ loading: "Page of 100", failed: "The mirrors could not be read", action: "cap:vfs.sync.list" }}
          columns={[
            { head: "Cap", sort: "id", cell: (m) => <a href={href(m)}><Code>{m.cap_id}</Code></a> },
            { head: "State", sort: "status", cell: (m) => <Stand is={m.sync_status} paused={m.paused} /> },
            { head: "Why", cell: (m) => <span class="cut value">{why(m)}</span> },
            { head: "Wait", sort: "pending", num: true, cell: (m) => number(m.pending), small: "hide" },
            { head: "Failed", sort: "failed", num: true, cell: (m) => number(m.failed), small: "hide" },
            { head: "Conflicts", sort: "conflicts", num: true, cell: (m) => number(m.conflicts), small: "hide" },
            { head: "Devices", num: true, cell: (m) => (m.folders ? `${number(m.folders - m.folders_behind)} of ${number(m.folders)}` : "–"), small: "hide" },
            { head: "Compared", sort: "last_sync_time", cell: (m) => (m.last_sync_time ? <Time at={m.last_sync_time} /> : "never"), small: "hide" },
          ]}
          empty={
            behind ? (
              <Empty title="Nothing is behind" shape="ok">Every mirror is as its Cap.</Empty>
            ) : params.find ? (
              <Empty title="No mirror fits" step={<Button onClick={() => setQuery({ find: "" })}>Show all</Button>} />
            ) : (
              <Empty title="Nothing is mirrored" step={<a class="btn" href={link("caps")}>Caps</a>}>Each Cap with sync_enabled has a folder on the bridge and the same in the VFS; devices keep folders equal to it.</Empty>
            )
          }
        />
      </Panel>
    </>
  );
}

// One mirror ----------------------------------------------------------------

export function Mirror({ cap }: { cap: string }) {
  useTitle(`Sync of ${cap}`);
  const only = query("only") || undefined;
  const params = { cap_id: cap, limit: 200, ...(only ? { only: only as "failed" } : {}) };
  const status = useLive("cap.vfs.sync.status", params, { on: ["cap"], when: (e) => e.data?.cap_id === cap && e.name.startsWith("cap.vfs"), every: 10000 });
  return (
    <Answer of={status} action="cap:vfs.sync.status" loading={cap} failed="Where it stands could not be read" works="A Cap that was declared without sync_enabled has no mirror.">
      {(s) => <OneMirror s={s} reload={status.reload} params={params} />}
    </Answer>
  );
}

const below = (cap: string, path: string) => path.replace(`/vfs/cap/${cap}/`, "");

function OneMirror({ s, reload, params }: { s: Status; reload: () => void; params: object }) {
  const cap = s.cap_id;
  const here: Lost[] = s.lost ?? [];
  const away: Lost[] = (s.folders ?? []).flatMap((f) => (f.lost ?? []).map((l) => ({ ...l, vfs_path: `/vfs/cap/${cap}/disk/${l.path}`, owner: f.owner, folder: f.name })));
  const lost = [...here, ...away];
  const devices = (s.folders ?? []).filter((f) => f.sync_status !== "synced").length;
  const only = query("only");
  const late = [s.failed + s.pending > 0 && `${count(s.failed + s.pending, "file")} behind`, devices > 0 && `${count(devices, "device")} behind`].filter(Boolean).join(", ");
  useShown({ command: "cap.vfs.sync.status", params }, may("cap:vfs.sync") ? [["X", s.paused ? "resume" : "pause"]] : []);
  return (
    <>
      <Head
        crumb={
          <>
            <a href={link("files")}>Files</a> / <a href={link("files", { tab: "sync" })}>Sync</a>
          </>
        }
        title={cap}
        does={<Acts s={s} reload={reload} />}
      >
        <Stand is={s.sync_status} paused={s.paused} />
      </Head>
      {s.trouble && (
        <p class="note warning small mid" role="status">
          <Mark is="warning" />
          <span class="grow">The VFS cannot be reached: {s.trouble}. What is written waits in the folder; it is tried again by itself.</span>
        </p>
      )}
      {s.degraded && <p class="note small mid"><Mark is="late" /><span class="grow">Changes are found by looking at everything now and then: {s.degraded}</span></p>}
      <div class="cols c-side">
        <div class="stack gap">
          <Panel
            key_
            tight
            title={late ? late.charAt(0).toUpperCase() + late.slice(1) : "Everything is where it should be"}
            more={<Pick label="Which files" name="only" of={[{ id: "", word: "all" }, ...["failed", "pending", "conflict"].map((w) => ({ id: w, word: <><Mark is={shapes[w]} /> {w === "pending" ? "waiting" : w}</> }))]} />}
          >
            {s.files.length ? (
              <div class="rows tall" tabIndex={0} role="group" aria-label="Files">
                <table class="t cards">
                  <thead>
                    <tr>
                      <th scope="col">File</th>
                      <th scope="col">State</th>
                      <th scope="col" class="num">Size</th>
                      <th scope="col">Why</th>
                    </tr>
                  </thead>
                  <tbody>
                    {s.files.map((f) => (
                      <tr key={f.vfs_path}>
                        <td><FileLink cap={cap} path={f.vfs_path} /></td>
                        <td><Stand is={f.sync_status} /></td>
                        <td class="num">{f.checksum ? bytes(f.size) : "–"}</td>
                        <td class="break">{f.reason ?? (f.kept ? <span class="dim">resolved; the copy that lost is kept</span> : "")}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
                {s.next_cursor && <p class="small dim count">The first {number(s.files.length)}. All: <Code>aibridge vfs status {cap}</Code></p>}
              </div>
            ) : (
              <Empty title={only ? "No file stands there" : "It has no files yet"} shape={only ? "ok" : undefined} />
            )}
          </Panel>
          <Panel title="Conflicts" tight more={lost.length > 0 ? count(lost.length, "kept copy", "kept copies") : undefined}>
            {lost.length ? (
              <ul class="versions">
                {lost.map((l) => <LostCopy key={`${l.owner}/${l.vfs_path}/${l.checksum}/${l.lost_at}`} cap={cap} l={l} reload={reload} />)}
              </ul>
            ) : (
              <Empty title="Nobody lost anything" shape="ok">When a file was changed at both ends, the copy that does not win is kept, and stands here.</Empty>
            )}
          </Panel>
          {(s.folders?.length ?? 0) > 0 && <Folders of={s.folders!} />}
        </div>
        <Panel title="Mirror">
          <Facts
            of={[
              ["Cap", <a href={link("caps", cap)}>{cap}</a>],
              ["Waiting", number(s.pending)],
              ["Failed", number(s.failed)],
              ["Compared", s.last_sync_time ? <><Ago at={s.last_sync_time} /> ago</> : "never"],
              ["Compared so far", count(s.sync_count, "time")],
              ["The VFS", <State is={s.circuit === "closed" ? "online" : s.circuit === "half_open" ? "half-open" : "failed"} word={s.circuit === "closed" ? "answers" : s.circuit === "half_open" ? "is tried" : "does not answer"} />],
              ["Changes found", plain(s.noticed)],
              ["Room", s.free >= 0 ? `${bytes(s.free)} free` : undefined],
              ["Folder", <a href={link("files", "cap", cap, "disk")}>look into it</a>],
            ]}
          />
        </Panel>
      </div>
    </>
  );
}

function FileLink({ cap, path }: { cap: string; path: string }) {
  const levels = below(cap, path).split("/");
  return <a class="break" href={link("files", "cap", cap, ...levels.slice(0, -1), { file: levels.at(-1) })}>{levels.join("/")}</a>;
}

function Acts({ s, reload }: { s: Status; reload: () => void }) {
  const [error, setError] = useState<Failure>();
  const [asked, setAsked] = useState(0);
  const [asking, setAsking] = useState(false);
  const cap_id = s.cap_id;
  const can = may("cap:vfs.sync");
  useKeys({ x: () => (can ? document.querySelector<HTMLElement>(".does button")?.focus() : false) });
  if (!can) return null;
  const done = () => (setError(undefined), reload());
  return (
    <>
      {error && <span class="failed small" role="alert"><Said error={error} /></span>}
      {asked > 0 && !error && <span class="small dim" role="status">looked at anew</span>}
      <Button not={offNow()} onClick={() => (s.paused ? void call("cap.vfs.sync.resume", { cap_id }).then(done, setError) : setAsking(true))}>{s.paused ? "Go on" : "Pause"}</Button>
      <Button not={offNow() || (s.paused && "It is paused")} onClick={() => void call("cap.vfs.sync.rescan", { cap_id }).then((r) => (setAsked(r.rescan_time), done()), setError)}>Look at everything</Button>
      {asking && (
        <Confirm title={`Pause the files of ${cap_id}`} act="Pause" onAct={() => call("cap.vfs.sync.pause", { cap_id }).then(done, setError)} onClose={() => setAsking(false)}>
          <p>Nothing is carried over until it goes on, over restarts too. What is written waits in the folder; folders of devices pause within ten seconds.</p>
          <p class="small dim"><Code>aibridge call cap.vfs.sync.pause cap_id={cap_id}</Code></p>
        </Confirm>
      )}
    </>
  );
}

/** A copy that lost a conflict: bring it back, or leave it to be forgotten. */
function LostCopy({ cap, l, reload }: { cap: string; l: Lost; reload: () => void }) {
  const [error, setError] = useState<Failure>();
  const [said, setSaid] = useState("");
  const [asking, setAsking] = useState(false);
  const params = { cap_id: cap, vfs_path: l.vfs_path, checksum: l.checksum ?? "", ...(l.owner ? { owner: l.owner, folder: l.folder } : {}) };
  const restore = () => call("cap.vfs.sync.restore", params).then((r) => (setSaid(r.order_id ? "the device is asked" : plain(r.sync_status)), setError(undefined), reload()), setError);
  return (
    <li>
      <Mark is="warning" />
      <span class="grow">
        <FileLink cap={cap} path={l.vfs_path} /> <span class="dim">{l.checksum ? bytes(l.size) : "a deletion"}, lost <Time at={l.lost_at} />{l.rule && `: ${plain(l.rule)}`}{l.owner && `, kept by ${l.owner}`}</span>
        {error && <span class="failed small" role="alert"> <Said error={error} /></span>}
        {said && <span class="small dim" role="status"> {said}</span>}
      </span>
      {l.checksum && may("cap:vfs.sync") && <Button quiet not={offNow()} label={`Bring back ${below(cap, l.vfs_path)}`} onClick={() => setAsking(true)}>Bring back</Button>}
      {asking && (
        <Confirm title={`Bring back ${below(cap, l.vfs_path)}`} act="Bring it back" onAct={restore} onClose={() => setAsking(false)}>
          <p>The copy that lost becomes the file, at all ends. What it replaces is kept in turn.</p>
          <p class="small dim"><Code>aibridge call cap.vfs.sync.restore cap_id={cap} vfs_path={l.vfs_path} checksum={l.checksum}</Code></p>
        </Confirm>
      )}
    </li>
  );
}

/** Folders of devices, as they told lately. */
const Folders = ({ of }: { of: Folder[] }) => (
  <Panel title="Folders of devices" tight more={count(of.length, "device")}>
    <ul class="versions">
      {of.map((f) => (
        <li key={`${f.owner}/${f.name}`}>
          <Stand is={f.sync_status} paused={f.paused} />
          <span class="grow">
            <b>{f.name || f.owner}</b> <span class="dim">of {f.owner}, told <Ago at={f.reported_at} /> ago{f.pending > 0 && `, ${number(f.pending)} wait`}{f.failed > 0 && `, ${number(f.failed)} failed`}{f.free >= 0 && `, ${bytes(f.free)} free`}</span>
            {f.problems?.map((p) => <span class="problem small"><Code>{p.path}</Code> {p.reason}</span>)}
            {f.restores?.map((r) => <span class="problem small dim">bringing back {r.path}: {plain(r.restore_status)}{r.reason && `, ${r.reason}`}</span>)}
          </span>
        </li>
      ))}
    </ul>
  </Panel>
);
