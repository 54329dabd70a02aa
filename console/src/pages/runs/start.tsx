// Starts a run: of a workflow, of an agent of a package, or a chat.
import { Answer, Button, call, Empty, Failure, Fragment, go, h, Head, link, NotAllowed, may, offNow, Panel, query, Said, setQuery, useLive, useShown, useState, useTitle } from "../../core";

const list = (text: string) => text.split(/[\s,]+/).filter(Boolean);

export function NewRun() {
  useTitle("Start a run");
  const packages = useLive("llm.run.packages", { limit: 1000 });
  const models = useLive("llm.models", {});
  const [input, setInput] = useState("");
  const [tools, setTools] = useState("");
  const [project, setProject] = useState("");
  const [autopilot, setAutopilot] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Failure>();
  const name = query("package"), workflow = query("workflow"), model = query("model");
  const params = {
    package: name || undefined, workflow: (name && workflow) || undefined, mode: name ? undefined : ("chat" as const), input: input || undefined, model: model || undefined,
    tools: tools.trim() ? list(tools) : undefined, project: project || undefined, autopilot: autopilot || undefined,
  };
  useShown({ command: "llm.run.start", params }, [["Ctrl Enter", "start"]]);
  if (!may("llm:run")) return <NotAllowed action="llm:run" title="Not yours" />;
  const start = async () => {
    setBusy(true);
    try {
      const r = await call("llm.run.start", params);
      go(link("runs", r.run_id));
    } catch (e) {
      setError(e as Failure);
      setBusy(false);
    }
  };
  const not = offNow() || (busy && "It is started") || (!name && !input.trim() && "A chat begins with what you say");
  return (
    <>
      <Head crumb={<><a href={link("runs")}>Runs</a> / new</>} title="Start a run" />
      <Panel key_>
        <Answer of={packages} action="llm:read" loading="Packages" failed="The packages could not be read">
          {(p) => (
            <form class="stack start" onSubmit={(e) => (e.preventDefault(), !not && void start())}>
              <div class="fields">
                <label class="field">
                  <span class="lab">What runs</span>
                  <select class="in" value={name} onChange={(e) => setQuery({ package: e.currentTarget.value, workflow: "" })}>
                    <option value="">a chat with a model</option>
                    {p.packages.map((k) => <option value={`${k.name}@${k.version}`}>{k.name} {k.version}</option>)}
                  </select>
                  {p.packages.length === 0 && <span class="hint">There are no packages of workflows here: <code>aibridge run import DIR</code> brings one.</span>}
                </label>
                {name && (
                  <label class="field">
                    <span class="lab">Workflow</span>
                    <select class="in" value={workflow} onChange={(e) => setQuery({ workflow: e.currentTarget.value })}>
                      <option value="">the first</option>
                      {(p.packages.find((k) => `${k.name}@${k.version}` === name)?.workflows ?? []).map((w) => <option value={w.workflow_id}>{w.workflow_id}</option>)}
                    </select>
                  </label>
                )}
                <label class="field">
                  <span class="lab">Model</span>
                  <select class="in" value={model} onChange={(e) => setQuery({ model: e.currentTarget.value })}>
                    <option value="">the default one</option>
                    {(models.value.data?.models ?? []).map((m) => <option value={m.id}>{m.id}</option>)}
                  </select>
                </label>
                <label class="field">
                  <span class="lab">Tools it may use</span>
                  <input class="in mono" placeholder={name ? "as its package says" : "all that you may use"} value={tools} onInput={(e) => setTools(e.currentTarget.value)} />
                  <span class="hint">Patterns, such as <code>door.*</code></span>
                </label>
                <label class="field">
                  <span class="lab">Project: group of files</span>
                  <input class="in mono" placeholder="one of its own" value={project} onInput={(e) => setProject(e.currentTarget.value)} />
                </label>
              </div>
              <label class="field">
                <span class="lab">Your first words</span>
                <textarea class="in" rows={3} value={input} onInput={(e) => setInput(e.currentTarget.value)} />
              </label>
              <label class="line">
                <input type="checkbox" checked={autopilot} onChange={(e) => setAutopilot(e.currentTarget.checked)} /> Autopilot: have the model decide what it can
              </label>
              {error && <p class="failed" role="alert"><Said error={error} /></p>}
              <div><Button main type="submit" not={not}>Start</Button></div>
            </form>
          )}
        </Answer>
      </Panel>
      {models.value.data && models.value.data.models.length === 0 && <Empty title="No language model is configured" step={<a href={link("models")}>Models</a>} />}
    </>
  );
}
