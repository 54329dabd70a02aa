// Topics: what speaks, what it said last, and saying something oneself, under
// the person's own rights.
import {
  AsOf, bytes, Code, Confirm, Button, count, Diff, Empty, Facts, Fragment, h, Head, Icon, Json, Mark, NotAllowed, Loading, number, offNow, Panel, Pick, pretty, query, quoted, Search, setQuery, Time, time,
  useEffect, useKeys, useMemo, useRef, useShown, useState, useTitle, type Shown, session,
} from "../core";
import { Hearer } from "./topics/hear";
import { hexLines, numberAt, numbersOf, readOf, type Message, type Node } from "./topics/tree";
import { Publish, type Draft } from "./topics/publish";

const rowHeight = matchMedia("(pointer: coarse), (max-width: 640px)").matches ? 44 : 26;

export default function Topics() {
  const filter = query("filter") || "#";
  return <Heard key={filter} filter={filter} />;
}

/** Draws anew twice a second, unless it is to stand still. The tree is no
 * signal: parts that show it take the number as a property, to be drawn too. */
function useBeat(hearer: Hearer) {
  const [n, beat] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || hearer.held.peek() || beat((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [hearer]);
  return n;
}

function Heard({ filter }: { filter: string }) {
  const hearer = useMemo(() => new Hearer(filter), [filter]);
  useEffect(() => () => hearer.close(), [hearer]);
  const beat = useBeat(hearer);
  const { tree } = hearer;
  const held = hearer.held.value;
  const { state, why } = hearer.hearing.value;
  const chosen = query("topic");
  tree.look(chosen);
  const [draft, setDraft] = useState<Draft>({ topic: chosen, payload: "", as: "text", qos: 1, retain: false, properties: {} });
  const node = chosen ? tree.find(chosen) : undefined;
  useTitle("Topics");
  useShown(draft.payload || draft.retain ? publishShown(draft) : watchShown(filter), [["↑ ↓", "move"], ["→ ←", "open, close"], ["Space", "hold"], ["P", "publish"]]);
  useKeys({ " ": (e) => ((e.target as Element).closest("a, button, summary") ? false : hearer.hold()), p: () => document.getElementById("publish-topic")?.focus() });
  const title = state === "live" || tree.root.topics ? `${count(tree.root.topics, "topic")}, ${count(tree.root.rate, "message")} a second` : "Topics";
  return (
    <>
      <Head
        crumb="Topics · under your own rights"
        title={title}
        does={
          <>
            <FilterField />
            <Button onClick={() => hearer.hold()}>
              {held ? "Go on" : "Hold still"} <kbd>Space</kbd>
            </Button>
          </>
        }
      />
      {held > 0 && (
        <p class="note waiting small mid" role="status">
          <Mark is="waiting" />
          <span class="grow">
            Held still since {time(held)}. What comes meanwhile is not kept.
          </span>
        </p>
      )}
      {state === "lost" && (
        <p class="note warning small mid" role="status">
          <Mark is="warning" />
          <span class="grow">Nothing is heard at the moment{why && `: ${why}`}. It is tried again by itself; what stands here was true before.</span>
        </p>
      )}
      <div class="cols c-topics">
        <Panel title="Tree" tight more={<Order held={held > 0} />}>
          {state === "refused" ? (
            <NotAllowed action="topic:subscribe" on={filter} title="Not yours">
              {`The bridge refused the filter ${filter}${why ? `: ${why}` : ""}. Name a narrower one above. It needs`}
            </NotAllowed>
          ) : tree.root.topics === 0 ? (
            state === "live" ? (
              <Empty title="Nothing has spoken yet" step={<Code>{`aibridge watch ${quoted(filter)}`}</Code>}>
                Each topic will stand here as soon as something is published, with its rate and its last value. Publish something at the right to see it.
              </Empty>
            ) : (
              <Loading what={`Topics of ${filter}`} lines={6} />
            )
          ) : (
            <TreeView hearer={hearer} beat={beat} />
          )}
          {tree.left > 0 && <p class="small dim count">There are more than 50 000 topics; the rest is left out. Name a narrower filter.</p>}
        </Panel>
        {node?.last ? <Value hearer={hearer} beat={beat} node={node} onEdit={setDraft} draft={draft} /> : <NoValue chosen={chosen} node={node} />}
        <Publish hearer={hearer} draft={draft} onChange={setDraft} />
      </div>
    </>
  );
}

function FilterField() {
  const [text, setText] = useState(query("filter") || "#");
  return (
    <form class="line" onSubmit={(e) => (e.preventDefault(), setQuery({ filter: text === "#" ? "" : text, topic: "" }))}>
      <label class="small dim" for="topic-filter">
        filter
      </label>
      <input id="topic-filter" class="in mono filter" value={text} spellcheck={false} onInput={(e) => setText(e.currentTarget.value)} />
      {text !== (query("filter") || "#") && <Button type="submit">Hear it</Button>}
    </form>
  );
}

const Order = ({ held }: { held: boolean }) => (
  <>
    <Search label="Find a topic" />
    <Pick label="Order" name="by" of={[{ id: "", word: "name" }, { id: "rate", word: "busiest" }]} />
    {held ? <span class="small">held</span> : <AsOf />}
  </>
);

// The tree ----------------------------------------------------------------

function TreeView({ hearer }: { hearer: Hearer; beat: number }) {
  const { tree } = hearer;
  const box = useRef<HTMLDivElement>(null);
  const [turned, setTurned] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [at, setAt] = useState(query("topic"));
  const [from, setFrom] = useState(0);
  const chosen = query("topic");
  const opened = (n: Node) => turned.get(n.path) ?? (n.depth < 1 || chosen.startsWith(n.path + "/") || n.parent?.children.size === 1);
  const rows = tree.rows(opened, query("find"), query("by") === "rate");
  const where = rows.findIndex((n) => n.path === at);
  const turn = (n: Node, open: boolean) => setTurned(new Map(turned).set(n.path, open));
  const move = (to: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    setAt(rows[next].path);
    const el = box.current;
    if (!el) return;
    const top = next * rowHeight;
    if (top < el.scrollTop) el.scrollTop = top;
    else if (top + rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = top + rowHeight - el.clientHeight;
  };
  const choose = (n: Node) => (n.last ? setQuery({ topic: n.path }) : turn(n, !opened(n)));
  const onKey = (e: KeyboardEvent) => {
    const n = rows[where];
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "ArrowDown" || e.key === "j") move(where + 1);
    else if (e.key === "ArrowUp" || e.key === "k") move(where - 1);
    else if (e.key === "Home") move(0);
    else if (e.key === "End") move(rows.length - 1);
    else if (!n) return;
    else if (e.key === "ArrowRight") n.children.size && !opened(n) ? turn(n, true) : n.children.size ? move(where + 1) : 0;
    else if (e.key === "ArrowLeft") n.children.size && opened(n) ? turn(n, false) : n.parent && n.parent.depth >= 0 && setAt(n.parent.path);
    else if (e.key === "Enter") choose(n);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const height = Math.max(320, innerHeight - 250);
  const first = Math.max(0, from - 10), last = Math.min(rows.length, from + Math.ceil(height / rowHeight) + 10);
  if (rows.length === 0)
    return (
      <Empty title="No topic has that in its name" step={<Button onClick={() => setQuery({ find: "" })}>Show all</Button>} />
    );
  return (
    <>
      <div
        ref={box} class="tree" role="tree" aria-label="Topics" tabIndex={0} style={{ maxHeight: `${height}px` }} aria-activedescendant={where >= first && where < last ? `row-${where}` : undefined}
        onKeyDown={onKey} onFocus={() => where < 0 && setAt(rows[0].path)} onScroll={(e) => setFrom(Math.floor(e.currentTarget.scrollTop / rowHeight))}
      >
        <div role="none" style={{ height: `${first * rowHeight}px` }} />
        {rows.slice(first, last).map((n, i) => (
          <Row key={n.path} id={`row-${first + i}`} node={n} open={n.children.size ? opened(n) || !!query("find") : undefined} chosen={n.path === chosen} here={n.path === at} onTurn={() => turn(n, !opened(n))} onChoose={() => (setAt(n.path), choose(n))} />
        ))}
        <div role="none" style={{ height: `${(rows.length - last) * rowHeight}px` }} />
      </div>
      <p class="small dim count">
        {number(rows.length)} lines of {count(tree.root.topics, "topic")}
      </p>
    </>
  );
}

function Row({ node, id, open, chosen, here, onTurn, onChoose }: { node: Node; id: string; open?: boolean; chosen: boolean; here: boolean; onTurn: () => void; onChoose: () => void }) {
  return (
    <div id={id} role="treeitem" aria-level={node.depth + 1} aria-expanded={open} aria-selected={chosen} class={here ? "trow here" : "trow"} style={{ "--d": node.depth, height: `${rowHeight}px` }} onClick={onChoose}>
      <span class="name">
        <span class="turn dimmer" aria-hidden="true" onClick={(e) => open !== undefined && (e.stopPropagation(), onTurn())}>
          {open === undefined ? "" : open ? "▾" : "▸"}
        </span>
        <span class="cut">{node.name === "" ? <i>empty level</i> : node.name}</span>
        {node.retained && (
          <span class="dim" title="retained">
            <Icon is="pin" />
            <span class="vh">retained</span>
          </span>
        )}
      </span>
      <span class="r">{node.rate ? `${number(node.rate)} /s` : ""}</span>
      <span class="v">{node.last ? brief(node.last) : count(node.topics, "topic")}</span>
    </div>
  );
}

function brief(m: Message) {
  const r = readOf(m);
  if (r.kind === "empty") return "empty";
  if (r.kind === "binary") return `binary, ${bytes(m.size)}`;
  return r.text.length > 80 ? r.text.slice(0, 80) : r.text;
}

// A value -----------------------------------------------------------------

const NoValue = ({ chosen, node }: { chosen: string; node?: Node }) => (
  <Panel title="Last value">
    {chosen ? (
      <p class="dim">
        <Code>{chosen}</Code> {node ? "has topics below, and no value of its own." : "has said nothing since the page was opened, and keeps no retained value."}
      </p>
    ) : (
      <p class="dim">Choose a topic: its last value stands here, what changed in it, and a chart of its numbers.</p>
    )}
  </Panel>
);

const views = ["diff", "json", "cbor", "text", "hex"] as const;

function Value({ hearer, node, beat, draft, onEdit }: { hearer: Hearer; beat: number; node: Node; draft: Draft; onEdit: (d: Draft) => void }) {
  const m = node.last!;
  const r = readOf(m);
  const [clearing, setClearing] = useState(false);
  const [error, setError] = useState("");
  const offered = views.filter((v) => v === "hex" || (v === "diff" && node.before && r.kind !== "binary") || v === r.kind || (v === "text" && r.kind === "json"));
  const view = offered.find((v) => v === query("view")) ?? offered[0];
  const copyToForm = () => onEdit({ ...draft, topic: node.path, payload: r.kind === "cbor" ? pretty(r.value) : r.text, as: r.kind === "cbor" ? "cbor" : r.kind === "json" ? "json" : "text" });
  return (
    <Panel
      title="Last value"
      key_
      more={
        <>
          <Button quiet onClick={copyToForm}>
            To the form
          </Button>
          {node.retained && (
            <Button quiet danger not={offNow()} onClick={() => setClearing(true)}>
              Clear retained…
            </Button>
          )}
        </>
      }
    >
      <div class="stack">
        <code class="whole">{node.path}</code>
        <div class="line wrap small dim">
          {node.retained && <span class="tag">retained</span>}
          <span class="tag">QoS {m.qos}</span>
          <span class="tag">{r.kind}</span>
          <span>{node.rate ? `${number(node.rate)} /s` : "still"}</span>
          <span>{bytes(m.size)}</span>
          <Time at={m.at} />
        </div>
        <Chart history={hearer.tree.history} beat={beat} />
        <div class="line apart">
          <Pick label="View" of={offered.map((v) => ({ id: v, word: v === "diff" ? "Diff" : v === "json" || v === "cbor" ? v.toUpperCase() : v === "hex" ? "Hex" : "Text" }))} value={view} onPick={(v) => setQuery({ view: v })} />
          {view === "diff" && <span class="small dim">to the value before</span>}
        </div>
        <Shown_ view={view} m={m} before={node.before} />
        <Facts
          of={[
            ["Content type", m.properties.contentType],
            ["Expiry", m.properties.messageExpiryInterval !== undefined && `${m.properties.messageExpiryInterval} s`],
            ["Response topic", m.properties.responseTopic && <Code>{m.properties.responseTopic}</Code>],
            ["Correlation", m.properties.correlationData && <Code>{[...m.properties.correlationData].map((b) => b.toString(16).padStart(2, "0")).join("")}</Code>],
            ...Object.entries(m.properties.userProperties ?? {}).map(([k, v]): [string, string] => [k, Array.isArray(v) ? v.join(", ") : v]),
          ]}
        />
        {error && (
          <p class="small failed" role="alert">
            {error}
          </p>
        )}
      </div>
      {clearing && (
        <Confirm
          title="Clear the retained value"
          act="Clear it"
          onAct={() => hearer.publish({ topic: node.path, payload: new Uint8Array(), qos: 1, retain: true, properties: {} }).then(() => setError(""), (e) => setError(e.message))}
          onClose={() => setClearing(false)}
        >
          <p>
            Who subscribes to <Code>{node.path}</Code> from now on finds nothing there until it is published again. An empty retained message is sent to it.
          </p>
        </Confirm>
      )}
    </Panel>
  );
}

function Shown_({ view, m, before }: { view: (typeof views)[number]; m: Message; before?: Message }) {
  const r = readOf(m);
  const lines = (x: Message) => (readOf(x).value === undefined ? readOf(x).text : pretty(readOf(x).value));
  if (r.kind === "empty") return <p class="dim small">The payload is empty.</p>;
  if (view === "diff" && before) return <Diff before={lines(before)} after={lines(m)} />;
  if (view === "json" || view === "cbor") return <Json value={r.value} />;
  if (view === "text")
    return (
      <pre class="code" tabIndex={0}>
        {r.text}
      </pre>
    );
  return (
    <pre class="code hex" tabIndex={0}>
      {hexLines(m.payload)}
    </pre>
  );
}

/** A number in the values over time. */
function Chart({ history }: { history: Message[]; beat: number }) {
  const last = history.at(-1);
  const paths = last ? numbersOf(readOf(last).value) : [];
  if (paths.length === 0) return null;
  const path = paths.includes(query("number")) ? query("number") : (paths.find((p) => /value$/i.test(p)) ?? paths[0]);
  const points = history.map((m) => ({ at: m.at, n: numberAt(readOf(m).value, path) })).filter((p): p is { at: number; n: number } => p.n !== undefined && Number.isFinite(p.n));
  if (points.length < 2) return null;
  const low = Math.min(...points.map((p) => p.n)), high = Math.max(...points.map((p) => p.n));
  const begin = points[0].at, span = Math.max(1, points.at(-1)!.at - begin);
  const xy = points.map((p) => `${((100 * (p.at - begin)) / span).toFixed(2)},${(high === low ? 28 : 52 - (48 * (p.n - low)) / (high - low)).toFixed(2)}`);
  return (
    <figure>
      <svg class="spark chartline" viewBox="0 0 100 56" preserveAspectRatio="none" role="img" aria-label={`${path || "value"}: ${points.length} values from ${low} to ${high}, the last ${points.at(-1)!.n}`}>
        <polyline points={xy.join(" ")} vector-effect="non-scaling-stroke" />
      </svg>
      <figcaption class="scale">
        <span>
          {paths.length > 1 ? (
            <select class="in" aria-label="Number in the chart" value={path} onChange={(e) => setQuery({ number: e.currentTarget.value })}>
              {paths.map((p) => (
                <option value={p}>{p || "value"}</option>
              ))}
            </select>
          ) : (
            path || "value"
          )}{" "}
          since {time(begin)}
        </span>
        <span>{low === high ? low : `${low} – ${high}`}</span>
      </figcaption>
    </figure>
  );
}

// As a command --------------------------------------------------------------

const broker = () => {
  const [host, port] = (session.value?.bridge?.mqtt || "127.0.0.1:1883").split(/:(?=\d+$)/);
  return `-h ${host} -p ${port} -V 5${session.value?.bridge?.dev ? "" : ` -u apikey -P "$AIBRIDGE_KEY"`}`;
};

const watchShown = (filter: string): Shown => ({
  command: "", params: {}, line: `aibridge watch ${quoted(filter)}`,
  others: [["MQTT", `mosquitto_sub ${broker()} -v \\\n  -t ${quoted(filter)}`]],
});

function publishShown(d: Draft): Shown {
  const p = d.properties;
  const more = [
    p.contentType && `-D publish content-type ${quoted(p.contentType)}`, p.messageExpiryInterval && `-D publish message-expiry-interval ${p.messageExpiryInterval}`,
    p.responseTopic && `-D publish response-topic ${quoted(p.responseTopic)}`, ...Object.entries(p.userProperties ?? {}).map(([k, v]) => `-D publish user-property ${quoted(k)} ${quoted(String(v))}`),
  ].filter(Boolean).join(" ");
  const what = d.as === "hex" || d.as === "cbor" ? "-s < payload" : `-m ${quoted(d.payload)}`;
  const line = `mosquitto_pub ${broker()} -q ${d.qos}${d.retain ? " -r" : ""} -t ${quoted(d.topic)} ${what}${more ? " " + more : ""}`;
  return { command: "", params: {}, line, others: [["MQTT", line]] };
}
