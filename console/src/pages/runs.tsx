// Runs and conversations: where each is, whom it waits for, what it did.
import {
  AsOf, Button, count, duration, Empty, Fragment, h, Head, link, may, now, number, Panel, path, Pick, query, Search, setQuery, Table, Time, useRows, useShown, useTitle,
} from "../core";
import { Conversation } from "./runs/conversation";
import { money, nameOf, Phase, RunPage, type Run } from "./runs/run";
import { NewRun } from "./runs/start";

export default function Runs() {
  const [page, id] = path.value;
  if (page === "conversations") return id ? <Conversation key={id} id={id} /> : <Conversations />;
  if (id === "new") return <NewRun />;
  return id ? <RunPage key={id} id={id} /> : <RunList />;
}

const Kinds = ({ chosen }: { chosen: string }) => (
  <span class="pick" role="group" aria-label="What is listed">
    {[["runs", "runs"], ["conversations", "conversations"]].map(([id, word]) => (
      <a href={link(id)} aria-current={id === chosen ? "page" : undefined}>
        {word}
      </a>
    ))}
  </span>
);

const phases = [["", "all"], ["Running", "running"], ["WaitingUser", "waiting for you"], ["WaitingApproval", "waiting for an approval"], ["Completed", "completed"], ["Failed", "failed"]];
const filters = ["package", "workflow", "principal"] as const;

function RunList() {
  useTitle("Runs");
  const of = (name: string) => query(name) || undefined;
  const params = { phase: of("phase"), mode: of("mode"), package: of("package"), workflow: of("workflow"), principal: of("principal"), find: of("find"), sort: of("sort") };
  const rows = useRows<Run>("llm.run.list", params, "runs", { on: ["task"], when: (e) => e.name === "run.phase" });
  useShown({ command: "llm.run.list", params }, [["J K", "move"], ["Enter", "open"]]);
  const chips = filters.filter((name) => query(name));
  const filtered = Object.entries(params).some(([name, value]) => name !== "sort" && value);
  const all = { phase: "", mode: "", package: "", workflow: "", principal: "", find: "" };
  return (
    <>
      <Head
        crumb="Runs"
        title={rows.at ? count(rows.total, "run") : "Runs"}
        does={
          <>
            <Kinds chosen="runs" />
            {may("llm:run") && <a class="btn main" href={link("runs", "new")}>Start a run</a>}
          </>
        }
      />
      <div class="filters">
        <Search label="Find by id, package or project" />
        <Pick label="Phase" name="phase" of={phases.map(([id, word]) => ({ id, word }))} />
        <Pick label="Mode" name="mode" of={[["", "any"], ["run", "workflows"], ["agent", "agents"], ["chat", "chats"]].map(([id, word]) => ({ id, word }))} />
        {chips.map((name) => (
          <button class="chip" type="button" onClick={() => setQuery({ [name]: "" })} aria-label={`Without the filter ${name}`}>
            <b>{name === "principal" ? "by" : name}</b> {query(name)} <span class="x">×</span>
          </button>
        ))}
        <AsOf />
      </div>
      <Panel key_ tight label="Runs">
        <Table
          of={rows}
          id={(r) => r.run_id}
          href={(r) => link("runs", r.run_id)}
          label="Runs"
          words={{ loading: "The latest 100", failed: "The list could not be read", action: "llm:read" }}
          columns={[
            { head: "Run", sort: "package", cell: (r) => <a href={link("runs", r.run_id)}>{nameOf(r)}</a> },
            { head: "Phase", sort: "phase", cell: (r) => <Phase of={r} /> },
            { head: "By", sort: "principal", cell: (r) => r.principal, small: "hide" },
            { head: "Began", sort: "id", cell: (r) => <Time at={r.started_at} />, small: "hide" },
            { head: "Turns", sort: "turns", num: true, cell: (r) => number(r.turns), small: "hide" },
            { head: "Tokens", sort: "tokens", num: true, cell: (r) => number(r.tokens), small: "hide" },
            { head: "Cost", sort: "cost", num: true, cell: (r) => money(r.cost), small: "hide" },
            { head: "Took", num: true, cell: (r) => duration((r.phase === "Running" ? now.value : r.changed_at) - r.started_at), small: "hide" },
          ]}
          empty={
            filtered ? (
              <Empty title="No run fits" step={<Button onClick={() => setQuery(all)}>Show all</Button>} />
            ) : (
              <Empty title="No runs yet" step={may("llm:run") ? <a class="btn" href={link("runs", "new")}>Start a run</a> : undefined}>
                A run is a model at work for you: along the steps of a workflow, or in talk, with the tools that you allow. Start one, and it stands here.
              </Empty>
            )
          }
        />
      </Panel>
    </>
  );
}

interface Talk {
  session_id: string;
  title?: string;
  model?: string;
  turns: number;
  tokens: number;
  cost: number;
  active_at: number;
  ends_at: number;
  answering?: boolean;
}

function Conversations() {
  useTitle("Conversations");
  const params = { find: query("find") || undefined, sort: query("sort") || undefined };
  const rows = useRows<Talk>("llm.conversation.list", params, "conversations");
  useShown({ command: "llm.conversation.list", params }, [["J K", "move"], ["Enter", "open"]]);
  const start = may("llm:chat") ? <a class="btn main" href={link("conversations", "new")}>New conversation</a> : undefined;
  return (
    <>
      <Head
        crumb={<><a href={link("runs")}>Runs</a> / conversations</>}
        title={rows.at ? count(rows.total, "conversation") : "Conversations"}
        does={<><Kinds chosen="conversations" />{start}</>}
      />
      <div class="filters">
        <Search label="Find by what you said" />
        <AsOf />
      </div>
      <Panel key_ tight label="Conversations">
        <Table
          of={rows}
          id={(c) => c.session_id}
          href={(c) => link("conversations", c.session_id)}
          label="Conversations"
          words={{ loading: "Yours, the latest first", failed: "The list could not be read", action: "llm:read" }}
          columns={[
            { head: "Conversation", cell: (c) => <a class="cut on" href={link("conversations", c.session_id)}>{c.title || c.session_id}</a> },
            { head: "Model", cell: (c) => c.model ?? <span class="dim">default</span> },
            { head: "Answers", sort: "turns", num: true, cell: (c) => number(c.turns), small: "hide" },
            { head: "Tokens", sort: "tokens", num: true, cell: (c) => number(c.tokens), small: "hide" },
            { head: "Cost", sort: "cost", num: true, cell: (c) => money(c.cost), small: "hide" },
            { head: "Last", sort: "active_at", cell: (c) => (c.answering ? "being answered" : <Time at={c.active_at} />), small: "hide" },
            { head: "Forgotten", cell: (c) => `in ${duration(c.ends_at - now.value)}`, small: "hide" },
          ]}
          empty={
            params.find ? (
              <Empty title="No conversation fits" step={<Button onClick={() => setQuery({ find: "" })}>Show all</Button>} />
            ) : (
              <Empty title="No conversations" step={start}>
                What you say to a model is kept for a while, so that it can go on. Nobody else sees it here.
              </Empty>
            )
          }
        />
      </Panel>
    </>
  );
}
