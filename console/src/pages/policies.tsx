// Policies: may somebody do something, and by which text; who was refused
// lately; the texts themselves, and how they are changed.
import {
  Answer, AsOf, Button, call, Code, Confirm, count, Diff, Empty, Facts, Failure, Fragment, go, h, Head, link, Mark, may, NotAllowed, offNow, Panel, path, query, Said, session, setQuery, State,
  Table, Time, useEffect, useKeys, useLive, useMemo, useRows, useShown, useState, useTitle, type Commands,
} from "../core";

type Text = Commands["policy.list"]["result"]["policies"][number];
type Entry = Commands["audit.query"]["result"]["entries"][number];
type Explained = Commands["policy.explain"]["result"];

export default function Policies() {
  const text = path.value[1];
  if (text === "new") return <Editor key="new" name="" text={proposal()} />;
  return text ? <OneText key={text} name={text} /> : <Overview />;
}

function Overview() {
  useTitle("Policies");
  return (
    <>
      <Head crumb="Policies" title="Who may do what" does={may("policy:put") && <a class="btn" href={link("policies", "new")}>New policy</a>} />
      <div class="stack gap">
        <Tester />
        <div class="cols c-21">
          <Refused />
          <Texts />
        </div>
      </div>
    </>
  );
}

// May somebody do something -----------------------------------------------------------

const kinds = ["agent", "skill", "operator"];

/** "agent:agv-02" as a principal; whoever is not said to be something is an agent. */
function principalOf(text: string): { id: string; kind?: any } | undefined {
  if (!text) return undefined;
  const colon = text.indexOf(":");
  const kind = text.slice(0, colon);
  return colon > 0 && kinds.includes(kind) ? { id: text.slice(colon + 1), kind: kind as any } : { id: text };
}

function resourceOf(text: string): { type: string; id?: string } | undefined {
  if (!text) return undefined;
  const slash = text.indexOf("/");
  return slash < 0 ? { type: text } : { type: text.slice(0, slash), id: text.slice(slash + 1) || undefined };
}

/** The question, as the address has it. */
function question(): Commands["policy.explain"]["params"] | undefined {
  const action = query("action");
  if (!action) return undefined;
  const who = principalOf(query("principal"));
  const roles = query("roles").split(/[\s,]+/).filter(Boolean);
  return {
    principal: who && { ...who, roles: roles.length ? roles : undefined, cert_sn: query("cert") || undefined },
    action, resource: resourceOf(query("resource")), door: (query("door") || undefined) as any, address: query("from") || undefined,
  };
}

const blanks = ["principal", "action", "resource", "door", "roles", "from", "cert"] as const;

function Tester() {
  const asked = Object.fromEntries(blanks.map((b) => [b, query(b)])) as Record<(typeof blanks)[number], string>;
  const [typed, setTyped] = useState(asked);
  const key = JSON.stringify(asked);
  useEffect(() => setTyped(asked), [key]);
  const q = question();
  const found = useLive(q && may("policy:explain") ? "policy.explain" : undefined, q ?? { action: "" }, { on: ["policy"], every: 0 });
  useShown({ command: "policy.explain", params: q ?? { action: "skill:invoke" } }, [["Tab", "next blank"], ["Enter", "ask"]]);
  const commands = useLive(may("bridge:describe") ? "bridge.describe" : undefined, {}, { every: 0 });
  const actions = useMemo(() => [...new Set(((commands.value.data as any)?.commands ?? []).map((c: any) => c.action as string).filter(Boolean))].sort() as string[], [commands.value.data]);
  const ask = () => {
    setQuery({ ...typed, tab: "" }, true);
    if (JSON.stringify(typed) === key) found.reload();
  };
  const blank = (name: (typeof blanks)[number], label: string, size: number, placeholder: string, list?: string) => (
    <label>
      <span class="vh">{label}</span>
      <input class="in" size={size} placeholder={placeholder} list={list} value={typed[name]} spellcheck={false} autocapitalize="off" onInput={(e) => setTyped({ ...typed, [name]: e.currentTarget.value.trim() })} />
    </label>
  );
  return (
    <section class="panel key" aria-label="Tester">
      <div class="body">
        <form class="stack" aria-label="Who may do what" onSubmit={(e) => (e.preventDefault(), ask())}>
          <div class="sentence">
            <span>May</span>
            {blank("principal", "Principal, such as agent:lamp-1", 16, session.value?.principal?.id ?? "you")}
            <span>do</span>
            {blank("action", "Action, such as skill:invoke", 16, "skill:invoke", "actions")}
            <span>on</span>
            {blank("resource", "Resource, such as skill/door", 18, "skill/door")}
            <span>by</span>
            <label>
              <span class="vh">Door</span>
              <select class="in" value={typed.door} onChange={(e) => setTyped({ ...typed, door: e.currentTarget.value })}>
                {["", "mqtt", "http", "ws"].map((d) => <option value={d}>{d || "any door"}</option>)}
              </select>
            </label>
            <span>?</span>
            <Button main type="submit" not={offNow() || (!typed.action && "It needs an action")}>
              Ask <kbd>Enter</kbd>
            </Button>
          </div>
          <details open={!!(asked.roles || asked.from || asked.cert)}>
            <summary class="small">More: roles, address, certificate</summary>
            <div class="sentence">
              <span>with roles</span> {blank("roles", "Roles", 18, "its own")} <span>from</span> {blank("from", "IP address", 14, "anywhere")} <span>holding</span> {blank("cert", "Serial of a certificate", 17, "no certificate")}
            </div>
          </details>
          <datalist id="actions">
            {actions.map((a) => <option value={a} />)}
          </datalist>
        </form>
      </div>
      {q && (
        <div class="body part">
          {may("policy:explain") ? (
            <Answer of={found} action="policy:explain" loading="What policy says" failed="It could not be asked">
              {(e) => <Verdict e={e} />}
            </Answer>
          ) : (
            <NotAllowed action={q.action} title={may(q.action) ? "You may, in part" : "You may not"}>
              {may(q.action) ? "Some policy grants you this. Which one needs" : "No policy grants you this: ask an administrator for"} {may(q.action) && <Code>policy:explain</Code>} {" "}
            </NotAllowed>
          )}
        </div>
      )}
    </section>
  );
}

function Verdict({ e }: { e: Explained }) {
  const yes = e.decision === "allow";
  return (
    <div class="stack">
      <p class={`verdict ${yes ? "ok" : "failed"}`} role="status">
        <Mark is={yes ? "ok" : "denied"} />
        {yes ? "Yes." : "No."}
      </p>
      <p>{e.reason.charAt(0).toUpperCase() + e.reason.slice(1)}.</p>
      <div class={e.policies.length > 1 ? "cols c-2" : undefined}>
        {e.policies.map((p) => (
          <div class="stack">
            <h3>
              <span class={p.effect === "permit" ? "state ok" : "state failed"}>
                <Mark is={p.effect === "permit" ? "ok" : "denied"} /> {p.effect === "permit" ? "permits" : "forbids"}
              </span>{" "}
              <a href={link("policies", textOf(p.id, p.from))}>{p.id}</a> <span class="dim">{p.from}{p.line ? `, line ${p.line}` : ""}</span>
            </h3>
            {p.why && <p>“{p.why}”</p>}
            <pre class="code" tabIndex={0}>{p.text}</pre>
          </div>
        ))}
      </div>
      {e.failed?.length ? e.failed.map((f) => <p class="failed small">{f.id} could not be evaluated: {f.error}</p>) : null}
      <p class="small dim break">
        Asked as <Code>{e.principal}</Code>, {e.roles.length ? <>roles <Code>{e.roles.join(", ")}</Code></> : "no roles"}, space <Code>{e.space_id}</Code>, <Code>{e.action}</Code> on <Code>{e.resource}</Code>. {count(e.asked, "policy has", "policies have")} a say about this action.
      </p>
    </div>
  );
}

/** Name of the text that a policy is in: "home/night" is in "home"; a file's is its path. */
const textOf = (id: string, from: string) => (from === "file" ? id.replace(/\/[^/.]*$/, "") : id.split("/")[0]);

// Refused lately -----------------------------------------------------------------------

function Refused() {
  const found = useLive(may("audit:query") ? "audit.query" : undefined, { code: "2003", limit: 20 }, { every: 10000 });
  return (
    <Panel title="Refused lately" tight more={may("audit:query") && <a href={link("audit", { code: "2003" })}>All</a>}>
      {!may("audit:query") ? (
        <NotAllowed action="audit:query" title="Not yours" />
      ) : (
        <Answer of={found} action="audit:query" loading="The latest 20" failed="The audit could not be read">
          {(f) =>
            f.entries.length === 0 ? (
              <Empty title="Nobody was refused">What policy refuses will stand here, with a rule that would permit it.</Empty>
            ) : (
              <table class="t">
                <thead>
                  <tr>
                    <th scope="col">When</th>
                    <th scope="col">Who</th>
                    <th scope="col">What</th>
                    <th scope="col" class="no-small">On</th>
                    <th scope="col"><span class="vh">What to do</span></th>
                  </tr>
                </thead>
                <tbody>
                  {f.entries.map((e) => (
                    <tr key={e.seq}>
                      <td><a href={link("audit", { entry: e.seq, bridge: e.bridge_id })}><Time at={e.time} /></a></td>
                      <td><span class="cut on">{e.principal}</span></td>
                      <td><a href={link("policies", about(e))}><Code>{e.action || e.event}</Code></a></td>
                      <td class="no-small"><span class="cut on">{e.resource}</span></td>
                      <td>{may("policy:put") && e.action && <a href={link("policies", "new", about(e))}>Propose a rule</a>}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )
          }
        </Answer>
      )}
    </Panel>
  );
}

const about = (e: Entry) => ({ principal: e.principal ? `${kinds.includes(e.kind ?? "") ? e.kind : "agent"}:${e.principal}` : "", action: e.action, resource: e.resource });

/** What would permit exactly what was refused, if somebody wants to. */
function proposal(): string {
  const who = principalOf(query("principal"));
  const what = query("action");
  if (!what) return "";
  const on = resourceOf(query("resource"));
  const cedar = (s: string) => JSON.stringify(s).replace(/[\u007f-\uffff]/g, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`);
  const type = (s: string) => s.split("_").map((w) => w.charAt(0).toUpperCase() + w.slice(1)).join("");
  const principal = who ? `principal == ${type(who.kind ?? "agent")}::${cedar(who.id)}` : "principal";
  const resource = on?.id ? `resource == ${type(on.type)}::${cedar(on.id)}` : "resource";
  return `@why("say why")\npermit (\n  ${principal},\n  action == Action::${cedar(what)},\n  ${resource}\n);\n`;
}

// Texts ------------------------------------------------------------------------------------

function Texts() {
  const rows = useRows<Text>("policy.list", {}, "policies", { on: ["policy"] });
  return (
    <Panel label="Policies" title={<>Policies</>} tight more={<AsOf />}>
      <Table
        of={rows}
        id={(t) => t.name}
        href={(t) => link("policies", t.name)}
        label="Texts of policies"
        tall={false}
        words={{ loading: "Texts", failed: "The texts could not be read", action: "policy:list" }}
        columns={[
          { head: "Text", cell: (t) => <a href={link("policies", t.name)}>{t.name}</a> },
          { head: "From", cell: (t) => t.from },
          { head: "Policies", num: true, cell: (t) => t.policies.length, small: "hide" },
          { head: "State", cell: (t) => (t.broken ? <State is="broken" /> : <State is="ok" word="in force" />) },
        ]}
        empty={<Empty title="No policies" />}
      />
    </Panel>
  );
}

function OneText({ name }: { name: string }) {
  useTitle(name);
  const found = useLive("policy.get", { name }, { on: ["policy"], every: 0 });
  return (
    <Answer of={found} action="policy:get" loading={name} failed={`There is no text ${name}`} works="It may have been removed.">
      {(t) => (t.from === "stored" && may("policy:put") ? <Editor name={name} text={t.policy} of={t} /> : <Shown t={t} />)}
    </Answer>
  );
}

type Got = Commands["policy.get"]["result"];

const Origin = ({ t }: { t: Got }) => (
  <>
    <span class="tag">{t.from}</span> {t.broken ? <State is="broken" /> : <State is="ok" word="in force" />}
  </>
);

const crumb = (
  <>
    <a href={link("policies")}>Policies</a> / text
  </>
);

function Shown({ t }: { t: Got }) {
  useShown({ command: "policy.get", params: { name: t.name } });
  return (
    <>
      <Head crumb={crumb} title={t.name}>
        <Origin t={t} />
      </Head>
      {t.broken && <p class="note failed mid"><Mark is="failed" /><span>A newer text is broken, this one stays in force: {t.broken}</span></p>}
      <div class="cols c-side">
        <Panel key_ title="In force">
          <pre class="code" tabIndex={0}>{t.policy}</pre>
        </Panel>
        <About t={t} />
      </div>
    </>
  );
}

const About = ({ t }: { t: Got }) => (
  <Panel title="About">
    <Facts
      of={[
        ["From", { shipped: "the bridge itself; it is not changed", file: "a file of the bridge's operator; it is changed there", stored: "policy.put" }[t.from as string]],
        ["Policies", t.policies.map((p) => <div><Code>{p}</Code></div>)],
        ["Put", t.updated_at && <><Time at={t.updated_at} /> by {t.updated_by}</>],
        ["Revision", t.revision],
      ]}
    />
  </Panel>
);

// Editor --------------------------------------------------------------------------------------

const naming = /^[a-z0-9][a-z0-9._-]{0,63}$/;

function Editor({ name: given, text: before, of }: { name: string; text: string; of?: Got }) {
  useTitle(given || "New policy");
  const inForce = of?.policy ?? "";
  const [name, setName] = useState(given);
  const [text, setText] = useState(before);
  const [from] = useState(of?.revision); // what the edit began with
  const [error, setError] = useState<Failure>();
  const [put, setPut] = useState(false);
  const [removing, setRemoving] = useState(false);
  const checked = useChecked(text);
  const params = { name, policy: text, revision: from };
  const changed = text !== inForce;
  const not =
    offNow() || (!may("policy:put") && "It needs policy:put") || (!naming.test(name) && "It needs a name of a-z, 0-9, dot, _ or -") || (!text.trim() && "It needs a text") ||
    (!changed && "Nothing is changed") || (checked.text === text && checked.result && !checked.result.valid && "The text has errors");
  useShown({ command: "policy.put", params, line: `aibridge policy put ${name || "NAME"} FILE` }, [["Ctrl Enter", "put in force"]]);
  const save = () => {
    if (not) return;
    call("policy.put", params).then((r) => (setError(undefined), setPut(true), given ? undefined : go(link("policies", r.name))), setError);
  };
  useKeys({ "Ctrl+Enter": save });
  const stale = of && from !== of.revision && !put;
  return (
    <>
      <Head
        crumb={crumb}
        title={given || "New policy"}
        does={of && may("policy:remove") && <Button danger not={offNow()} onClick={() => setRemoving(true)}>Remove…</Button>}
      >
        {of && <Origin t={of} />}
      </Head>
      {stale && <p class="note warning mid" role="alert"><Mark is="warning" /><span>{of.updated_by} has put another version meanwhile. Open it anew to see it; what you typed is kept until then.</span></p>}
      <div class="cols c-2">
        <Panel key_ title="Text" more={<span class="small dim">Cedar</span>}>
          <div class="stack">
            {!given && (
              <label class="field">
                <span>Name <small class="dim">required</small></span>
                <input class="in mono" maxLength={64} value={name} onInput={(e) => setName(e.currentTarget.value)} />
                {name && !naming.test(name) && <span class="err">a-z, 0-9, dot, _ or -, and begins with a letter or digit</span>}
              </label>
            )}
            <label class="field">
              <span>Policies</span>
              <textarea class="in mono cedar" rows={16} spellcheck={false} maxLength={65536} value={text} onInput={(e) => (setText(e.currentTarget.value), setPut(false))} />
            </label>
            <Checked of={checked} text={text} />
            {error && <p class="failed small" role="alert"><Said error={error} /></p>}
            <div class="line wrap">
              <Button main not={not} onClick={save}>
                Put in force <kbd>Ctrl Enter</kbd>
              </Button>
              {put ? <State is="ok" word="In force" /> : not && <span class="small dim">{not}</span>}
            </div>
          </div>
        </Panel>
        <div class="stack gap">
          <Panel title="What changes">
            {changed ? <Diff before={inForce} after={text} /> : <p class="dim">Nothing yet.</p>}
          </Panel>
          {of && <About t={of} />}
        </div>
      </div>
      {removing && (
        <Confirm
          title={`Remove ${given}`}
          act={`Remove ${given}`}
          onAct={() => void call("policy.remove", { name: given }).then(() => go(link("policies")), setError)}
          onClose={() => setRemoving(false)}
        >
          <p>Its {count(of?.policies.length ?? 0, "policy", "policies")} are out of force at once. What they permitted is refused, what they forbade is not.</p>
        </Confirm>
      )}
    </>
  );
}

interface Checking {
  text: string;
  result?: Commands["policy.validate"]["result"];
  error?: Failure;
}

/** What the bridge says of the text, a moment after it was typed. */
function useChecked(text: string): Checking {
  const [is, set] = useState<Checking>({ text: "" });
  useEffect(() => {
    if (!text.trim() || !may("policy:validate")) return set({ text });
    let over = false;
    const timer = setTimeout(() => call("policy.validate", { policy: text }).then((result) => over || set({ text, result }), (error) => over || set({ text, error })), 250);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [text]);
  return is;
}

function Checked({ of, text }: { of: Checking; text: string }) {
  const r = of.result;
  return (
    <div class="stack checks small" role="status">
      {of.text !== text ? <span class="dim">Checking</span> : of.error ? <span class="failed"><Said error={of.error} /></span> : null}
      {r && of.text === text && r.valid && <State is="ok" word="No errors" />}
      {r?.errors?.map((e) => <p class="state failed"><Mark is="failed" /><span>{e}</span></p>)}
      {r?.warnings?.map((w) => <p class="state warning"><Mark is="warning" /><span>{w}</span></p>)}
    </div>
  );
}
