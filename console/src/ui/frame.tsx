// The frame around every page: where one can go, how the bridge is, who one
// is, and at the bottom the page as a command.
import { h, Fragment, type FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { linkState, lostAt, nextTry, again, onEvent } from "../lib/bridge";
import { now, useLive } from "../lib/live";
import { base, link, path } from "../lib/router";
import { may, session, signOut, dev } from "../lib/session";
import { commandLine, drawer, envelopeOf, keys, others, shown } from "../lib/shown";
import { count, duration, number, time } from "../lib/words";
import { Finder, finding } from "./find";
import { Help, helping } from "./help";
import { Json } from "./json";
import { Icon, Logo, Mark } from "./marks";
import { Button, Copy, Empty, Failed, Loading } from "./parts";
import { Failure } from "../lib/bridge";

declare const BUILT: string[]; // files of src/pages; the build fills it in

/** The pages, in the order of the navigation. Each is a file of the same name;
 * one that has no file yet is not offered. One apart is found, but not in the
 * navigation. */
export const pages = [
  { id: "home", word: "Home", path: "", tab: true },
  { id: "approvals", word: "Approvals", path: "approvals", tab: true },
  { id: "tasks", word: "Tasks", path: "tasks", tab: true },
  { id: "agents", word: "Agents", path: "agents", tab: true },
  { id: "topics", word: "Topics", path: "topics" },
  { id: "caps", word: "Caps and scenes", path: "caps" },
  { id: "runs", word: "Runs", path: "runs", tab: true },
  { id: "models", word: "Models", path: "models" },
  { id: "files", word: "Files", path: "files", gap: true },
  { id: "policies", word: "Policies", path: "policies" },
  { id: "audit", word: "Audit", path: "audit" },
  { id: "access", word: "Access", path: "access", gap: true },
  { id: "mcp-servers", word: "MCP servers", path: "mcp-servers" },
  { id: "links", word: "Links", path: "links" },
  { id: "cluster", word: "Cluster", path: "cluster" },
  { id: "settings", word: "Settings", path: "settings" },
  { id: "commands", word: "Commands", path: "commands", apart: true },
].filter((p) => BUILT.includes(p.id));

/** Paths that another page answers for. */
const elsewhere: Record<string, string> = { skills: "agents", scenes: "caps", conversations: "runs" };

const current = () => {
  const first = path.value[0] ?? "";
  const name = elsewhere[first] ?? first;
  return pages.find((p) => p.path === name);
};

const loaded = new Map<string, FunctionComponent>();

/** The page of the address, loaded when it is first opened. */
function Page() {
  const page = current();
  const [, came] = useState(0);
  const [error, setError] = useState<Failure>();
  const id = page?.id;
  const load = () => {
    if (!id || loaded.has(id)) return;
    const file = new URL(`${id}.js`, import.meta.url).href;
    setError(undefined);
    import(file).then(
      (m) => (loaded.set(id, m.default), came((n) => n + 1)),
      () => setError(new Failure("lost", "the page could not be loaded")),
    );
  };
  useEffect(load, [id]);
  if (!page) return <Empty title="There is nothing at this address" step={<a href={link()}>Home</a>} />;
  const Content = loaded.get(page.id);
  if (Content) return <Content key={page.id} />;
  return error ? <Failed title="The page could not be loaded" error={error} retry={load} /> : <Loading what={page.word} />;
}

/** Numbers in the navigation: filled where somebody waits, plain where something runs. */
function useCounts(): Record<string, { n: number; waits?: boolean }> {
  const waiting = useLive(may("approval:list") ? "approval.list" : undefined, { state: "pending", limit: 1 }, { on: ["approval"] });
  const tasks = useLive(may("task:list") ? "task.list" : undefined, { unfinished: true, limit: 1 }, { on: ["task"], when: (e) => e.name !== "task.progress", pace: 5000 });
  const agents = useLive(may("agent:list") ? "agent.list" : undefined, { limit: 1 }, { on: ["agent"], when: (e) => /registered$/.test(e.name), pace: 5000 });
  return {
    approvals: { n: waiting.value.data?.total ?? 0, waits: true },
    tasks: { n: tasks.value.data?.total ?? 0 },
    agents: { n: agents.value.data?.total ?? 0 },
  };
}

function Nav() {
  const counts = useCounts();
  const here = current()?.id;
  useEffect(() => onEvent(notifyOfApprovals), []);
  return (
    <nav class="nav" aria-label="Pages">
      <a class="brand no-small" href={link()}>
        <Logo />
        AI Bridge
      </a>
      <ul>
        {pages.filter((p) => !p.apart).map((p) => {
          const c = counts[p.id];
          return (
            <li class={[p.tab && "tab", p.gap && "gap"].filter(Boolean).join(" ")}>
              <a href={link(...[p.path].filter(Boolean))} aria-current={p.id === here ? "page" : undefined}>
                <Icon is={p.id} />
                <span>{p.word}</span>
                {c && c.n > 0 && (
                  <span class={c.waits ? "n waiting" : "n"}>
                    {number(c.n)}
                    {c.waits && <span class="vh"> wait</span>}
                  </span>
                )}
              </a>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

/** A notification of the browser, where the person has allowed them. */
function notifyOfApprovals(e: { name: string; data: any }) {
  if (e.name !== "approval.asked" && e.name !== "approval.requested") return;
  if (!("Notification" in window) || Notification.permission !== "granted" || document.hasFocus()) return;
  const n = new Notification("A model asks to act", { body: `${e.data?.tool ?? ""} for ${e.data?.requester ?? ""}`, tag: e.data?.approval_id });
  n.onclick = () => {
    focus();
    location.assign(link("approvals", e.data?.approval_id ?? ""));
  };
}

/** Healthy or not, in one line. */
function Health() {
  const status = useLive(may("bridge:status") ? "bridge.status" : undefined, {}, { every: 15000 });
  if (!may("bridge:status")) return <div class="health" />;
  const s = status.value.data;
  const reading = (name: string) => s?.readings.find((r) => r.name === name)?.now ?? 0;
  if (!s) return <div class="health" role="status" />;
  const dropped = reading("dropped");
  return (
    <div class="health" role="status">
      <Mark is={!s.ready ? "failed" : dropped > 0 ? "warning" : "ok"} />
      <b>{!s.ready ? "Cannot work" : dropped > 0 ? "Working, messages were dropped" : "Healthy"}</b>
      <span>
        {s.ready ? `${number(reading("agents_online"))} of ${count(reading("agents"), "agent")} online · up for ${duration(now.value - s.started_at)}` : s.why}
      </span>
    </div>
  );
}

const LiveMark = () => (
  <span class="live" title={linkState.value === "live" ? "Everything on this page is live" : "Nothing here is live"}>
    {linkState.value === "live" ? <Mark is="ok" /> : linkState.value === "lost" ? <Mark is="warning" /> : <Mark is="pending" />}
    <span>{linkState.value === "live" ? "live" : linkState.value === "lost" ? "not live" : "connecting"}</span>
  </span>
);

function Who() {
  const who = session.value?.principal;
  if (!who) return null;
  return (
    <details class="who">
      <summary>
        {who.id} <span class="tag">{dev.value ? "dev" : (who.roles[0] ?? who.kind)}</span>
      </summary>
      <div class="panel menu">
        <p class="small dim">
          {who.kind} of space <code>{who.space_id}</code>, by {who.method}
        </p>
        <Theme />
        {session.value?.cookie && <Button onClick={signOut}>Sign out</Button>}
      </div>
    </details>
  );
}

function Theme() {
  const [is, set] = useState(document.documentElement.dataset.theme ?? "");
  const choose = (theme: string) => {
    theme ? (document.documentElement.dataset.theme = theme) : delete document.documentElement.dataset.theme;
    set(theme);
  };
  return (
    <span class="pick" role="group" aria-label="Colours">
      {["", "light", "dark"].map((t) => (
        <button type="button" aria-pressed={is === t} aria-current={is === t ? "true" : undefined} onClick={() => choose(t)}>
          {t || "as the system"}
        </button>
      ))}
    </span>
  );
}

const Top = () => (
  <header class="top">
    <Health />
    <span class="grow" />
    <button class="find" type="button" onClick={() => (finding.value = true)}>
      <Icon is="find" />
      Find or run a command
      <span class="grow" />
      <kbd>/</kbd>
    </button>
    <LiveMark />
    <Who />
  </header>
);

/** While the connection is lost: since when, and when it is tried again. */
const Lost = () =>
  linkState.value === "lost" ? (
    <div class="note bar warning" role="alert">
      <Mark is="warning" />
      <div class="grow">
        <b>Connection lost at {time(lostAt.value)}.</b> You see what was true then. What acts is off until the bridge answers; what you typed is kept.
      </div>
      <span class="small dim">next try in {duration(Math.max(0, nextTry.value - now.value))}</span>
      <Button onClick={again}>Try now</Button>
    </div>
  ) : null;

const Dev = () =>
  dev.value ? (
    <div class="note bar warning dev">
      <Mark is="warning" />
      <div>
        Started with <code>--dev</code>: no sign-in, no keys. Fine on your desk, not on a network.
      </div>
    </div>
  ) : null;

/** What the page does, as a command. */
function Strip() {
  const s = shown.value;
  if (!s) return <div class="strip" role="region" aria-label="Shown as command" />;
  const line = commandLine(s);
  return (
    <div class={drawer.value ? "strip-open" : "strip-closed"}>
      {drawer.value && (
        <div class="envelope" id="envelope">
          <div class="cols c-2">
            {s.command && (
              <div class="stack">
                <h3>Envelope, by MQTT, HTTP or WebSocket</h3>
                <Json value={envelopeOf(s)} />
              </div>
            )}
            <div class="stack">
              {others(s).map(([name, text]) => (
                <>
                  <h3>{name}</h3>
                  <div class="json">
                    <pre class="code" tabIndex={0}>
                      {text}
                    </pre>
                    <Copy text={text} />
                  </div>
                </>
              ))}
            </div>
          </div>
        </div>
      )}
      <div class="strip" role="region" aria-label="Shown as command">
        <span class="lab">Shown as command</span>
        <code>{line}</code>
        <Copy text={line} />
        <button class="btn quiet" type="button" aria-expanded={drawer.value} aria-controls="envelope" onClick={() => (drawer.value = !drawer.value)}>
          Envelope <kbd>E</kbd>
        </button>
        <span class="keys">
          {keys.value.map(([k, what]) => (
            <span>
              <kbd>{k}</kbd> {what}
            </span>
          ))}
          <span>
            <kbd>?</kbd> keys
          </span>
        </span>
      </div>
    </div>
  );
}

export function Frame() {
  return (
    <>
      <a
        class="skip"
        href={base}
        onClick={(e) => {
          e.preventDefault();
          e.stopPropagation();
          document.getElementById("main")?.focus();
        }}
      >
        Skip to the page
      </a>
      <div class={linkState.value === "lost" ? "frame offline" : "frame"}>
        <Nav />
        <Top />
        <main id="main" tabIndex={-1}>
          <Lost />
          <Dev />
          <Page />
        </main>
        <Strip />
      </div>
      {finding.value && <Finder />}
      {helping.value && <Help />}
    </>
  );
}
