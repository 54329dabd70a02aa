// Links to other MQTT brokers: how each is, what it carries, what waits for the
// remote broker, and what was refused.
import { Answer, AsOf, bytes, Code, count, Empty, Facts, Fragment, h, Head, link, Mark, number, Panel, path, State, Time, useLive, useShown, useTitle, type Commands } from "../core";

type Link = Commands["link.list"]["result"]["links"][number];
type Full = Commands["link.get"]["result"];

export default function Links() {
  const name = path.value[1];
  useTitle(name || "Links");
  return name ? <One name={name} /> : <List />;
}

const Reached = ({ l }: { l: Link }) => <State is={l.state} shape={l.state === "connected" ? "ok" : l.state === "connecting" ? "pending" : "failed"} />;

function List() {
  const found = useLive("link.list", {}, { every: 5000 });
  useShown({ command: "link.list", params: {} });
  return (
    <Answer of={found} action="link:list" loading="Links" failed="The links could not be listed">
      {({ links, total }) => (
        <>
          <Head crumb="Links" title={total ? count(total, "link") : "Links"}>
            <AsOf />
          </Head>
          <Panel key_ tight label="Links">
            {links.length === 0 ? (
              <Empty title="No links">
                A link joins the bridge to the MQTT broker that your devices use already. Links are named in the configuration: <Code>links</Code>.
              </Empty>
            ) : (
              <div class="tight" tabIndex={0} role="group" aria-label="Links to other brokers">
                <table class="t">
                  <thead>
                    <tr>
                      <th scope="col">Link</th>
                      <th scope="col">State</th>
                      <th scope="col" class="num">Wait</th>
                      <th scope="col" class="num no-small">Dropped</th>
                      <th scope="col" class="no-small">Remote broker</th>
                      <th scope="col" class="no-small">Bridge</th>
                      <th scope="col" class="no-small">Since</th>
                    </tr>
                  </thead>
                  <tbody>
                    {links.map((l) => (
                      <tr key={l.link}>
                        <td><a href={link("links", l.link)}>{l.link}</a></td>
                        <td><Reached l={l} /></td>
                        <td class="num">{number(l.waiting)}</td>
                        <td class="num no-small">{number(l.dropped)}</td>
                        <td class="no-small"><span class="cut on">{l.url}</span></td>
                        <td class="no-small"><Code>{l.bridge_id}</Code></td>
                        <td class="no-small"><Time at={l.since} /></td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </Panel>
        </>
      )}
    </Answer>
  );
}

function One({ name }: { name: string }) {
  const found = useLive("link.get", { link: name }, { every: 5000 });
  useShown({ command: "link.get", params: { link: name } });
  return (
    <Answer of={found} action="link:get" loading={`Link ${name}`} failed="The link could not be read">
      {(l) => (
        <>
          <Head crumb={<a href={link("links")}>Links</a>} title={l.link}>
            <Reached l={l} /> <AsOf />
          </Head>
          {l.problem && (
            <p class="note failed mid under-head" role="status">
              <Mark is="failed" />
              <span class="grow">
                Not connected since <Time at={l.since} />: {l.problem}
              </span>
            </p>
          )}
          <div class="cols c-side">
            <div class="stack gap">
              <Rules title="Goes to the remote broker" rules={l.out} />
              <Rules title="Comes from the remote broker" rules={l.in} />
              {l.refused.length > 0 && (
                <Panel title="Refused">
                  {l.refused.map((why) => (
                    <p class="small">{why}</p>
                  ))}
                </Panel>
              )}
            </div>
            <Now l={l} />
          </div>
        </>
      )}
    </Answer>
  );
}

const Rules = ({ title, rules }: { title: string; rules: Full["out"] }) => (
  <Panel title={title} tight>
    {rules.length === 0 ? (
      <Empty title="Nothing" />
    ) : (
      <div class="tight" tabIndex={0} role="group" aria-label={title}>
        <table class="t">
          <thead>
            <tr>
              <th scope="col">Here</th>
              <th scope="col">There</th>
              <th scope="col" class="num">QoS at most</th>
            </tr>
          </thead>
          <tbody>
            {rules.map((r) => (
              <tr>
                <td><Code>{`${r.local ?? ""}${r.topic}`}</Code></td>
                <td><Code>{`${r.remote ?? ""}${r.topic}`}</Code></td>
                <td class="num">{r.qos}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    )}
  </Panel>
);

const words: Record<string, string> = { too_large: "too large", looped: "had been there", unmapped: "without a rule" };

const Now = ({ l }: { l: Full }) => (
  <Panel key_ title="Messages">
    <Facts
      of={[
        ["Wait", l.queued > 0 ? `${number(l.queued)}, ${bytes(l.queued_bytes)}` : "none"],
        ["Under way", number(l.inflight)],
        ["Dropped", number(l.dropped)],
        ...l.counts.map((c): [string, string] => [`${c.direction === "out" ? "Out" : "In"}, ${words[c.outcome] ?? c.outcome}`, number(c.messages)]),
        ["Connections lost", number(l.lost)],
        ["Remote broker", <Code>{l.url}</Code>],
        ["There it is", <Code>{l.remote_client_id}</Code>],
        ["Here it is", <Code>{l.client_id}</Code>],
        ["Acts for", l.principal && <Code>{l.principal}</Code>],
        ["Run by", <Code>{l.bridge_id}</Code>],
      ]}
    />
  </Panel>
);
