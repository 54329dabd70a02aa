// MCP servers: which there are, what they offer, what is new or has changed
// since it was approved.
import {
  Answer, AsOf, Button, call, Code, count, Empty, Facts, Failure, Fragment, h, Head, link, Mark, may, NotAllowed, offNow, Outcome, Panel, path, Said, State, Time, useKeys, useLive,
  useShown, useState, useTitle, type Commands,
} from "../core";

type Server = Commands["mcp.server.list"]["result"]["servers"][number];
type Kind = "tools" | "prompts" | "templates";

interface Thing {
  kind: Kind;
  name: string;
  state: string;
  description?: string;
}

const things = (s: Server): Thing[] => [
  ...s.tools.map((t) => ({ kind: "tools" as const, name: t.tool, state: t.state, description: t.description })),
  ...(s.prompts ?? []).map((p) => ({ kind: "prompts" as const, name: p.prompt, state: p.state, description: p.description })),
  ...(s.templates ?? []).map((t) => ({ kind: "templates" as const, name: t.uri_template, state: t.state, description: t.description })),
];

const words: Record<Kind, string> = { tools: "tool", prompts: "prompt", templates: "template" };
const order = ["changed", "new", "approved"];
const waits = (s: Server) => things(s).filter((t) => t.state !== "approved").length + (s.resources?.state === "new" ? 1 : 0);
const shape = (state: string) => (state === "approved" ? "ok" : state === "changed" ? "warning" : "pending");

export default function Servers() {
  const name = path.value[1];
  useTitle(name || "MCP servers");
  const found = useLive("mcp.server.list", {}, { on: ["mcp"], every: 10000 });
  return (
    <Answer of={found} action="mcp:server.list" loading="MCP servers" failed="The servers could not be listed">
      {({ servers }) => {
        const one = servers.find((s) => s.server === name);
        if (name) return one ? <One s={one} reload={found.reload} /> : <Empty title={`There is no server ${name}`} step={<a href={link("mcp-servers")}>All servers</a>}>Servers are named in the bridge's configuration.</Empty>;
        return <List servers={servers} />;
      }}
    </Answer>
  );
}

function List({ servers }: { servers: Server[] }) {
  useShown({ command: "mcp.server.list", params: {} });
  return (
    <>
      <Head crumb="MCP servers" title={servers.length ? count(servers.length, "MCP server") : "MCP servers"}>
        <AsOf />
      </Head>
      <Panel key_ tight label="MCP servers">
        {servers.length === 0 ? (
          <Empty title="No MCP servers">
            Their tools are offered to models once they are approved. They are named in the configuration: <Code>mcp.servers</Code>.
          </Empty>
        ) : (
          <div class="tight" tabIndex={0} role="group" aria-label="Servers">
            <table class="t">
              <thead>
                <tr>
                  <th scope="col">Server</th>
                  <th scope="col">State</th>
                  <th scope="col">To decide</th>
                  <th scope="col" class="num no-small">Tools</th>
                  <th scope="col" class="num no-small">Prompts</th>
                  <th scope="col" class="no-small">Is</th>
                  <th scope="col" class="no-small">Since</th>
                </tr>
              </thead>
              <tbody>
                {servers.map((s) => (
                  <tr key={s.server}>
                    <td><a href={link("mcp-servers", s.server)}>{s.server}</a></td>
                    <td><Reached s={s} /></td>
                    <td>{waits(s) ? <State is="waiting" word={count(waits(s), "waits", "wait")} /> : <span class="dim">nothing</span>}</td>
                    <td class="num no-small">{s.tools.length}</td>
                    <td class="num no-small">{s.prompts?.length ?? 0}</td>
                    <td class="no-small"><span class="cut on">{s.product}</span></td>
                    <td class="no-small"><Time at={s.since} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Panel>
    </>
  );
}

const Reached = ({ s }: { s: Server }) => <State is={s.state} shape={s.state === "connected" ? "ok" : s.state === "down" ? "failed" : "pending"} />;

function One({ s, reload }: { s: Server; reload: () => void }) {
  const all = things(s).sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state) || a.name.localeCompare(b.name));
  const open = all.filter((t) => t.state !== "approved");
  const [chosen, setChosen] = useState<Record<string, boolean>>({});
  const [looked, setLooked] = useState(s.revision); // what the choice was made on
  const [error, setError] = useState<Failure>();
  const [resources, setResources] = useState(false);
  const id = (t: Thing) => `${t.kind}/${t.name}`;
  const picked = open.filter((t) => chosen[id(t)]);
  const names = (kind: Kind) => {
    const found = picked.filter((t) => t.kind === kind).map((t) => t.name);
    return found.length ? found : undefined;
  };
  const n = picked.length + (resources ? 1 : 0);
  const params = { server: s.server, revision: s.revision ?? "", tools: names("tools"), prompts: names("prompts"), templates: names("templates"), resources: resources || undefined };
  const stale = n > 0 && looked !== s.revision;
  const not = offNow() || (n === 0 && "Choose what is to be offered") || (stale && "It has changed while you looked: look again");
  const approve = () => {
    if (not) return;
    call("mcp.server.approve", params).then(() => (setError(undefined), setChosen({}), setResources(false), reload()), (e) => (setError(e), reload()));
  };
  const choose = (t: Thing, on: boolean) => {
    if (n === 0) setLooked(s.revision);
    setChosen({ ...chosen, [id(t)]: on });
  };
  // Approving without naming anything would approve everything.
  useShown(n ? { command: "mcp.server.approve", params } : { command: "mcp.server.list", params: { server: s.server } }, [["Ctrl Enter", "approve what is chosen"]]);
  useKeys({ "Ctrl+Enter": approve });
  const mayApprove = may("mcp:server.approve");
  return (
    <>
      <Head crumb={<a href={link("mcp-servers")}>MCP servers</a>} title={s.server}>
        <Reached s={s} />
      </Head>
      {s.problem && (
        <p class="note failed mid under-head" role="status">
          <Mark is="failed" />
          <span class="grow">
            It cannot be reached since <Time at={s.since} />: {s.problem}
          </span>
        </p>
      )}
      <div class="cols c-side">
        <div class="stack gap">
          <Panel
            key_
            title={<>{open.length ? `${count(open.length, "waits", "wait")} for a decision` : "All it offers is approved"}</>}
            more={mayApprove && open.length > 0 && <Button quiet onClick={() => (setLooked(s.revision), setChosen(Object.fromEntries(open.map((t) => [id(t), picked.length < open.length]))))}>{picked.length < open.length ? "Choose all" : "Choose none"}</Button>}
          >
            {all.length === 0 ? (
              <p class="dim">{s.state === "connected" ? "It offers nothing." : "It has not been reached yet, so what it offers is not known."}</p>
            ) : (
              <div class="tight" tabIndex={0} role="group" aria-label="What it offers">
                <table class="t offers">
                  <thead>
                    <tr>
                      <th scope="col">State</th>
                      <th scope="col">Name</th>
                      <th scope="col" class="no-small">Kind</th>
                      <th scope="col">What the server says of it</th>
                    </tr>
                  </thead>
                  <tbody>
                    {all.map((t) => (
                      <tr key={id(t)}>
                        <td>
                          {mayApprove && t.state !== "approved" ? (
                            <label class="line">
                              <input type="checkbox" checked={!!chosen[id(t)]} onChange={(e) => choose(t, e.currentTarget.checked)} aria-label={`Approve ${t.name}`} />
                              <State is={t.state} shape={shape(t.state)} />
                            </label>
                          ) : (
                            <State is={t.state} shape={shape(t.state)} />
                          )}
                        </td>
                        <td><Code>{t.name}</Code></td>
                        <td class="no-small">{words[t.kind]}</td>
                        <td class="says">{t.description}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
            {mayApprove && s.resources?.state === "new" && (
              <p>
                <label class="line">
                  <input type="checkbox" checked={resources} onChange={(e) => (setLooked(n ? looked : s.revision), setResources(e.currentTarget.checked))} /> Its {count(s.resources.total, "resource")}, all of them, now and later
                </label>
              </p>
            )}
            {(open.length > 0 || s.resources?.state === "new") &&
              (mayApprove ? (
                <div class="stack after-table">
                  <div class="line wrap">
                    <Button main not={not} onClick={approve}>
                      {n ? `Approve ${n}` : "Approve"} <kbd>Ctrl Enter</kbd>
                    </Button>
                    {not && <span class="small dim">{not}</span>}
                  </div>
                  {error && <p class="failed small" role="alert"><Said error={error} /></p>}
                  <p class="small dim">
                    Approved is what it is now, revision <Code>{s.revision}</Code>. When the server changes a name, text or parameter, it is held back until somebody looks again. Its texts are the server's own: they reach models.
                  </p>
                </div>
              ) : (
                <p class="small dim after-table">
                  To approve needs <Code>mcp:server.approve</Code>. <a href={link("policies", { tab: "ask", action: "mcp:server.approve" })}>Why?</a>
                </p>
              ))}
          </Panel>
          <Errors server={s.server} />
        </div>
        <Panel title="Server">
          <Facts
            of={[
              ["State", <Reached s={s} />],
              ["Since", <Time at={s.since} />],
              ["Is", s.product],
              ["Tools", `${s.tools.filter((t) => t.state === "approved").length} of ${s.tools.length} offered`],
              ["Prompts", s.prompts?.length ? `${s.prompts.filter((t) => t.state === "approved").length} of ${s.prompts.length} offered` : undefined],
              ["Templates", s.templates?.length ? `${s.templates.filter((t) => t.state === "approved").length} of ${s.templates.length} offered` : undefined],
              ["Resources", s.resources && s.resources.state !== "none" ? `${s.resources.total}, ${s.resources.state}` : undefined],
              ["Revision", s.revision && <Code>{s.revision}</Code>],
            ]}
          />
        </Panel>
      </div>
    </>
  );
}

/** Calls of its tools that failed lately. */
function Errors({ server }: { server: string }) {
  const found = useLive(may("audit:query") ? "audit.query" : undefined, { event: "mcp.tool.call", code: "failed", resource: `mcp/${server}`, limit: 10 }, { every: 10000 });
  return (
    <Panel title="Failed calls" tight more={may("audit:query") && <a href={link("audit", { event: "mcp.tool.call", code: "failed", resource: `mcp/${server}` })}>All</a>}>
      {!may("audit:query") ? (
        <NotAllowed action="audit:query" title="Not yours" />
      ) : (
        <Answer of={found} action="audit:query" loading="The latest" failed="The audit could not be read">
          {({ entries: its }) =>
            its.length === 0 ? (
              <Empty title="None lately" />
            ) : (
              <table class="t">
                <tbody>
                  {its.map((e) => (
                    <tr key={e.seq}>
                      <td><a href={link("audit", { entry: e.seq, bridge: e.bridge_id })}><Time at={e.time} /></a></td>
                      <td>{e.principal}</td>
                      <td>{(e.params as any)?.tool ?? e.resource}</td>
                      <td><Outcome code={e.code}>{e.code}</Outcome></td>
                      <td class="no-small"><span class="cut on">{e.reason}</span></td>
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
