// Commands: what the bridge can be asked, and one of them: what it takes, what it
// answers, and running it.
import {
  Answer, Button, call, Code, Confirm, duration, Empty, Facts, Failure, Fragment, h, Head, Json, link, Mark, may, offNow, Panel, path, problems, query, Said, SchemaForm, Search, State, time,
  useKeys, useLive, useShown, useState, useTitle, type CommandName, type Commands, type Schema,
} from "../core";

type Description = Commands["bridge.describe"]["result"]["commands"][number];

export default function CommandsPage() {
  const name = path.value[1];
  return name ? <One key={name} name={name} /> : <All />;
}

// All ---------------------------------------------------------------------

const familyOf = (c: Description) => c.name.slice(0, c.name.lastIndexOf("."));

function All() {
  useTitle("Commands");
  const found = useLive("bridge.describe", {}, { on: ["command"], every: 0 });
  useShown({ command: "bridge.describe", params: {} });
  const text = query("find").toLowerCase();
  const fits = (c: Description) => c.name.includes(text) || c.summary.toLowerCase().includes(text);
  return (
    <>
      <Head crumb={<a href={link("settings")}>Settings</a>} title="Commands" />
      <div class="filters">
        <Search label="Find by name or purpose" />
        <a class="btn" href={link("reference")} data-outside>
          On one page
        </a>
      </div>
      <Answer of={found} action="bridge:describe" loading="All commands" failed="The commands could not be read">
        {({ commands }) => {
          const families = new Map<string, Description[]>();
          for (const c of commands.filter(fits)) families.set(familyOf(c), [...(families.get(familyOf(c)) ?? []), c]);
          if (families.size === 0) return <Empty title="No command fits" step={<a href={link("commands")}>Show all</a>} />;
          return (
            <div class="stack gap families">
              {[...families].map(([family, members]) => (
                <Panel key={family} title={family} tight>
                  <table class="t">
                    <tbody>
                      {members.map((c) => (
                        <tr key={c.name}>
                          <td>
                            <a href={link("commands", c.name)}>
                              <Code>{c.name}</Code>
                            </a>
                          </td>
                          <td>{c.summary}</td>
                          <td class="no-small">{!may(c.permission) && <State is="denied" word="not yours" />}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </Panel>
              ))}
            </div>
          );
        }}
      </Answer>
    </>
  );
}

// One ---------------------------------------------------------------------

function One({ name }: { name: string }) {
  useTitle(name);
  const found = useLive("bridge.describe", { command: name }, { on: ["command"], every: 0 });
  return (
    <Answer of={found} action="bridge:describe" loading={name} failed={`There is no command ${name}`}>
      {({ commands: [c] }) => (
        <>
          <Head crumb={<a href={link("commands")}>Commands</a>} title={c.name}>
            <span class="tag">{c.effect}</span>
          </Head>
          <p class="under-filters">{c.summary}</p>
          <div class="cols c-side">
            <Run c={c} />
            <div class="stack gap">
              <Panel title="Declared as">
                <Facts
                  of={[
                    ["Permission", <Code>{c.permission}</Code>],
                    ["Effect", effects[c.effect]],
                    ["As a task", c.async && <>with <Code>async</Code></>],
                    ["Also known as", c.aliases?.length && c.aliases.map((a) => <div><Code>{a}</Code></div>)],
                    ["May fail with", c.errors.length > 0 && c.errors.map((e) => <div><Code>{e.code}</Code> {e.summary}</div>)],
                    ["Who may", <a href={link("policies", { tab: "ask", action: c.permission })}>Ask policy</a>],
                    ["Who did", may("audit:query") && <a href={link("audit", { event: c.name })}>In the audit</a>],
                  ]}
                />
              </Panel>
              <Panel title="Answers">
                <Fields of={c.result_schema as Schema} />
              </Panel>
            </div>
          </div>
        </>
      )}
    </Answer>
  );
}

const effects = { read: "it reads", write: "it changes what the bridge keeps", act: "it acts on the world" };

const typeOf = (s: Schema) => (s.enum ? s.enum.map(String).join(" or ") : [s.type ?? "any"].flat().filter((t) => t !== "null").join(" or "));

/** Fields of a result, those within lists and objects below theirs. */
const Fields = ({ of }: { of: Schema }) => {
  const names = Object.entries(of.properties ?? {});
  if (names.length === 0) return <p class="small dim">Nothing besides that it is done.</p>;
  return (
    <ul class="declared">
      {names.map(([name, s]) => {
        const inner = s.type === "array" && s.items ? s.items : s;
        return (
          <li>
            <Code>{name}</Code> <span class="small dim">{s.type === "array" ? `list of ${typeOf(inner)}` : typeOf(s)}</span>
            {s.description && <div class="small">{s.description}</div>}
            {Object.keys(inner.properties ?? {}).length > 0 && (
              <details>
                <summary class="small">its fields</summary>
                <Fields of={inner} />
              </details>
            )}
          </li>
        );
      })}
    </ul>
  );
};

interface Ended {
  at: number;
  took: number;
  result?: unknown;
  error?: Failure;
}

function Run({ c }: { c: Description }) {
  const schema = c.params_schema as Schema;
  const [params, setParams] = useState<Record<string, unknown>>({});
  const [filled, setFilled] = useState(0);
  const [tried, setTried] = useState(false);
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const [ended, setEnded] = useState<Ended>();
  const wrong = problems(schema, params);
  const needs = Object.keys(wrong).length;
  if (ended?.error?.param) wrong[ended.error.param.replace(/^params\./, "")] ??= String(ended.error.details.reason ?? ended.error.message);
  useShown({ command: c.name, params }, [["Ctrl Enter", "run"]]);
  const run = async () => {
    setBusy(true);
    const at = Date.now();
    const took = () => Date.now() - at;
    await call(c.name as CommandName, params as never).then(
      (result) => setEnded({ at, took: took(), result }),
      (error) => setEnded({ at, took: took(), error }),
    );
    setBusy(false);
  };
  const ask = () => {
    setTried(true);
    if (needs || busy || offNow() || !may(c.permission)) return;
    if (c.effect === "read") void run();
    else setAsking(true);
  };
  useKeys({ "Ctrl+Enter": ask });
  if (!may(c.permission))
    return (
      <Panel title="Run it" key_>
        <p class="line">
          <Mark is="denied" />
          <span>
            You may not: it needs <Code>{c.permission}</Code>. <a href={link("policies", { tab: "ask", action: c.permission })}>Why?</a>
          </span>
        </p>
      </Panel>
    );
  const not = offNow() || (busy && "It is asked") || (needs ? `${needs === 1 ? "one field" : `${needs} fields`} to mend` : "");
  return (
    <Panel
      title="Run it"
      key_
      more={
        c.example !== undefined && JSON.stringify(c.example) !== "{}" && (
          <Button quiet onClick={() => (setParams(c.example as Record<string, unknown>), setFilled(filled + 1))}>
            Fill in the example
          </Button>
        )
      }
    >
      <form class="stack try" onSubmit={(e) => (e.preventDefault(), ask())}>
        <SchemaForm key={filled} schema={schema} value={params} wrong={wrong} all={tried} onChange={setParams} id="run" />
        <div class="line wrap">
          <Button main type="submit" not={not}>
            Run {c.name}
          </Button>
          <span class="small dim">{not}</span>
        </div>
        <div aria-live="polite" class="stack">
          {ended?.error && (
            <p class="note failed small">
              <Mark is={ended.error.denied ? "denied" : "failed"} />
              <span class="grow">
                <Said error={ended.error} />
              </span>
            </p>
          )}
          {ended?.result !== undefined && (
            <>
              <State is="ok">
                {duration(ended.took)}, at {time(ended.at)}
              </State>
              <Json value={ended.result} />
            </>
          )}
        </div>
      </form>
      {asking && (
        <Confirm title={`Run ${c.name}`} act={`Run ${c.name}`} onAct={() => void run()} onClose={() => setAsking(false)}>
          <p>
            <Mark is="warning" /> {c.effect === "act" ? "It acts on the world." : "It changes what the bridge keeps."} This is what it is told:
          </p>
          <Json value={params} />
        </Confirm>
      )}
    </Panel>
  );
}
