// Access: who holds what lets them in - certificates, requests for some, API
// keys, revoked tokens - and how a device gets its certificate.
import {
  Answer, AsOf, Button, call, Code, Confirm, Copy, count, dev, duration, Empty, Facts, Failure, Fragment, h, Head, link, Mark, may, NotAllowed, now, offNow, Panel, Pick, query, Said, Search, session,
  setQuery, State, Table, Tabs, Time, useEffect, useKeys, useLive, useRows, useShown, useState, useTitle, type Commands, type ComponentChildren,
} from "../core";

type Cert = NonNullable<Commands["cert.list"]["result"]["certificates"]>[number];
type Request = NonNullable<Commands["cert.list"]["result"]["requests"]>[number];
type Key = Commands["key.list"]["result"]["keys"][number];
type Revoked = Commands["token.list"]["result"]["revoked"][number];

const tabs = [
  { id: "", word: "Certificates" },
  { id: "requests", word: "Requests" },
  { id: "keys", word: "Keys" },
  { id: "tokens", word: "Revoked tokens" },
  { id: "enrol", word: "Enrol a device" },
];

export default function Access() {
  useTitle("Access");
  const tab = tabs.some((t) => t.id === query("tab")) ? query("tab") : "";
  const waiting = useLive(may("cert:list") ? "cert.list" : undefined, { of: "requests", status: "pending", limit: 1 }, { on: ["cert", "security"] });
  const wait = waiting.value.data?.total ?? 0;
  return (
    <>
      <Head crumb="Access" title="Who gets in" />
      <Tabs of={tabs.map((t) => (t.id === "requests" && wait ? { ...t, word: `Requests, ${count(wait, "waits", "wait")}` } : t))} />
      {tab === "" ? <Certificates /> : tab === "requests" ? <Requests /> : tab === "keys" ? <Keys /> : tab === "tokens" ? <Tokens /> : <Enrol />}
    </>
  );
}

/** A list and, beside it, the one that is open. */
const Beside = ({ open, children }: { open?: ComponentChildren; children: ComponentChildren }) => (
  <div class={open ? "cols c-side" : undefined}>
    {children}
    {open}
  </div>
);

const here = (changes: Record<string, string>) => link("access", { ...Object.fromEntries(new URLSearchParams(location.search)), ...changes });

const Left = ({ until }: { until?: number }) => {
  if (!until) return <span class="dim">never</span>;
  const left = until - now.value;
  if (left <= 0) return <span class="dim">over</span>;
  return left < 14 * 86400e3 ? <State is="expiring" word={`${duration(left)} left`} /> : <span title={new Date(until).toISOString()}>{duration(left)} left</span>;
};

// Certificates ----------------------------------------------------------------

function Certificates() {
  const serial = query("serial");
  const days = Number(query("within")) || undefined;
  const params = { principal: query("find") || undefined, status: (query("status") || undefined) as any, authority: (query("authority") || undefined) as any, expires_within_days: days };
  const rows = useRows<Cert>("cert.list", params, "certificates", { on: ["cert", "security"] });
  useShown(serial ? { command: "cert.get", params: { serial } } : { command: "cert.list", params }, [["J K", "move"], ["Enter", "open"]]);
  useKeys({ Escape: () => (serial ? setQuery({ serial: "" }) : false) });
  const filtered = query("find") || query("status") || query("authority") || days;
  return (
    <>
      <div class="filters">
        <Search label="Holder, exactly" />
        <Pick label="Status" name="status" of={["", "valid", "expired", "revoked"].map((s) => ({ id: s, word: s || "any" }))} />
        <Pick label="Authority" name="authority" of={["", "operator", "appstore", "enterprise"].map((s) => ({ id: s, word: s || "any authority" }))} />
        <Pick label="Ends" name="within" of={[{ id: "", word: "any end" }, { id: "30", word: "within 30 days" }]} />
        <AsOf />
      </div>
      <Beside open={serial && <Certificate serial={serial} reload={rows.reload} />}>
        <Panel key_={!serial} tight label="Certificates">
          <Table
            of={rows}
            id={(c) => c.serial}
            chosen={serial}
            href={(c) => here({ serial: c.serial })}
            label="Certificates"
            words={{ loading: "Page of 100", failed: "The certificates could not be read", action: "cert:list" }}
            columns={[
              { head: "Status", cell: (c) => <State is={c.status} /> },
              { head: "Holder", cell: (c) => <a href={here({ serial: c.serial })}>{c.principal}</a> },
              { head: "Serial", cell: (c) => <Code>{c.serial}</Code>, small: "hide" },
              { head: "Covers", cell: (c) => <span class="cut on">{covers(c)}</span>, small: "hide" },
              { head: "Authority", cell: (c) => c.authority, small: "hide" },
              { head: "Ends", cell: (c) => (c.status === "valid" ? <Left until={c.expires_at} /> : <Time at={c.revoked_at || c.expires_at} />) },
            ]}
            empty={
              filtered ? (
                <Empty title="No certificate fits" step={<Button onClick={() => setQuery({ find: "", status: "", authority: "", within: "" })}>Show all</Button>} />
              ) : (
                <Empty title="No certificates yet" step={<a class="btn" href={link("access", { tab: "enrol" })}>Enrol a device</a>}>
                  A certificate says who holds a key, and what it may do.
                </Empty>
              )
            }
          />
        </Panel>
      </Beside>
    </>
  );
}

const covers = (c: { skill_id?: string; roles?: string[]; scene_types?: string[] }) =>
  [c.skill_id && `skill ${c.skill_id}`, c.roles?.length && `role ${c.roles.join(", ")}`, c.scene_types?.length && `scenes ${c.scene_types.join(", ")}`].filter(Boolean).join(" · ");

const Close = ({ name }: { name: string }) => (
  <Button quiet onClick={() => setQuery({ [name]: "" })}>
    Close
  </Button>
);

function Certificate({ serial, reload }: { serial: string; reload: () => void }) {
  const found = useLive("cert.get", { serial }, { on: ["cert", "security"] });
  return (
    <Panel key_ title="Certificate" more={<Close name="serial" />}>
      <Answer of={found} action="cert:get" loading={serial} failed="This certificate is not there">
        {({ certificate: c }) =>
          c && (
            <div class="stack">
              <Facts
                of={[
                  ["Status", <State is={c.status}>{c.status === "valid" ? `${duration(c.expires_at - now.value)} left` : undefined}</State>],
                  ["Holder", <a href={link("audit", { principal: c.principal })}>{c.principal}</a>],
                  ["Kind", c.kind],
                  ["Serial", <Code>{c.serial}</Code>],
                  ["Authority", c.authority],
                  ["Space", <Code>{c.space_id}</Code>],
                  ["Skill", c.skill_id && <a href={link("skills", c.skill_id)}>{c.skill_id}</a>],
                  ["Roles", c.roles?.join(", ")],
                  ["Scenes", c.scene_types?.join(", ")],
                  ["Purpose", c.purpose],
                  ["Issued", <Time at={c.issued_at} />],
                  ["By", c.issued_by],
                  ["Ends", <Time at={c.expires_at} />],
                  ["Renews", c.renews && <a href={here({ serial: c.renews })}><Code>{c.renews}</Code></a>],
                  ["Revoked", c.revoked_at && <><Time at={c.revoked_at} /> by {c.revoked_by}</>],
                  ["Reason", c.reason],
                ]}
              />
              {c.status === "valid" && <Revoke c={c} done={() => (found.reload(), reload())} />}
            </div>
          )
        }
      </Answer>
    </Panel>
  );
}

const reasons = ["key compromise", "superseded", "cessation of operation", "affiliation changed", "privilege withdrawn"];

function Revoke({ c, done }: { c: Cert; done: () => void }) {
  const [asking, setAsking] = useState(false);
  const [reason, setReason] = useState("");
  const [error, setError] = useState<Failure>();
  if (!may("cert:revoke")) return <Needs action="cert:revoke" />;
  const revoke = () => call("cert.revoke", { serial: c.serial, reason }).then(() => (setError(undefined), done()), setError);
  return (
    <>
      {error && <p class="failed small" role="alert"><Said error={error} /></p>}
      <div>
        <Button danger not={offNow()} onClick={() => setAsking(true)}>
          Revoke…
        </Button>
      </div>
      {asking && (
        <Confirm title={`Revoke the certificate of ${c.principal}`} act={`Revoke ${c.serial}`} not={!reason.trim() && "It needs a reason"} onAct={revoke} onClose={() => setAsking(false)}>
          <p>Connections that were opened with it end at once. Nothing brings it back; the holder needs a new one.</p>
          <ReasonField value={reason} onChange={setReason} needed list={reasons} />
          {reason.trim().toLowerCase() === "key compromise" && <p class="small dim">What was renewed from it is revoked along with it.</p>}
          <p class="small dim">
            <Code>aibridge cert revoke {c.serial} --reason "{reason || "…"}"</Code>
          </p>
        </Confirm>
      )}
    </>
  );
}

const Needs = ({ action }: { action: string }) => (
  <p class="small dim">
    To change it needs <Code>{action}</Code>. <a href={link("policies", { tab: "ask", action })}>Why?</a>
  </p>
);

const ReasonField = ({ value, onChange, needed, list = [], label = "Reason" }: { value: string; onChange: (v: string) => void; needed?: boolean; list?: string[]; label?: string }) => (
  <label class="field">
    <span>
      {label} {needed && <small class="dim">required</small>}
    </span>
    <input class="in" list="reasons" maxLength={256} value={value} onInput={(e) => onChange(e.currentTarget.value)} />
    <datalist id="reasons">
      {list.map((r) => (
        <option value={r} />
      ))}
    </datalist>
    <span class="hint">for those who read it later</span>
  </label>
);

// Requests ------------------------------------------------------------------------

function Requests() {
  const id = query("request");
  const status = query("status") || "pending";
  const params = { of: "requests" as const, status: (status === "any" ? undefined : status) as any };
  const rows = useRows<Request>("cert.list", params, "requests", { on: ["cert", "security"] });
  useShown(id ? { command: "cert.approve", params: { request_id: id } } : { command: "cert.list", params }, [["J K", "move"], ["Enter", "open"]]);
  useKeys({ Escape: () => (id ? setQuery({ request: "" }) : false) });
  return (
    <>
      <div class="filters">
        <Pick label="Status" value={status} onPick={(s) => setQuery({ status: s === "pending" ? "" : s })} of={["pending", "approved", "rejected", "issued", "any"].map((s) => ({ id: s, word: s }))} />
        <AsOf />
      </div>
      <Beside open={id && <OneRequest key={id} id={id} reload={rows.reload} />}>
        <Panel key_={!id} tight label="Requests">
          <Table
            of={rows}
            id={(r) => r.request_id}
            chosen={id}
            href={(r) => here({ request: r.request_id })}
            label="Requests for certificates"
            words={{ loading: "Page of 100", failed: "The requests could not be read", action: "cert:list" }}
            columns={[
              { head: "Status", cell: (r) => <State is={r.status} /> },
              { head: "Holder to be", cell: (r) => <a href={here({ request: r.request_id })}>{r.principal}</a> },
              { head: "Is to cover", cell: (r) => <span class="cut on">{covers(r)}</span>, small: "hide" },
              { head: "Authority", cell: (r) => r.authority, small: "hide" },
              { head: "Asked by", cell: (r) => r.requested_by, small: "hide" },
              { head: "Asked", cell: (r) => <Time at={r.requested_at} /> },
            ]}
            empty={<Empty title={status === "pending" ? "Nobody waits for a certificate" : "No request fits"}>Whoever asks an authority for a certificate waits here for a decision.</Empty>}
          />
        </Panel>
      </Beside>
    </>
  );
}

function OneRequest({ id, reload }: { id: string; reload: () => void }) {
  const found = useLive("cert.get", { request_id: id }, { on: ["cert", "security"] });
  const [reason, setReason] = useState("");
  const [error, setError] = useState<Failure>();
  const decide = (command: "cert.approve" | "cert.reject") =>
    call(command, { request_id: id, reason: reason || undefined }).then(() => (setError(undefined), found.reload(), reload()), setError);
  return (
    <Panel key_ title="Request" more={<Close name="request" />}>
      <Answer of={found} action="cert:get" loading={id} failed="This request is not there">
        {({ request: r }) =>
          r && (
            <div class="stack">
              <Facts
                of={[
                  ["Status", <State is={r.status} />],
                  ["Holder to be", r.principal],
                  ["Kind", r.kind],
                  ["Authority", r.authority],
                  ["Space", <Code>{r.space_id}</Code>],
                  ["Skill", r.skill_id],
                  ["Roles", r.roles?.join(", ")],
                  ["Scenes", r.scene_types?.join(", ")],
                  ["Purpose", r.purpose && <>{r.purpose} <small class="dim">in their words</small></>],
                  ["Asked by", r.requested_by],
                  ["Asked", <Time at={r.requested_at} />],
                  ["Decided", r.decided_at && <><Time at={r.decided_at} /> by {r.decided_by}</>],
                  ["Reason", r.reason],
                  ["Serial", r.serial && <a href={link("access", { serial: r.serial })}><Code>{r.serial}</Code></a>],
                  ["Request", <Code>{r.request_id}</Code>],
                ]}
              />
              {r.status === "pending" &&
                (r.requested_by === session.value?.principal?.id && !dev.value ? (
                  <p class="small dim">You asked for it; somebody else decides.</p>
                ) : may("cert:approve") ? (
                  <>
                    <ReasonField value={reason} onChange={setReason} />
                    <div class="line wrap">
                      <Button main not={offNow()} onClick={() => void decide("cert.approve")}>
                        Approve the request
                      </Button>
                      <Button danger not={offNow()} onClick={() => void decide("cert.reject")}>
                        Reject it
                      </Button>
                    </div>
                  </>
                ) : (
                  <Needs action="cert:approve" />
                ))}
              {r.status === "approved" && (
                <p class="small dim">
                  Whoever asked fetches it, where the key is: <Code>aibridge cert issue --request {r.request_id}</Code>
                </p>
              )}
              {error && <p class="failed small" role="alert"><Said error={error} /></p>}
            </div>
          )
        }
      </Answer>
    </Panel>
  );
}

// Keys ------------------------------------------------------------------------------

function Keys() {
  const id = query("key");
  const params = { principal_id: query("find") || undefined, state: (query("state") || undefined) as any };
  const rows = useRows<Key>("key.list", params, "keys", { on: ["key", "security"] });
  const open = rows.rows.find((k) => k.key_id === id);
  useShown(id ? { command: "key.revoke", params: { key_id: id } } : { command: "key.list", params }, [["J K", "move"], ["Enter", "open"]]);
  useKeys({ Escape: () => (id || query("make") ? setQuery({ key: "", make: "" }) : false) });
  return (
    <>
      <div class="filters">
        <Search label="Whose, exactly" />
        <Pick label="State" name="state" of={["", "live", "expired", "revoked"].map((s) => ({ id: s, word: s || "any" }))} />
        <AsOf />
        <span class="grow" />
        {may("key:create") && <a class="btn" href={link("access", { tab: "keys", make: "1" })}>New key</a>}
      </div>
      <Beside open={query("make") ? <MakeKey done={rows.reload} /> : open ? <OneKey key={id} k={open} done={rows.reload} /> : undefined}>
        <Panel key_={!open && !query("make")} tight label="API keys">
          <Table
            of={rows}
            id={(k) => k.key_id}
            chosen={id}
            href={(k) => link("access", { tab: "keys", find: query("find"), state: query("state"), key: k.key_id })}
            label="API keys"
            words={{ loading: "Page of 100", failed: "The keys could not be read", action: "key:list" }}
            columns={[
              { head: "State", cell: (k) => <State is={k.state} shape={k.state === "live" ? "ok" : undefined} /> },
              { head: "Whose", cell: (k) => <a href={link("access", { tab: "keys", find: query("find"), state: query("state"), key: k.key_id })}>{k.principal_id}</a> },
              { head: "For", cell: (k) => <span class="cut on">{k.name}</span>, small: "hide" },
              { head: "Key", cell: (k) => <Code>{k.key_id}</Code>, small: "hide" },
              { head: "Roles", cell: (k) => <span class="cut on">{k.roles.join(", ")}</span>, small: "hide" },
              { head: "Last use", cell: (k) => (k.last_use_at ? <Time at={k.last_use_at} seconds={false} /> : <span class="dim">not used</span>), small: "hide" },
              { head: "Ends", cell: (k) => (k.state === "live" ? <Left until={k.expires_at} /> : <Time at={k.revoked_at || k.expires_at} />) },
            ]}
            empty={<Empty title={query("find") || query("state") ? "No key fits" : "No keys yet"}>A key lets a device, a skill or a program in. Its secret is shown once, when it is made.</Empty>}
          />
        </Panel>
      </Beside>
    </>
  );
}

function OneKey({ k, done }: { k: Key; done: () => void }) {
  const [asking, setAsking] = useState(false);
  const [reason, setReason] = useState("");
  const [error, setError] = useState<Failure>();
  const revoke = () => call("key.revoke", { key_id: k.key_id, reason: reason || undefined }).then(() => (setError(undefined), done()), setError);
  return (
    <Panel key_ title="API key" more={<Close name="key" />}>
      <div class="stack">
        <Facts
          of={[
            ["State", <State is={k.state} shape={k.state === "live" ? "ok" : undefined} />],
            ["Whose", <a href={link("audit", { principal: k.principal_id })}>{k.principal_id}</a>],
            ["Kind", k.kind],
            ["For", k.name],
            ["Key", <Code>{k.key_id}</Code>],
            ["Roles", k.roles.join(", ") || "none"],
            ["Only for", k.scopes?.length ? k.scopes.map((s) => <div><Code>{s}</Code></div>) : undefined],
            ["Space", <Code>{k.space_id}</Code>],
            ["Made", <><Time at={k.created_at} /> by {k.created_by}</>],
            ["Last use", k.last_use_at ? <Time at={k.last_use_at} seconds={false} /> : "not used"],
            ["Ends", k.expires_at ? <Time at={k.expires_at} /> : "never"],
            ["Revoked", k.revoked_at && <Time at={k.revoked_at} />],
            ["Reason", k.reason],
          ]}
        />
        {k.state === "live" && (may("key:revoke") ? <div><Button danger not={offNow()} onClick={() => setAsking(true)}>Revoke…</Button></div> : <Needs action="key:revoke" />)}
        {error && <p class="failed small" role="alert"><Said error={error} /></p>}
      </div>
      {asking && (
        <Confirm title={`Revoke the key of ${k.principal_id}`} act={`Revoke ${k.key_id}`} onAct={revoke} onClose={() => setAsking(false)}>
          <p>Whoever came in with it is disconnected at once. It cannot be undone.</p>
          <ReasonField value={reason} onChange={setReason} />
          <p class="small dim">
            <Code>aibridge key revoke {k.key_id}</Code>
          </p>
        </Confirm>
      )}
    </Panel>
  );
}

const lives: [string, number | undefined][] = [["30 days", 30 * 86400], ["90 days", 90 * 86400], ["a year", 365 * 86400], ["ever", undefined]];

/** A secret that is shown once. It is nowhere but on this screen. */
const Secret = ({ of, text, children }: { of: string; text: string; children?: ComponentChildren }) => (
  <div class="stack secret" role="status">
    <p class="state ok">
      <Mark is="ok" />
      {of}, shown once
    </p>
    <div class="json">
      <pre class="code" tabIndex={0}>
        {text}
      </pre>
      <Copy text={text} />
    </div>
    {children}
  </div>
);

function MakeKey({ done }: { done: () => void }) {
  const [who, setWho] = useState(query("who"));
  const [name, setName] = useState("");
  const [kind, setKind] = useState<"agent" | "operator" | "skill">("agent");
  const [roles, setRoles] = useState("");
  const [life, setLife] = useState("90 days");
  const [made, setMade] = useState<Commands["key.create"]["result"]>();
  const [error, setError] = useState<Failure>();
  const listed = roles.split(/[\s,]+/).filter(Boolean);
  const params = { principal_id: who.trim(), name: name.trim() || undefined, kind, roles: listed.length ? listed : undefined, expires_in: lives.find(([w]) => w === life)?.[1] };
  useShown({ command: "key.create", params }, [["Ctrl Enter", "make"]]);
  const not = offNow() || (!params.principal_id && "It needs whose key it is");
  const make = () => {
    if (!not) call("key.create", params, { again: false }).then((k) => (setError(undefined), setMade(k), done()), setError);
  };
  useKeys({ "Ctrl+Enter": make });
  return (
    <Panel key_ title="New key" more={<Close name="make" />}>
      {made ? (
        <Secret of={`Key of ${made.principal_id}`} text={made.key}>
          <p class="small dim">The bridge does not keep it. Put it where the device finds it, such as a file that only it can read.</p>
          <Button onClick={() => (setMade(undefined), setQuery({ make: "", key: made.key_id }))}>I have it</Button>
        </Secret>
      ) : (
        <form class="stack" onSubmit={(e) => (e.preventDefault(), make())}>
          <label class="field">
            <span>Whose <small class="dim">required</small></span>
            <input class="in" maxLength={64} value={who} onInput={(e) => setWho(e.currentTarget.value)} />
            <span class="hint">an agent's or skill's id, or a name for a person or program</span>
            {error?.param === "principal_id" && <span class="err"><Said error={error} /></span>}
          </label>
          <div class="field">
            <span>Kind</span>
            <Pick label="Kind" value={kind} onPick={(k) => setKind(k as typeof kind)} of={["agent", "skill", "operator"].map((k) => ({ id: k, word: k }))} />
          </div>
          <label class="field">
            <span>For</span>
            <input class="in" maxLength={128} value={name} onInput={(e) => setName(e.currentTarget.value)} />
            <span class="hint">for people</span>
          </label>
          <label class="field">
            <span>Roles</span>
            <input class="in mono" value={roles} onInput={(e) => setRoles(e.currentTarget.value)} />
            <span class="hint">left out: end_agent, skill or observer, by its kind</span>
          </label>
          <div class="field">
            <span>Good for</span>
            <Pick label="Good for" value={life} onPick={setLife} of={lives.map(([w]) => ({ id: w, word: w }))} />
          </div>
          {error && error.param !== "principal_id" && <p class="failed small" role="alert"><Said error={error} /></p>}
          <div>
            <Button main type="submit" not={not}>Make the key</Button>
          </div>
        </form>
      )}
    </Panel>
  );
}

// Tokens ------------------------------------------------------------------------------

function Tokens() {
  const params = { principal_id: query("find") || undefined };
  const rows = useRows<Revoked>("token.list", params, "revoked", { on: ["token", "security"] });
  const [token, setToken] = useState(query("token"));
  const [who, setWho] = useState("");
  const [reason, setReason] = useState("");
  const [error, setError] = useState<Failure>();
  const [asking, setAsking] = useState(false);
  const revoking = who ? { principal_id: who.trim(), reason: reason || undefined } : { token_id: token.trim() || undefined, reason: reason || undefined };
  const chosen = !!(who.trim() || token.trim());
  useShown(chosen ? { command: "token.revoke", params: revoking } : { command: "token.list", params }, [["J K", "move"]]);
  const revoke = () => call("token.revoke", revoking as Commands["token.revoke"]["params"]).then(() => (setError(undefined), setToken(""), setWho(""), setReason(""), rows.reload()), setError);
  return (
    <>
      <div class="filters">
        <Search label="Whose, exactly" />
        <AsOf />
      </div>
      <div class="cols c-side">
        <Panel key_ tight label="Revoked tokens">
          <Table
            of={rows}
            id={(r) => r.revocation_id}
            label="Revoked tokens"
            words={{ loading: "Page of 100", failed: "The revocations could not be read", action: "token:list" }}
            columns={[
              { head: "Revoked", cell: (r) => <State is="revoked" word={r.token_id ? "one token" : "all tokens"} /> },
              { head: "Whose", cell: (r) => r.token_id ? <Code>{r.token_id}</Code> : <span class="cut on">{r.principal_id}</span> },
              { head: "When", cell: (r) => <Time at={r.revoked_at} /> },
              { head: "By", cell: (r) => r.revoked_by, small: "hide" },
              { head: "Reason", cell: (r) => <span class="cut on">{r.reason}</span>, small: "hide" },
              { head: "Forgotten", cell: (r) => (r.forgotten_at ? <Time at={r.forgotten_at} /> : "never"), small: "hide" },
            ]}
            empty={<Empty title="No token is revoked">Tokens are made by your issuer and end by themselves. What is revoked before that stands here.</Empty>}
          />
        </Panel>
        {may("token:revoke") ? (
          <Panel title="Revoke">
            <form class="stack" onSubmit={(e) => (e.preventDefault(), chosen && !offNow() && setAsking(true))}>
              <label class="field">
                <span>One token</span>
                <input class="in mono" value={token} disabled={!!who} maxLength={256} onInput={(e) => setToken(e.currentTarget.value)} />
                <span class="hint">its jti, or the credential that the audit shows</span>
              </label>
              <label class="field">
                <span>Or all of a principal</span>
                <input class="in" value={who} disabled={!!token} maxLength={64} onInput={(e) => setWho(e.currentTarget.value)} />
                <span class="hint">those issued until now</span>
              </label>
              <ReasonField value={reason} onChange={setReason} />
              {error && <p class="failed small" role="alert"><Said error={error} /></p>}
              <div>
                <Button danger type="submit" not={offNow() || (!chosen && "It needs a token, or whose tokens")}>Revoke…</Button>
              </div>
            </form>
            {asking && (
              <Confirm title={who ? `Revoke all tokens of ${who}` : `Revoke the token ${token}`} act={who ? `Revoke all of ${who}` : "Revoke this token"} onAct={revoke} onClose={() => setAsking(false)}>
                <p>Whoever came in with {who ? "one of them" : "it"} is disconnected at once. It cannot be undone.</p>
              </Confirm>
            )}
          </Panel>
        ) : (
          <Panel title="Revoke"><Needs action="token:revoke" /></Panel>
        )}
      </div>
    </>
  );
}

// Enrol ----------------------------------------------------------------------------------

function Enrol() {
  const [of, setOf] = useState<"skill" | "agent">("skill");
  const [id, setId] = useState("");
  const [role, setRole] = useState("");
  const [scenes, setScenes] = useState("");
  const [made, setMade] = useState<Commands["cert.token.create"]["result"]>();
  const [error, setError] = useState<Failure>();
  const types = scenes.split(/[\s,]+/).filter(Boolean);
  const params = {
    ...(of === "skill" ? { skill_id: id.trim() || undefined } : { agent_id: id.trim() || undefined }), authority: "operator" as const, role: role.trim() || undefined, scene_types: types.length ? types : undefined, ttl_seconds: 3600,
  };
  useShown({ command: "cert.token.create", params }, [["Ctrl Enter", "make"]]);
  const not = offNow() || (!id.trim() && `It needs the ${of}'s id`);
  const make = () => {
    if (!not) call("cert.token.create", params as Commands["cert.token.create"]["params"], { again: false }).then((t) => (setError(undefined), setMade(t)), setError);
  };
  useKeys({ "Ctrl+Enter": make });
  useEffect(() => setMade(undefined), [id, of]);
  if (!may("cert:issue")) return <Panel key_ label="Enrol"><NotAllowed action="cert:issue" title="Not yours" /></Panel>;
  const url = session.value?.bridge?.http ? ` --url ${location.protocol}//${location.host}` : "";
  const port = session.value?.bridge?.mqtts?.match(/:(\d+)$/)?.[1];
  const at = id.trim();
  const connect = `aibridge agent end --id ${at} --url mqtts://${location.hostname}:${port} --ca ${at}/ca.pem --cert ${at}/cert.pem --key ${at}/key.pem`;
  return (
    <div class="cols c-2">
      <Panel key_ title="A claim token">
        <form class="stack" onSubmit={(e) => (e.preventDefault(), make())}>
          <p class="dim">With it a device makes its own key and gets one certificate. It can be claimed once, within an hour.</p>
          <div class="field">
            <span>For</span>
            <Pick label="For" value={of} onPick={(v) => setOf(v as typeof of)} of={[{ id: "skill", word: "a skill" }, { id: "agent", word: "an agent" }]} />
          </div>
          <label class="field">
            <span>Its id <small class="dim">required</small></span>
            <input class="in mono" maxLength={64} value={id} onInput={(e) => setId(e.currentTarget.value)} />
          </label>
          <label class="field">
            <span>Role</span>
            <input class="in mono" maxLength={32} value={role} onInput={(e) => setRole(e.currentTarget.value)} />
            <span class="hint">agent_route for route agents, or one of its scenes</span>
          </label>
          <label class="field">
            <span>Types of scenes</span>
            <input class="in mono" value={scenes} onInput={(e) => setScenes(e.currentTarget.value)} />
            <span class="hint">that it may declare and join; * is all</span>
          </label>
          {error && <p class="failed small" role="alert"><Said error={error} /></p>}
          <div>
            <Button main type="submit" not={not}>Make the token</Button>
          </div>
        </form>
      </Panel>
      <Panel title="On the device">
        {made ? (
          <Secret of="Claim token" text={`aibridge cert claim ${made.token}${url} --out ${at}`}>
            <p class="small dim">Until <Time at={made.expires_at} />. The key that it makes never leaves the device. The certificate then stands under <a href={link("access")}>Certificates</a>.</p>
            {of === "agent" && port && (
              <>
                <h3>Then it connects</h3>
                <div class="json">
                  <pre class="code connects" tabIndex={0}>
                    {connect}
                  </pre>
                  <Copy text={connect} />
                </div>
                <p class="small dim">
                  With its skills in the folder <Code>skills</Code>. It stands under <a href={link("agents")}>Agents</a> as soon as it is there.
                </p>
              </>
            )}
          </Secret>
        ) : (
          <p class="dim">The line to type there will stand here.</p>
        )}
      </Panel>
    </div>
  );
}
