// Audit: who did what, and is the chain whole.
import {
  Answer, AsOf, Button, call, Code, Copy, count, Empty, Facts, Failure, Fragment, h, Head, Json, link, Mark, may, number, offNow, Outcome, Panel, Pick, query, Said, Search, setQuery,
  signal, Table, Time, time, useEffect, useKeys, useLive, useMemo, useRef, useRows, useShown, useState, useTitle, type Commands, type ComponentChildren, type Rows,
} from "../core";

type Entry = Commands["audit.query"]["result"]["entries"][number];
type Filter = Commands["audit.query"]["params"];

const spans: Record<string, number> = { hour: 3600e3, day: 86400e3, week: 7 * 86400e3 };

/** What is looked for, as the address has it. */
function useFilter(): Filter {
  const last = query("last");
  const since = useMemo(() => (spans[last] ? new Date(Date.now() - spans[last]).toISOString() : query("since")), [last, query("since")]);
  return {
    principal: query("principal") || undefined, event: query("event") || undefined, resource: query("resource") || undefined, code: query("code") || undefined,
    security: query("security") === "1" || undefined, since: since || undefined, until: query("until") || undefined,
  };
}

const filters = ["principal", "event", "resource", "code", "security", "last", "since", "until", "trace"];
const clear = () => setQuery(Object.fromEntries(filters.map((f) => [f, ""])));

export default function Audit() {
  useTitle("Audit");
  const filter = useFilter();
  const entry = Number(query("entry")) || 0;
  const bridge = query("bridge") || undefined;
  const trace = query("trace");
  const listed = useRows<Entry>("audit.query", filter, "entries");
  const rows = useTrace(listed, trace);
  useFollowing(listed.reload, !entry && query("follow") !== "0");
  useShown({ command: "audit.query", params: entry ? { after: entry - 1, limit: 1, bridge_id: bridge } : { ...filter, limit: 100 } }, [["J K", "move"], ["Enter", "open"], ["F", "filter"], ["V", "verify"]]);
  useKeys({ f: () => document.querySelector<HTMLInputElement>(".audit-filters input")?.focus(), v: () => void verify(), Escape: () => (entry ? setQuery({ entry: "", bridge: "" }) : false) });
  const filtered = filters.some((f) => query(f));
  return (
    <>
      <Head crumb="Audit" title="Who did what" does={<Export filter={filter} />} />
      <Chain />
      <div class="filters audit-filters">
        <Search name="principal" label="Who" placeholder="Who: anyone" />
        <Search name="event" label="What, such as skill.*" placeholder="What: skill.*" />
        <Search name="resource" label="On what, such as skill/door" placeholder="On: skill/door" />
        <Pick label="Outcome" name="code" of={[{ id: "", word: "any" }, { id: "ok", word: "ok" }, { id: "failed", word: "failed" }, ...(/^\d{4}$/.test(query("code")) ? [{ id: query("code"), word: query("code") }] : [{ id: "2003", word: "denied" }])]} />
        <Pick label="Time" name="last" of={[{ id: "", word: query("since") || query("until") ? "as set" : "ever" }, ...Object.keys(spans).map((s) => ({ id: s, word: `last ${s}` }))]} />
        <label class="line small">
          <input type="checkbox" checked={query("security") === "1"} onChange={(e) => setQuery({ security: e.currentTarget.checked ? "1" : "" })} /> Security only
        </label>
        <label class="line small">
          <input type="checkbox" checked={query("follow") !== "0"} onChange={(e) => setQuery({ follow: e.currentTarget.checked ? "" : "0" })} /> Follow
        </label>
        {filtered && <Button quiet onClick={clear}>Clear</Button>}
        <AsOf />
      </div>
      {(filter.since || filter.until) && !spans[query("last")] && (
        <p class="small dim under-filters">
          {filter.since && <>from <Time at={filter.since} /> </>}
          {filter.until && <>until <Time at={filter.until} /></>}
        </p>
      )}
      {trace && (
        <p class="small under-filters">
          Trace <Code>{trace}</Code>: {count(rows.rows.length, "entry", "entries")} among the {number(listed.rows.length)} that were read.{" "}
          {listed.more && <Button quiet onClick={listed.next}>Read more</Button>}
        </p>
      )}
      <div class={entry ? "cols c-side" : undefined}>
        <Panel key_={!entry} tight label="Entries">
          <Table
            of={rows}
            id={(e) => numbered(e.seq, e.bridge_id)}
            chosen={numbered(entry, bridge)}
            href={(e) => opened(e.seq, e.bridge_id)}
            label="Entries of the audit trail"
            words={{ loading: "The latest 100", failed: "The audit could not be read", action: "audit:query" }}
            columns={columns(!!entry, rows.rows.some((e) => e.bridge_id))}
            empty={
              filtered ? (
                <Empty title="No entry fits" step={<Button onClick={clear}>Show all</Button>} />
              ) : (
                <Empty title="Nothing is recorded yet">Every command that changes something will stand here: who, what, with which outcome.</Empty>
              )
            }
          />
        </Panel>
        {entry > 0 && <One key={numbered(entry, bridge)} seq={entry} bridge={bridge} known={rows.rows.find((e) => e.seq === entry && e.bridge_id === bridge)} />}
      </div>
    </>
  );
}

/** The address with one entry open, filters as they are. */
function opened(seq: number, bridge?: string) {
  const now = Object.fromEntries(new URLSearchParams(location.search));
  return link("audit", { ...now, entry: seq, bridge });
}

/** The number of an entry, which counts in the trail of its bridge. */
const numbered = (seq: number, bridge?: string) => (bridge ? `${bridge}:${seq}` : String(seq));

const columns = (narrow: boolean, cluster: boolean) =>
  [
    { head: "Number", num: true, cell: (e: Entry) => <a href={opened(e.seq, e.bridge_id)}>{number(e.seq)}</a> },
    ...(cluster ? [{ head: "Bridge", cell: (e: Entry) => <Code>{e.bridge_id}</Code>, small: "hide" as const }] : []),
    { head: "When", cell: (e: Entry) => <span class="nowrap"><Time at={e.time} /></span> },
    { head: "What", cell: (e: Entry) => <Code>{e.event}</Code> },
    { head: "On", cell: (e: Entry) => <span class="cut on">{e.resource}</span>, small: "hide" as const },
    { head: "Who", cell: (e: Entry) => <span class="cut on">{e.principal || <span class="dim">nobody</span>}</span>, small: "hide" as const },
    ...(narrow ? [] : [{ head: "For", cell: (e: Entry) => <span class="cut on">{e.acts_for}</span>, small: "hide" as const }]),
    { head: "Outcome", cell: (e: Entry) => <Ended e={e} /> },
    ...(narrow ? [] : [{ head: "Door", cell: (e: Entry) => e.door, small: "hide" as const }]),
  ];

const Ended = ({ e }: { e: Entry }) => <Outcome code={e.code}>{e.code === "ok" ? (e.late ? "late" : e.async ? "task" : undefined) : e.code}</Outcome>;

/** The entries of one trace among those that were read: the trail is not indexed by it. */
function useTrace(of: Rows<Entry>, trace: string): Rows<Entry> {
  if (!trace) return of;
  const rows = of.rows.filter((e) => e.trace_id === trace);
  return { ...of, rows, total: rows.length, more: false };
}

function useFollowing(reload: () => void, on: boolean) {
  const latest = useRef(reload);
  latest.current = reload;
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(() => !document.hidden && !offNow() && latest.current(), 5000);
    return () => clearInterval(timer);
  }, [on]);
}

// Is the chain whole -------------------------------------------------------

interface Verified {
  at?: number;
  result?: Commands["audit.verify"]["result"];
  error?: Failure;
  busy?: boolean;
}

// Stays while one looks at other pages.
const verified = signal<Verified>({});

async function verify() {
  if (verified.value.busy || offNow() || !may("audit:verify")) return;
  verified.value = { ...verified.value, busy: true };
  try {
    verified.value = { at: Date.now(), result: await call("audit.verify", {}, { timeout: 300000 }) };
  } catch (e) {
    verified.value = { error: e instanceof Failure ? e : new Failure("5000", String(e)) };
  }
}

// A trail that is longer is verified when somebody asks for it.
const quick = 50_000;

function Chain() {
  const last = useLive(may("audit:verify") ? "audit.query" : undefined, { limit: 1 }, { every: 0 });
  const length = last.value.data?.last;
  useEffect(() => {
    if (length !== undefined && length <= quick && !verified.value.at) void verify();
  }, [length]);
  const { result: r, error, busy, at } = verified.value;
  if (!may("audit:verify"))
    return (
      <p class="small dim under-filters">
        Whether the chain is whole needs <Code>audit:verify</Code>. <a href={link("policies", { tab: "ask", action: "audit:verify" })}>Why?</a>
      </p>
    );
  const tone = error || (r && !r.ok) ? "failed" : r ? "ok" : "";
  return (
    <section class={`note mid chain ${tone}`} aria-label="Chain" aria-busy={busy && !r ? true : undefined}>
      <Mark is={error || (r && !r.ok) ? "failed" : r ? "ok" : "pending"} />
      <div class="grow line wrap facts-line" role="status">
        {r ? (
          <>
            <b>{r.chains ? (r.ok ? `The chains of ${count(r.chains.length, "bridge")} are whole` : `Chains are broken: ${count(r.problems.length, "problem")}`) : r.ok ? "The chain is whole" : `The chain is broken: ${count(r.problems.length, "problem")}`}</b>
            <span>
              {number(r.first)} – {number(r.last)}, verified {time(at)}
            </span>
            {r.unverified > 0 && <span>{number(r.unverified)} by keys that are not here</span>}
            <span>
              head <Code>{shortened(r.head)}</Code>
            </span>
          </>
        ) : error ? (
          <>
            <b>The chain could not be verified</b>
            <Said error={error} />
          </>
        ) : (
          <>
            <b>{busy ? "Verifying every entry" : "Not verified yet"}</b>
            {length !== undefined && <span>{count(length, "entry", "entries")}</span>}
          </>
        )}
      </div>
      {r && <Copy text={r.head}>Copy head</Copy>}
      <Button not={offNow() || (busy && "It is being verified")} onClick={verify}>
        Verify now
      </Button>
      {r?.chains && (
        <ul class="whole small">
          {r.chains.map((c) => (
            <li>
              <Code>{c.bridge_id}</Code> {c.state}{c.closed_by && <> by <Code>{c.closed_by}</Code> <Time at={c.closed_at} /></>}, {count(c.entries, "entry", "entries")}
            </li>
          ))}
        </ul>
      )}
      {r?.silent && <p class="whole small">Did not answer: {r.silent.join(", ")}</p>}
      {r && !r.ok && (
        <ul class="whole">
          {r.problems.map((p) => (
            <li>
              <b>{p.kind}</b> {p.bridge_id && <Code>{p.bridge_id}</Code>} {p.from !== undefined && <a href={opened(p.from, p.bridge_id)}>{number(p.from)}{p.to && p.to !== p.from ? ` – ${number(p.to)}` : ""}</a>} {p.text}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const shortened = (head: string) => head.replace(/^(\d+:.{8}).{8,}(.{4})$/, "$1…$2");

// Export --------------------------------------------------------------------

const most = 50_000;

/** Saves what fits the filters as JSON, an entry a line, the latest first. */
function Export({ filter }: { filter: Filter }) {
  const [done, setDone] = useState<number>();
  const [error, setError] = useState<Failure>();
  const [cut, setCut] = useState(false);
  const gone = useRef(false);
  useEffect(() => () => void (gone.current = true), []);
  const save = async () => {
    setError(undefined);
    setCut(false);
    const lines: string[] = [];
    try {
      let cursor: string | undefined;
      do {
        setDone(lines.length);
        const page: Commands["audit.query"]["result"] = await call("audit.query", { ...filter, limit: 1000, cursor });
        for (const e of page.entries) lines.push(JSON.stringify(e));
        cursor = page.next_cursor;
      } while (cursor && lines.length < most && !gone.current);
      if (gone.current) return;
      setCut(!!cursor);
      download(`audit-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.jsonl`, lines.join("\n") + "\n");
    } catch (e) {
      setError(e instanceof Failure ? e : new Failure("5000", String(e)));
    }
    setDone(undefined);
  };
  if (!may("audit:query")) return null;
  return (
    <>
      {error && <span class="failed small"><Said error={error} /></span>}
      {cut && <span class="small dim">The latest {number(most)}. All of it: <Code>aibridge audit query --limit 0</Code></span>}
      <Button not={offNow() || (done !== undefined && "It is being read")} onClick={save}>
        {done === undefined ? "Export" : `${number(done)} read`}
      </Button>
    </>
  );
}

function download(name: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// One entry -------------------------------------------------------------------

/** One entry: out of the list, or asked for by its number. */
function One({ seq, bridge, known }: { seq: number; bridge?: string; known?: Entry }) {
  const found = useLive(known || seq < 2 ? undefined : "audit.query", { after: seq - 1, limit: 1, bridge_id: bridge }, { every: 0 });
  return (
    <Panel
      key_
      title={number(seq)}
      more={
        <>
          {seq > 1 && <a href={opened(seq - 1, bridge)}>Before</a>}
          <a href={opened(seq + 1, bridge)}>After</a>
          <Button quiet onClick={() => setQuery({ entry: "", bridge: "" })}>Close</Button>
        </>
      }
    >
      {known ? (
        <Detail e={known} />
      ) : (
        <Answer of={found} action="audit:query" loading="The entry" failed="The entry could not be read">
          {(f) => (f.entries[0]?.seq === seq ? <Detail e={f.entries[0]} /> : <p class="dim">It is not there{f.last >= seq ? ": retention has forgotten it, or it is of another space" : " yet"}.</p>)}
        </Answer>
      )}
    </Panel>
  );
}

/** Pages of what an entry is about. */
const places: Record<string, (id: string) => string> = {
  agent: (id) => link("agents", id), skill: (id) => link("skills", id), approval: (id) => link("approvals", id), task: (id) => link("tasks", id), cap: (id) => link("caps", id),
  group: (id) => link("caps", ...id.split("/")), scene: (id) => link("scenes", ...id.split("/")), vfs: (id) => link("files", id),
  certificate: (id) => link("access", /^[0-9a-f]{16}$/.test(id) ? { serial: id } : { find: id }), key: (id) => link("access", { tab: "keys", ...(/^[0-9a-f]{16}$/.test(id) ? { key: id } : { find: id }) }), mcp: (id) => link("mcp-servers", id), policy: (id) => link("policies", id), run: (id) => link("runs", id),
};

function On({ resource }: { resource: string }) {
  const slash = resource.indexOf("/");
  const place = slash > 0 && slash < resource.length - 1 && Object.hasOwn(places, resource.slice(0, slash)) ? places[resource.slice(0, slash)] : undefined;
  return place ? <a href={place(resource.slice(slash + 1))}>{resource}</a> : <>{resource}</>;
}

function Detail({ e }: { e: Entry }) {
  const steps: [ComponentChildren, ComponentChildren][] = [
    [e.principal || "nobody", [e.kind, e.method].filter(Boolean).join(", ")],
    ...(e.acts_for ? [[e.acts_for, "for whom"] as [string, string]] : []),
    [e.resource ? <On resource={e.resource} /> : e.event, <Ended e={e} />],
  ];
  const denied = e.code.startsWith("200") && e.action;
  return (
    <div class="stack">
      <ol class="crossing down" aria-label="The crossing: from who asks to what acts">
        {steps.map(([name, about]) => (
          <li>
            <span class="pier" />
            <b>{name}</b>
            <small>{about}</small>
          </li>
        ))}
      </ol>
      <Facts
        of={[
          ["What", <Code>{e.event}</Code>],
          ["Bridge", e.bridge_id && <Code>{e.bridge_id}</Code>],
          ["When", <Time at={e.time} />],
          ["Reason", e.reason],
          ["Action", e.action && <Code>{e.action}</Code>],
          ["Decided", denied && <a href={link("policies", { principal: `${e.kind || "agent"}:${e.principal ?? ""}`, action: e.action, resource: e.resource, door: ["mqtt", "http", "ws"].includes(e.door ?? "") ? e.door : "" })}>Ask by which policy</a>],
          ["Credential", e.credential && <Code>{e.credential}</Code>],
          ["Certificate", e.cert_sn && <a href={link("access", { serial: e.cert_sn })}><Code>{e.cert_sn}</Code></a>],
          ["From", [e.address, e.door].filter(Boolean).join(", ")],
          ["Space", e.space_id && <Code>{e.space_id}</Code>],
          ["Trace", e.trace_id && <a href={link("audit", { trace: e.trace_id, entry: e.seq, bridge: e.bridge_id })}><Code>{e.trace_id}</Code></a>],
          ["Request", e.request_id && <Code>{e.request_id}</Code>],
          ["Digest", e.params_digest && <span class="break">HMAC <Code>{e.params_digest}</Code></span>],
          ...Object.entries(e.details ?? {}).map(([name, value]): [string, ComponentChildren] => [name.replaceAll("_", " "), value]),
        ]}
      />
      {e.params !== undefined && (
        <>
          <h3>Parameters</h3>
          <Json value={e.params} />
        </>
      )}
      {e.params_sealed && <p class="small dim">Its parameters are sealed with a key that is not here any more.</p>}
      <p class="small">
        {e.principal && <a href={link("audit", { principal: e.principal })}>All by {e.principal}</a>}
        {e.resource && <> · <a href={link("audit", { resource: e.resource })}>All on {e.resource}</a></>}
      </p>
    </div>
  );
}
