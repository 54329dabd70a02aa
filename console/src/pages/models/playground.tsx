// Asks a model something, to see what it says and costs.
import { Button, call, Code, duration, Empty, Facts, Failure, Fragment, h, Head, link, may, NotAllowed, number, offNow, Panel, query, Said, setQuery, State, useEffect, useKeys, useLive, useRef, useShown, useState, type Commands } from "../../core";

type Result = Commands["llm.advanced-query"]["result"];

export function Playground() {
  const models = useLive(may("llm:models") ? "llm.models" : undefined, {}, { every: 0 });
  const [text, setText] = useState("");
  const [system, setSystem] = useState("");
  const [temperature, setTemperature] = useState("");
  const [most, setMost] = useState("");
  const [said, setSaid] = useState("");
  const [result, setResult] = useState<Result>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Failure>();
  const there = useRef(true);
  useEffect(() => () => void (there.current = false), []);
  const options = { model: query("model") || undefined, temperature: temperature === "" ? undefined : Number(temperature), max_tokens: most === "" ? undefined : Number(most) };
  const params = { query: text || "…", parameters: system ? { system } : undefined, options: Object.values(options).some((v) => v !== undefined) ? options : undefined, stream: true };
  useShown({ command: "llm.advanced-query", params }, [["Ctrl Enter", "ask"], ["Esc", "back"]]);
  const ask = async () => {
    if (!text.trim() || busy || offNow()) return;
    setBusy(true);
    setError(undefined);
    setResult(undefined);
    setSaid("");
    try {
      const r = await call("llm.advanced-query", params, { timeout: 600000, onEvent: (e, d) => e === "llm.delta" && d.type === "text_delta" && setSaid((s) => s + (d.text ?? "")) });
      if (there.current) setResult(r), setSaid(r.result);
    } catch (e) {
      if (there.current) setError(e as Failure);
    }
    if (there.current) setBusy(false);
  };
  useKeys({ "Ctrl+Enter": () => void ask(), Escape: () => ((document.activeElement as HTMLElement)?.closest("input, textarea, select") ? false : setQuery({ tab: "" }, true)) });
  if (!may("llm:query")) return <NotAllowed action="llm:query" title="Not yours" />;
  return (
    <>
      <Head crumb={<><a href={link("models")}>Models</a> / playground</>} title="Playground" does={may("llm:chat") ? <a class="btn" href={link("conversations", "new", { model: query("model") })}>A conversation with tools</a> : undefined} />
      <div class="cols c-side">
        <div class="stack gap">
          <Panel key_ label="Question">
            <form class="stack" onSubmit={(e) => (e.preventDefault(), void ask())}>
              <label class="field">
                <span class="lab">What you ask</span>
                <textarea class="in" rows={5} value={text} onInput={(e) => setText(e.currentTarget.value)} />
              </label>
              <div class="line">
                <Button main type="submit" not={offNow() || (busy && "It is being answered") || (!text.trim() && "There is nothing to ask yet")}>
                  Ask <kbd>Ctrl Enter</kbd>
                </Button>
              </div>
            </form>
          </Panel>
          <Panel title="Answer" more={result ? <State is={result.finish_reason === "end_turn" ? "ok" : "warning"} word={result.finish_reason.replaceAll("_", " ")} /> : busy ? <State is="running" word="being answered" /> : undefined}>
            <div aria-live="polite">
              {error ? <p class="failed" role="alert"><Said error={error} /></p> : said ? <p class="theirs">{said}</p> : <Empty title={busy ? "No word yet" : "Nothing was asked yet"}>Nothing of it is kept: a conversation is.</Empty>}
            </div>
          </Panel>
        </div>
        <div class="stack gap">
          <Panel title="How">
            <div class="stack">
              <label class="field">
                <span class="lab">Model</span>
                <select class="in" value={query("model")} onChange={(e) => setQuery({ model: e.currentTarget.value })}>
                  <option value="">the default one</option>
                  {(models.value.data?.models ?? []).map((m) => <option value={m.id}>{m.id}{m.status === "available" ? "" : `, ${m.status}`}</option>)}
                </select>
              </label>
              <label class="field">
                <span class="lab">Temperature</span>
                <input class="in" type="number" min="0" max="2" step="0.1" placeholder="its own" value={temperature} onInput={(e) => setTemperature(e.currentTarget.value)} />
                <span class="hint">0 to 2; at 0 the same question is answered from the cache</span>
              </label>
              <label class="field">
                <span class="lab">Longest answer, in tokens</span>
                <input class="in" type="number" min="1" step="1" placeholder="as the bridge allows" value={most} onInput={(e) => setMost(e.currentTarget.value)} />
              </label>
              <label class="field">
                <span class="lab">What it is told before</span>
                <textarea class="in" rows={3} value={system} onInput={(e) => setSystem(e.currentTarget.value)} />
              </label>
            </div>
          </Panel>
          {result && (
            <Panel title="What it took">
              <Facts
                of={[
                  ["Model", <Code>{result.model}</Code>],
                  ["From", result.from],
                  ["Tokens", `${number(result.usage.input_tokens)} in, ${number(result.usage.output_tokens)} out`],
                  ["Cost", result.cost === undefined ? "0" : result.cost.toFixed(6)],
                  ["Took", duration(result.execution_time)],
                ]}
              />
            </Panel>
          )}
        </div>
      </div>
    </>
  );
}
