// Files: groups of them, what is in a folder, a file and its versions; and what
// is kept the same as the VFS.
import {
  Answer, AsOf, Button, bytes, Code, count, Empty, Fragment, go, h, Head, Icon, link, may, number, Panel, path, query, Search, setQuery, State, Table, Tabs, Time, useKeys, useLive, useRows,
  useShown, useState, useTitle, type Commands,
} from "../core";
import { OneFile } from "./files/file";
import { Mirror, Mirrors } from "./files/sync";
import { Upload, uploadShown } from "./files/upload";

type Group = Commands["vfs.group.list"]["result"]["groups"][number];

export default function Files() {
  const [, group, ...folder] = path.value;
  if (group) return <Folder key={[group, ...folder].join("/")} group={group} folder={folder.join("/")} />;
  return query("tab") === "sync" ? query("cap") ? <Mirror key={query("cap")} cap={query("cap")} /> : <Mirrors head={<Which />} /> : <Groups />;
}

const Which = () => <Tabs of={[{ id: "", word: "Files" }, { id: "sync", word: "Sync" }]} />;

function Groups() {
  useTitle("Files");
  const params = { find: query("find") || undefined, sort: query("sort") || undefined };
  const rows = useRows<Group>("vfs.group.list", params, "groups");
  const write = may("vfs:write");
  const [name, setName] = useState("");
  useShown({ command: "vfs.group.list", params }, [["J K", "move"], ["Enter", "open"]]);
  const begin = (e: Event) => (e.preventDefault(), name && go(link("files", name, { upload: "1" })));
  return (
    <>
      <Head crumb="Files" title={rows.at ? `${count(rows.total, "group")} of files` : "Files"} />
      <Which />
      <div class="cols c-side">
        <div>
          <div class="filters">
            <Search label="Find by name or owner" />
            <AsOf />
          </div>
          <Panel key_ tight label="Groups of files">
            <Table
              of={rows}
              id={(g) => g.group_name}
              href={(g) => link("files", g.group_name)}
              label="Groups of files"
              words={{ loading: "Page of 100", failed: "The groups could not be read", action: "vfs:group.list" }}
              columns={[
                { head: "Group", sort: "id", cell: (g) => <a href={link("files", g.group_name)}><Code>{g.group_name}</Code></a> },
                { head: "Files", sort: "files", num: true, cell: (g) => (g.vfs_id === "local" ? number(g.files) : "–") },
                { head: "With versions", sort: "bytes", num: true, cell: (g) => (g.vfs_id === "local" ? bytes(g.bytes) : "–") },
                { head: "Owner", sort: "owner", cell: (g) => g.owner ?? <span class="dim">{g.group_name === "cap" ? "mirror of the Caps" : g.group_name.includes(":") ? "members of the Cap" : "–"}</span>, small: "hide" },
                { head: "Kept", cell: (g) => (g.vfs_id === "local" ? "here" : <>in <Code>{g.vfs_id}</Code></>), small: "hide" },
              ]}
              empty={
                params.find ? (
                  <Empty title="No group fits" step={<Button onClick={() => setQuery({ find: "" })}>Show all</Button>} />
                ) : (
                  <Empty title="No files yet" step={<Code>aibridge vfs put plan.txt pictures/hall/plan.txt</Code>}>A group is a name; its first file makes it. Devices reach files by HTTP, MQTT and commands.</Empty>
                )
              }
            />
          </Panel>
        </div>
        <div class="stack gap">
          {write && (
            <Panel title="Begin a group">
              <form class="field" onSubmit={begin}>
                <label class="lab" for="new-group">Name of the group</label>
                <span class="line">
                  <input class="in" id="new-group" maxLength={128} value={name} onInput={(e) => setName(e.currentTarget.value)} />
                  <Button type="submit" not={!name && "It needs a name"}>Go on</Button>
                </span>
                <span class="hint">Its first file makes it, and you own it.</span>
              </form>
            </Panel>
          )}
          <Stores />
        </div>
      </div>
    </>
  );
}

/** Where files are kept, whether it can be reached, and how much room there is. */
function Stores() {
  const health = useLive(may("vfs:health") ? "vfs.health" : undefined, {});
  return (
    <Panel title="Where they are kept">
      <Answer of={health} action="vfs:health" loading="Asking each VFS" failed="Nobody knows how they are">
        {(v) => (
          <ul class="stack">
            {[v, ...(v.others ?? [])].map((s) => (
              <li class="stack tightly">
                <span class="line apart wrap"><b>{s.vfs_id === "local" ? "this bridge" : s.vfs_id}</b> <State is={s.status}>{s.group_name ? `group ${s.group_name}` : undefined}</State></span>
                {(s.storage_used > 0 || s.storage_total > 0) && <span class="small dim">{bytes(s.storage_used)}{s.storage_total > 0 && ` of ${bytes(s.storage_total)}`}</span>}
                {s.reason && <span class="small failed">{s.reason}</span>}
              </li>
            ))}
          </ul>
        )}
      </Answer>
    </Panel>
  );
}

// A folder ------------------------------------------------------------------

type Listed = { folder: string } | { file: Commands["vfs.list"]["result"]["files"][number] };

function Folder({ group, folder }: { group: string; folder: string }) {
  const levels = folder ? folder.split("/") : [];
  useTitle(`${group}/${folder}`);
  const deleted = query("deleted") !== "";
  const params = { group_name: group, ...(folder ? { path: folder } : {}), folders: true, ...(deleted ? { deleted } : {}) };
  const list = useFolder(params);
  const name = query("file");
  const uploading = query("upload") !== "";
  useShown(uploading ? uploadShown(group, folder) : name ? { command: "vfs.versions", params: { group_name: group, path: [...levels, name].join("/") } } : { command: "vfs.list", params }, [["J K", "move"], ["Enter", "open"], ["U", "upload"]]);
  useKeys({
    u: () => (may("vfs:write") ? setQuery({ upload: "1" }) : false),
    Escape: () => (name ? setQuery({ file: "" }) : folder ? go(link("files", group, ...levels.slice(0, -1))) : go(link("files"))),
  });
  const full = (n: string) => [...levels, n].join("/");
  const nameOf = (p: string) => p.slice(folder ? folder.length + 1 : 0);
  const here = (n: string) => link("files", group, ...levels, { file: n, deleted: deleted ? "1" : "" });
  return (
    <>
      <Head
        crumb={
          <>
            <a href={link("files")}>Files</a> / {levels.length > 0 ? <a href={link("files", group)}>{group}</a> : "group"}
            {levels.slice(0, -1).map((l, i) => <> / <a href={link("files", group, ...levels.slice(0, i + 1))}>{l}</a></>)}
          </>
        }
        title={levels.at(-1) ?? group}
        does={may("vfs:write") && <Button onClick={() => setQuery({ upload: uploading ? "" : "1" })}>Upload <kbd>U</kbd></Button>}
      />
      <div class={name ? "cols c-side" : "stack gap"}>
        <div class="stack gap">
          {uploading && <Upload group={group} folder={folder} onDone={list.reload} onClose={() => setQuery({ upload: "" })} />}
          <div class="filters">
            <label class="line small"><input type="checkbox" checked={deleted} onChange={(e) => setQuery({ deleted: e.currentTarget.checked ? "1" : "" })} /> deleted ones, too</label>
            <AsOf />
          </div>
          <Panel key_ tight label="Files">
            <Table
              of={list}
              id={(r) => ("folder" in r ? r.folder + "/" : r.file.path)}
              chosen={name && full(name)}
              href={(r) => ("folder" in r ? link("files", group, ...r.folder.split("/")) : here(nameOf(r.file.path)))}
              label="Files"
              words={{ loading: "Page of 100", failed: "The folder could not be read", action: "vfs:list" }}
              columns={[
                {
                  head: "Name",
                  cell: (r) =>
                    "folder" in r ? (
                      <a class="line" href={link("files", group, ...r.folder.split("/"))}><Icon is="files" />{nameOf(r.folder)}/</a>
                    ) : (
                      <a href={here(nameOf(r.file.path))}>{nameOf(r.file.path)}</a>
                    ),
                },
                { head: "Size", num: true, cell: (r) => ("folder" in r ? "" : r.file.deleted ? <State is="removed" word="deleted" /> : bytes(r.file.size)) },
                { head: "Changed", cell: (r) => ("folder" in r ? "" : <Time at={r.file.modified} />) },
                { head: "Kind", cell: (r) => ("folder" in r ? "folder" : (r.file.content_type ?? "")), small: "hide" },
              ]}
              empty={<Empty title={folder ? "Nothing is in this folder" : "This group has no files"} step={may("vfs:write") && <Button onClick={() => setQuery({ upload: "1" })}>Upload files</Button>}>{folder ? "A folder is there as long as a file is in it." : "Its first file makes it. A group of others that you may not read looks like this, too."}</Empty>}
            />
          </Panel>
        </div>
        {name && <OneFile key={name} group={group} path={full(name)} onChange={list.reload} close={link("files", group, ...levels, { deleted: deleted ? "1" : "" })} />}
      </div>
    </>
  );
}

/** The pages of a folder, folders before files. */
function useFolder(params: Commands["vfs.list"]["params"]) {
  const rows = useRows<Listed>("vfs.list", params, "entries", {
    of: (r: Commands["vfs.list"]["result"]) => [...(r.folders ?? []).map((folder) => ({ folder })), ...r.files.map((file) => ({ file }))],
  });
  return { ...rows, total: rows.rows.length };
}

