// A file: what it is, its versions, getting one, bringing one back.
import {
  Answer, Button, bytes, call, Code, Confirm, Copy, Facts, Failure, Fragment, go, h, Mark, may, number, offNow, Panel, Said, Time, useEffect, useLive, useRef, useState, type Commands,
} from "../../core";
import { failureOf, fileURL } from "./upload";

type Version = Commands["vfs.versions"]["result"]["versions"][number];

export function OneFile({ group, path, onChange, close }: { group: string; path: string; onChange: () => void; close: string }) {
  const kept = useLive("vfs.versions", { group_name: group, path }, { every: 15000 });
  const [error, setError] = useState<Failure>();
  const [deleting, setDeleting] = useState(false);
  const changed = () => (setError(undefined), kept.reload(), onChange());
  return (
    <Panel title={path.split("/").at(-1)} more={<a href={close}>Close</a>}>
      <Answer of={kept} action="vfs:versions" loading="Its versions" failed="Its versions could not be read" works="A VFS elsewhere may not tell them; the file itself can still be got.">
        {({ versions }) => {
          const [now] = versions;
          return (
            <div class="stack">
              <Facts
                of={[
                  ["Path", <span class="break">{group}/{path}</span>],
                  ["State", now.deleted ? <span class="state"><Mark is="cancelled" />deleted</span> : undefined],
                  ["Size", now.deleted ? undefined : bytes(now.size)],
                  ["Kind", now.content_type],
                  ["Changed", <Time at={now.modified} />],
                  ["At its source", now.mtime ? <Time at={now.mtime} /> : undefined],
                  ["SHA-256", now.checksum && <span class="break"><Code>{now.checksum}</Code></span>],
                ]}
              />
              <div class="line wrap">
                {!now.deleted && may("vfs:read") && <Get group={group} v={now} main />}
                {!now.deleted && may("vfs:delete") && <Button danger not={offNow()} onClick={() => setDeleting(true)}>Delete…</Button>}
                {now.checksum && <Copy text={now.checksum}>SHA-256</Copy>}
              </div>
              {error && <p class="failed small" role="alert"><Said error={error} /></p>}
              <h3>Versions <span class="dim">{number(versions.length)} kept</span></h3>
              <ol class="versions" aria-label="Versions, the latest first">
                {versions.map((v, i) => (
                  <li>
                    <span class="grow">
                      <Time at={v.modified} /> <span class="dim">{v.deleted ? "deleted" : bytes(v.size)}{i === 0 && !v.deleted && ", the newest"}</span>
                    </span>
                    {!v.deleted && i > 0 && (
                      <>
                        {may("vfs:read") && <Get group={group} v={v} />}
                        {may("vfs:write") && <Restore group={group} v={v} now_={now} done={changed} failed={setError} />}
                      </>
                    )}
                  </li>
                ))}
              </ol>
              {deleting && (
                <Confirm title={`Delete ${path}`} act="Delete it" onAct={() => call("vfs.delete", { group_name: group, path, version: now.version }).then(() => (changed(), go(close)), setError)} onClose={() => setDeleting(false)}>
                  <p>Its versions are kept for a while: with “deleted ones, too” it can be found and brought back.</p>
                  <p class="small dim"><Code>aibridge vfs rm {group}/{path}</Code></p>
                </Confirm>
              )}
            </div>
          );
        }}
      </Answer>
    </Panel>
  );
}

function Restore({ group, v, now_, done, failed }: { group: string; v: Version; now_: Version; done: () => void; failed: (e: Failure) => void }) {
  const [asking, setAsking] = useState(false);
  const params = { group_name: group, path: v.path, version: v.version, current: now_.deleted ? 0 : now_.version };
  return (
    <>
      <Button quiet not={offNow()} onClick={() => setAsking(true)}>Bring back</Button>
      {asking && (
        <Confirm title={`Bring back ${v.path}`} act="Bring it back" onAct={() => call("vfs.restore", params).then(done, failed)} onClose={() => setAsking(false)}>
          <p>
            What it was at <Time at={v.modified} /> becomes its newest version. {now_.deleted ? "" : "What it is now stays as a version."}
          </p>
          <p class="small dim"><Code>aibridge call vfs.restore group_name={group} path={v.path} version={v.version}</Code></p>
        </Confirm>
      )}
    </>
  );
}

// Larger files are fetched by the browser itself: it writes them to the disk as they come.
const most = 64 << 20;

/** Gets a version, and says how far it is. */
function Get({ group, v, main }: { group: string; v: Version; main?: boolean }) {
  const [at, setAt] = useState<number>();
  const [error, setError] = useState<Failure>();
  const stop = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const href = fileURL("download", { group_name: group, path: v.path, version: String(v.version) });
  const name = v.path.split("/").at(-1)!;
  if (v.size > most) return <a class={main ? "btn main" : "btn quiet"} href={href} download={name}>Download</a>;
  const get = async () => {
    setError(undefined);
    setAt(0);
    stop.current = new AbortController();
    try {
      save(await read(href, v.size, stop.current.signal, setAt), name);
    } catch (e) {
      if (!stop.current.signal.aborted) setError(e instanceof Failure ? e : failureOf(0, ""));
    }
    setAt(undefined);
  };
  return (
    <>
      <Button main={main} quiet={!main} not={at === undefined && offNow()} onClick={() => (at === undefined ? void get() : stop.current?.abort())}>
        {at === undefined ? "Download" : `${Math.floor((100 * at) / Math.max(1, v.size))} %, stop`}
      </Button>
      {error && <span class="failed small" role="alert"><Said error={error} /></span>}
    </>
  );
}

async function read(href: string, size: number, signal: AbortSignal, tell: (n: number) => void): Promise<Blob> {
  const answer = await fetch(href, { signal, credentials: "same-origin" });
  if (!answer.ok || !answer.body) throw failureOf(answer.status, await answer.text());
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let got = 0;
  for (const reader = answer.body.getReader(); ; ) {
    const { value, done } = await reader.read();
    if (done) break;
    parts.push(value);
    tell((got += value.length));
  }
  if (got !== size) throw new Failure("4002", "the content broke off");
  return new Blob(parts);
}

function save(content: Blob, name: string) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(content);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
