// Settings: what the bridge was told, and what it is.
import { Answer, AsOf, Code, Copy, count, Empty, Facts, Fragment, h, Head, link, may, now, duration, Panel, Pick, query, Search, session, setQuery, Button, Time, useLive, useShown, useTitle, type Commands } from "../core";

type Setting = Commands["bridge.config"]["result"]["settings"][number];

export default function Settings() {
  useTitle("Settings");
  const found = useLive("bridge.config", {}, { every: 0 });
  useShown({ command: "bridge.config", params: {} });
  return (
    <>
      <Head crumb="Settings" title="What the bridge was told" does={<a class="btn" href={link("commands")}>All commands</a>} />
      <div class="filters">
        <Search label="Find a setting" />
        <Pick label="Which" name="which" of={[{ id: "", word: "all" }, { id: "changed", word: "not the default" }]} />
        <AsOf />
      </div>
      <div class="cols c-side">
        <Answer of={found} action="bridge:config" loading="All settings" failed="The configuration could not be read">
          {({ settings }) => <List of={settings} />}
        </Answer>
        <This />
      </div>
    </>
  );
}

function List({ of }: { of: Setting[] }) {
  const text = query("find").toLowerCase();
  const rows = of.filter((s) => (query("which") !== "changed" || s.changed) && (s.name.includes(text) || s.about?.toLowerCase().includes(text) || show(s.value).toLowerCase().includes(text)));
  if (rows.length === 0) return <Empty title="No setting fits" step={<Button onClick={() => setQuery({ find: "", which: "" })}>Show all</Button>} />;
  return (
    <Panel key_ title={count(rows.length, "setting")} tight more="A change needs a restart: flag, variable or file">
      <table class="t settings">
        <thead>
          <tr>
            <th scope="col">Setting</th>
            <th scope="col">Is</th>
            <th scope="col" class="no-small">Means</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((s) => (
            <tr key={s.name}>
              <td>
                <span title={[s.flag, s.env].filter(Boolean).join(" or ") || undefined}>
                  <Code>{s.name}</Code>
                </span>
              </td>
              <td>
                {s.changed ? <b>{show(s.value) || "empty"}</b> : <span class="dim">{show(s.value) || "–"}</span>} {s.changed && <span class="tag">changed</span>}
              </td>
              <td class="no-small small dim">{s.about}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

/** A value as one types it. */
function show(v: unknown): string {
  if (v === null || v === undefined) return "";
  if (Array.isArray(v)) return v.map(show).join(", ");
  if (typeof v === "object") return Object.entries(v).map(([name, to]) => `${name}: ${show(to)}`).join(", ");
  return String(v);
}

function This() {
  const status = useLive(may("bridge:status") ? "bridge.status" : undefined, {}, {});
  const b = session.value?.bridge;
  const who = session.value?.principal;
  const s = status.value.data;
  return (
    <div class="stack gap">
      <Panel title="This bridge">
        <Facts
          of={[
            ["Id", b?.id],
            ["Version", b?.version],
            ["Protocol", b?.protocol],
            ["Started", s && <><Time at={s.started_at} />, {duration(now.value - s.started_at)} ago</>],
            ["Topics", b?.root && <Code>{b.root}/…</Code>],
            ["MQTT", b?.mqtt && <Code>{b.mqtt}</Code>],
            ["MQTT, TLS", b?.mqtts && <Code>{b.mqtts}</Code>],
            ["HTTP", b?.http && <Code>{b.http}</Code>],
            ["WebSocket", b?.ws && <Code>{b.ws}</Code>],
          ]}
        />
      </Panel>
      <Panel title="You">
        <Facts
          of={[
            ["Name", who?.id],
            ["Kind", who?.kind],
            ["Space", who && <Code>{who.space_id}</Code>],
            ["Roles", who?.roles.join(", ") || "none"],
            ["By", who?.method],
            ["Until", who?.expires_at && <Time at={who.expires_at} />],
          ]}
        />
      </Panel>
      <Panel title="For programs">
        <p class="small dim">
          The API is described at <a href={link("openapi.json")} data-outside>openapi.json</a>, for coding agents at <a href={link("llms.txt")} data-outside>llms.txt</a>.
        </p>
        <p class="programs">
          <Copy text="aibridge serve --print-config">Copy the line that writes this as a file</Copy>
        </p>
      </Panel>
    </div>
  );
}
