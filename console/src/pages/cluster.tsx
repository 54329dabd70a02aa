// Cluster: where the state is, whether somebody stands by, and which part of the
// bridge does not work.
import { Answer, AsOf, bytes, Code, Facts, Fragment, h, Head, link, may, number, Panel, State, useLive, useShown, useTitle, type Commands } from "../core";

type Result = Commands["bridge.cluster"]["result"];

export default function Cluster() {
  useTitle("Cluster");
  const found = useLive("bridge.cluster", {}, { every: 5000 });
  useShown({ command: "bridge.cluster", params: {} });
  return (
    <Answer of={found} action="bridge:cluster" loading="Where the state is" failed="The cluster could not be read">
      {(c) => (
        <>
          <Head crumb="Cluster" title={!c.standby ? "One bridge, by itself" : c.working === "all" ? "Several bridges work together" : "One bridge works, others may stand by"}>
            <State is={c.parts.every((p) => p.ok) ? "ok" : "failed"} word={c.parts.every((p) => p.ok) ? "working" : "cannot work"} /> <AsOf />
          </Head>
          {c.standby && <Members c={c} />}
          <div class="cols c-2">
            <Panel key_ title="What it cannot work without" tight>
              <table class="t">
                <tbody>
                  {c.parts.map((p) => (
                    <tr key={p.name}>
                      <td>{p.name}</td>
                      <td>
                        <State is={p.ok ? "ok" : "failed"} word={p.ok ? "works" : "fails"} />
                      </td>
                      <td class="small">{p.ok ? <span class="dim">{parts[p.name]}</span> : p.why}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Panel>
            <div class="stack gap">
              <Place c={c} />
              <Load />
            </div>
          </div>
        </>
      )}
    </Answer>
  );
}

const parts: Record<string, string> = {
  lease: "that this bridge is a member of its cluster",
  nats: "that what is stored stays",
  store: "the records in memory, as they are stored",
  claims: "that no command runs twice",
  audit: "that who did what is recorded",
  mqtt: "sessions, and messages that wait",
  disk: "room for more",
};

const Members = ({ c }: { c: Result }) => (
  <Panel title="Bridges, the oldest first" tight>
    <table class="t">
      <thead>
        <tr>
          <th>Bridge</th>
          <th>Does</th>
          <th>MQTT</th>
          <th>Version</th>
          <th>Renewed</th>
        </tr>
      </thead>
      <tbody>
        {c.members.map((m) => (
          <tr key={m.id}>
            <td>
              <Code>{m.id}</Code>
            </td>
            <td>
              <State is={m.ready || m.state === "standby" ? "ok" : "failed"} word={m.state} /> <span class="small dim">{m.why}</span>
            </td>
            <td>{m.addresses?.mqtt}</td>
            <td>{m.version}</td>
            <td>{number(m.age_ms)} ms ago</td>
          </tr>
        ))}
      </tbody>
    </table>
  </Panel>
);

const Place = ({ c }: { c: Result }) => (
  <Panel title="Where the state is">
    <Facts
      of={[
        ["Kept in", c.store === "nats" ? "NATS servers" : "NATS within this process"],
        ["Servers", c.servers?.map((s) => <div><Code>{s}</Code></div>)],
        ["Copies", number(c.replicas)],
        ["Answers", <Code>{c.bridge_id}</Code>],
      ]}
    />
    <p class="small dim under">
      {c.standby
        ? "Bridges with the same servers and the same root are a cluster. When one ends, or is silent for three seconds, the others know."
        : "Nobody can take over. A backup is what brings it back; with NATS servers of its own, another bridge could stand by."}
    </p>
    {may("bridge:config") && (
      <p class="small">
        <a href={link("settings", { find: "nats" })}>Settings of NATS</a>
      </p>
    )}
  </Panel>
);

function Load() {
  const status = useLive(may("bridge:status") ? "bridge.status" : undefined, {}, { every: 5000 });
  const of = (name: string) => status.value.data?.readings.find((r) => r.name === name);
  const lag = of("lag");
  const free = of("disk_free");
  if (!lag && !free) return null;
  return (
    <Panel title="The last minute">
      <Facts of={[["Not read yet", lag && `${number(lag.now)} changes`], ["Room on disk", !!free?.now && bytes(free.now)]]} />
    </Panel>
  );
}
