// A world to look at: an agent with skills, a model that wants to act, an
// approval that waits.
import { createServer } from "node:http";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import path from "node:path";
import { spawn } from "node:child_process";
import { program, startAgent, startBridge, until } from "./bridge.mjs";

/** Names and texts that would be markup, script or worse if they were not text. */
export const hostile = {
  name: "<img src=x onerror=alert(1)>",
  texts: [
    `"><script>alert(1)</script>`,
    `<svg onload=alert(1)>`,
    `javascript:alert(1)`,
    `{{constructor.constructor('alert(1)')()}}`,
    `'-alert(1)-'`,
    `</title><iframe srcdoc="<script>parent.alert(1)</script>">`,
    `<a href="javascript:alert(1)">click</a>`,
  ],
};
export const allHostile = hostile.texts.join(" ");

/** A model that wants one tool called, and then tells what came of it. */
export async function startModel(tool, args) {
  const server = createServer((req, res) => {
    let body = "";
    req.on("data", (d) => (body += d));
    req.on("end", () => {
      const asked = body ? JSON.parse(body) : {};
      if (req.url.endsWith("/models")) return res.end(JSON.stringify({ data: [{ id: "test" }] }));
      const done = asked.messages?.some((m) => m.role === "tool");
      const name = asked.tools?.map((t) => t.function.name).find((n) => n.replace(/[^a-z]/g, "").includes(tool.replace(/[^a-z]/g, "")));
      const message = done || !name ? { role: "assistant", content: "It is done." } : { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: { name, arguments: JSON.stringify(args) } }] };
      const answer = { id: "1", object: "chat.completion", model: "test", choices: [{ index: 0, message, finish_reason: done || !name ? "stop" : "tool_calls" }], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } };
      if (!asked.stream) {
        res.setHeader("Content-Type", "application/json");
        return res.end(JSON.stringify(answer));
      }
      res.setHeader("Content-Type", "text/event-stream");
      const delta = message.tool_calls ? { role: "assistant", tool_calls: message.tool_calls.map((c, index) => ({ index, ...c })) } : { role: "assistant", content: message.content };
      res.write(`data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", model: "test", choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`);
      res.write(`data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", model: "test", choices: [{ index: 0, delta: {}, finish_reason: answer.choices[0].finish_reason }], usage: answer.usage })}\n\n`);
      res.end("data: [DONE]\n\n");
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, stop: () => (server.closeAllConnections(), server.close()) };
}

/** Folder of skills with a door whose opening is risky. */
export function writeSkills(dir) {
  const scripts = path.join(dir, "skills", "door", "scripts");
  mkdirSync(scripts, { recursive: true });
  writeFileSync(
    path.join(dir, "skills", "door", "skill.yaml"),
    `apiVersion: skill.ooder.net/v1
kind: Skill
metadata:
  id: door
  name: Dock door
  version: 1.4.0
  description: Opens a dock door
spec:
  type: custom
  capabilities:
    - id: open
      name: Open a dock door
      description: Opens a door for a while
      effect: act
      risk: high
      parameters:
        - {name: door, type: string, required: true, description: which door}
        - {name: for_seconds, type: integer, minimum: 5, maximum: 300, description: for how long}
      returns:
        - {name: open, type: boolean, required: true}
    - id: state
      name: State
      description: Tells whether the door is open
      effect: read
      risk: low
      returns:
        - {name: open, type: boolean, required: true}
`,
  );
  for (const [name, answer] of [["open", '{"open":true}'], ["state", '{"open":false}']]) {
    const file = path.join(scripts, `${name}.sh`);
    writeFileSync(file, `#!/bin/sh\ncat >/dev/null\necho '${answer}'\n`);
    chmodSync(file, 0o755);
  }
  return path.join(dir, "skills");
}

/** Dispatches to the group of one skill, and returns the task when it has ended. */
export async function dispatch(bridge, skill, capability_id, params, o = {}) {
  const { cap_id = "dock", group_id = "gates", attributes } = o;
  await bridge.call("cap.declare", { cap_id, cap_name: o.cap_name ?? "Dock", ...(o.description ? { cap_desc: o.description } : {}), skill_id: skill });
  await bridge.call("group.member.add", { cap_id, group_id, skill_id: skill, role: "gate", attributes });
  await bridge.call("group.data.set", { cap_id, group_id, data_key: "waiting", data_type: "json", data_value: o.value ?? { trucks: 2 } });
  const { task_id } = await bridge.call("group.dispatch", { cap_id, group_id, capability_id, params, deadline_ms: o.deadline_ms ?? 60000 });
  await until("the task", async () => (await bridge.call("task.get", { task_id })).ended_at);
  return task_id;
}

/** Starts it all. ask has the model ask for the door; it returns when the
 * approval waits, with the pending query. */
export async function startWorld(o = {}) {
  const model = await startModel("door.open", { door: "D3", for_seconds: 90, ...(o.args ?? {}) });
  const notes = notesConfig(o.says);
  const models = path.join(mkdtempSync(path.join(tmpdir(), "console-models-")), "llm.yaml");
  writeFileSync(models, modelsConfig(model.url, o.budget));
  const bridge = await startBridge({ config: notes.config, ...o, more: ["--llm-file", models, "--approvals-wait-seconds", "600", ...(o.more ?? [])] });
  const skills = writeSkills(bridge.dir);
  const agent = startAgent(bridge, "dock-1", skills);
  await until("the agent", async () => (await bridge.call("skill.discover", { text: "door" })).skills.some((s) => s.status === "online"));
  const task = await dispatch(bridge, "door", "state", {});
  const world = {
    task, cap: "dock", group: "gates", bridge, agent: "dock-1", skill: "door",
    async ask(query = "Let the truck in.") {
      const pending = async () => (await bridge.call("approval.list", { state: "pending" })).approvals;
      const earlier = new Set((await pending()).map((a) => a.approval_id));
      let failure;
      const answer = bridge.call("llm.query", { query, tools: ["door.*"] }).catch((e) => (failure = e));
      const found = await until("the approval", async () => {
        if (failure) throw failure;
        return (await pending()).find((a) => !earlier.has(a.approval_id));
      });
      world.approval = found.approval_id;
      return { approval: found, answer };
    },
    leaders: [],
    async stop() {
      for (const l of world.leaders) await l.stop();
      await agent.stop();
      await bridge.stop();
      model.stop();
      notes.remove();
      rmSync(path.dirname(models), { recursive: true, force: true });
    },
    restartAgent: () => startAgent(bridge, "dock-1", skills),
    agentProcess: agent,
  };
  return world;
}

/** Certificates, requests for some, keys, and somebody who was refused. what is
 * the purpose that a request states. */
export async function fillAccess(world, what = "Lights of the hall") {
  const { bridge } = world;
  for (const skill of ["cold-store", "agv"]) bridge.run("cert", "issue", "--authority", "operator", "--skill", skill, "--out", path.join(bridge.dir, skill), "--validity", skill === "agv" ? "72h" : "2160h");
  bridge.run("cert", "request", "--authority", "operator", "--skill", "lighting", "--purpose", what, "--out", path.join(bridge.dir, "lighting"));
  const { certificates } = await bridge.call("cert.list", { principal: "cold-store" });
  world.serial = certificates[0].serial;
  const { key } = await bridge.call("key.create", { principal_id: "hvac-north", name: what, expires_in: 90 * 86400 });
  await bridge.call("key.create", { principal_id: "shop-display", kind: "operator", name: "Screen at the ramp" });
  await bridge.call("token.revoke", { principal_id: "staff.alice", reason: what });
  await bridge.call("key.list", {}, key).catch(() => {});
  await bridge.call("policy.put", { name: "ramp", policy: `@why(${JSON.stringify(what.replace(/[\\"{}]/g, ""))})\nforbid (principal, action == Action::"skill:invoke", resource == Skill::"ramp")\nunless { principal in Role::"operator" };\n` });
}

/** Configuration of a bridge with an MCP server, notes, that offers three tools,
 * and others when it is told so by offer. what is what it says of one. */
export function notesConfig(what = "Writes a note") {
  const dir = mkdtempSync(path.join(tmpdir(), "console-notes-"));
  const file = path.join(dir, "tools.json");
  const tools = [{ name: "read", description: "Reads notes" }, { name: "write", description: what }, { name: "broken", description: "Finds a note" }];
  const offer = (list) => { // it never reads a half
    writeFileSync(`${file}.new`, JSON.stringify(list));
    renameSync(`${file}.new`, file);
  };
  offer(tools);
  const command = [process.execPath, fileURLToPath(new URL("mcp-server.mjs", import.meta.url)), file];
  return { tools, offer, config: `mcp:\n  servers:\n    - name: notes\n      approve: each\n      command: ${JSON.stringify(command)}\n`, remove: () => rmSync(dir, { recursive: true, force: true }) };
}

/** Writes a file by HTTP, as a device does. */
export async function putFile(bridge, group_name, path_, content) {
  const answer = await fetch(`${bridge.url}/vfs/upload?${new URLSearchParams({ group_name, path: path_ })}`, { method: "PUT", body: content, headers: { "Content-Type": "text/plain", ...(bridge.key ? { Authorization: `Bearer ${bridge.key}` } : {}) } });
  if (!answer.ok) throw new Error(await answer.text());
}

/** Starts a RouteAgent of a scene, by a certificate; it comes to be a leader or a backup. */
async function startLeader(bridge, skill, scene, cap, group) {
  const dir = path.join(bridge.dir, skill);
  bridge.run("cert", "issue", "--authority", "operator", "--skill", skill, "--role", "agent_route", "--scene", scene, "--out", dir);
  const child = spawn(program, ["agent", "route", "--url", `mqtts://${bridge.mqtts}`, "--ca", path.join(dir, "ca.pem"), "--cert", path.join(dir, "cert.pem"), "--key", path.join(dir, "key.pem"), "--scene", scene, "--cap", cap, "--group", group], { stdio: "ignore" });
  const ended = new Promise((done) => child.on("exit", done));
  const leads = async () => (await bridge.call("scene.query", { scene_type: scene, cap_id: cap })).scenes[0]?.members.some((m) => m.skill_id === skill);
  await until(`the RouteAgent ${skill}`, leads);
  return { child, stop: () => (child.kill("SIGTERM"), ended) };
}

/** Makes the Cap of the world a place where much happens: members and links,
 * values that were set often, a scene with a leader and a backup, files with
 * versions, a conflict, and a device whose folder is behind. what is a text in
 * all that people and devices write. */
export async function fillCap(world, what = "", { scene = true } = {}) {
  const { bridge } = world;
  const cap_id = world.cap, group_id = world.group;
  const of = { cap_id, group_id };
  const word = (s) => what || s;
  for (const [skill_id, role, attributes] of [["hall", "lead", {}], ["yard", "lead", {}], ["traffic-light", "signal", { lane: word("3") }], ["ramp-lights", "signal", { lane: "4" }], ["scale", "sensor", {}], ["cold-store", "sensor", {}]])
    await bridge.call("group.member.add", { ...of, skill_id, role: role === "signal" ? word(role).slice(0, 32) : role, attributes });
  for (const [source_skill_id, target_skill_id] of [["hall", world.skill], ["hall", "traffic-light"], ["scale", world.skill], ["scale", "cold-store"]]) await bridge.call("group.link.add", { ...of, source_skill_id, target_skill_id, link_type: word("control").slice(0, 32) });
  for (let i = 0; i <= 24; i++) await bridge.call("group.data.set", { ...of, data_key: "temperature", data_type: "number", data_value: Math.round(40 + 12 * Math.sin(i / 3)) / 10 });
  for (const lane of ["red", word("green")]) await bridge.call("group.data.set", { ...of, data_key: "lane", data_type: "string", data_value: lane });
  await bridge.call("group.data.set", { ...of, data_key: "plan", data_type: "json", data_value: { slots: Array.from({ length: 40 }, (_, i) => ({ slot: i, truck: `truck ${4400 + i}`, gate: `D${i % 6}` })) } });
  if (scene) {
    world.leaders.push(await startLeader(bridge, "hall", "LOADING", cap_id, group_id), await startLeader(bridge, "yard", "LOADING", cap_id, group_id));
    await bridge.call("scene.join", { scene_type: "LOADING", cap_id, skill_id: world.skill, skill_role: "gate" });
  }
  for (const text of ["Gate 3 opens at six.", "Gate 3 opens at seven."]) await putFile(bridge, "plans", "2026/gates.txt", text);
  for (const name of ["2026/week 47/monday.txt", "2026/week 47/tuesday.txt", "read me.txt", "ramp.svg"]) await putFile(bridge, "plans", name, `${name}\n${what}`);
  await conflict(bridge, cap_id);
  await bridge.call("cap.vfs.sync.report", {
    cap_id, folder: { name: "gate-3", sync_status: "failed", pending: 2, failed: 1, conflicts: 1, free: 52428800, problems: [{ path: "photos/ramp.jpg", reason: word("no space left in the folder") }], lost: [{ path: "rota.txt", checksum: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", size: 412, lost_at: Date.now() - 3600e3 }] },
  });
}

/** Has a file changed at both ends while the mirror is paused. */
async function conflict(bridge, cap_id) {
  const status = () => bridge.call("cap.vfs.sync.status", { cap_id });
  await until("the mirror", async () => (await status()).sync_status === "synced");
  await bridge.call("cap.vfs.sync.pause", { cap_id });
  await bridge.call("cap.vfs.sync", { cap_id, vfs_path: `/vfs/cap/${cap_id}/disk/rota.txt`, content: "Monday: Ada" });
  await putFile(bridge, "cap", `${cap_id}/disk/rota.txt`, "Monday: Bea");
  await bridge.call("cap.vfs.sync.resume", { cap_id });
  await until("the conflict", async () => (await status()).lost?.length);
}

/** Models with prices, and budgets: so many requests of each in a day. */
const modelsConfig = (url, requests = 10000) => `providers:
  - {name: house, wire: openai, base_url: ${JSON.stringify(url)}}
models:
  - {name: test, routes: [{provider: house, price: {input: 3, output: 15}}]}
budgets:
  - {per: space, window: month, cost: 50}
  - {per: principal, window: day, tokens: 10000000, requests: ${requests}}
cache: {ttl: 10m}
`;

/** A workflow that waits for an approval, a run that waits for its person, and a
 * conversation. what is what the person says. */
export async function fillRuns(world, what = "Let the truck at D3 in.") {
  const { bridge } = world;
  const dir = path.join(bridge.dir, "dock-check");
  cpSync(fileURLToPath(new URL("../../examples/workflow/climate-check", import.meta.url)), dir, { recursive: true });
  const agents = path.join(dir, "agents.json");
  writeFileSync(agents, readFileSync(agents, "utf8").replace("thermostat-go.*", "door.*"));
  bridge.run("run", "import", dir);
  world.run = (await bridge.call("llm.run.start", { package: "climate-check" })).run_id;
  await until("the run asks", async () => (await bridge.call("approval.list", { state: "pending" })).approvals.some((a) => a.session_id === world.run));
  world.talk = (await bridge.call("llm.run.start", { input: what, tools: ["nothing.*"] })).run_id;
  await until("the talk", async () => (await bridge.call("llm.run.status", { run_id: world.talk })).phase === "WaitingUser");
  world.conversation = (await bridge.call("llm.chat", { session_id: "evening", message: what })).session_id;
}
