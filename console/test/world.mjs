// A world to look at: an agent with skills, a model that wants to act, an
// approval that waits.
import { createServer } from "node:http";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync, chmodSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import path from "node:path";
import { startAgent, startBridge, until } from "./bridge.mjs";

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
  const bridge = await startBridge({ config: notes.config, ...o, more: ["--llm-base-url", model.url, "--llm-model", "test", "--approvals-wait-seconds", "600", ...(o.more ?? [])] });
  const skills = writeSkills(bridge.dir);
  const agent = startAgent(bridge, "dock-1", skills);
  await until("the agent", async () => (await bridge.call("skill.discover", { text: "door" })).skills.some((s) => s.status === "online"));
  const task = await dispatch(bridge, "door", "state", {});
  const world = {
    task, cap: "dock", group: "gates", bridge, agent: "dock-1", skill: "door",
    async ask(query = "Let the truck in.") {
      const before = (await bridge.call("approval.list", { state: "pending" })).total;
      const answer = bridge.call("llm.query", { query, tools: ["door.*"] }).catch((e) => e);
      const found = await until("the approval", async () => {
        const list = await bridge.call("approval.list", { state: "pending" });
        return list.total > before && list.approvals[0];
      });
      world.approval = found.approval_id;
      return { approval: found, answer };
    },
    async stop() {
      await agent.stop();
      await bridge.stop();
      model.stop();
      notes.remove();
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

/** Configuration of a bridge with an MCP server, notes, that offers three tools.
 * what is what it says of one. */
export function notesConfig(what = "Writes a note") {
  const dir = mkdtempSync(path.join(tmpdir(), "console-notes-"));
  const file = path.join(dir, "tools.json");
  const tools = [{ name: "read", description: "Reads notes" }, { name: "write", description: what }, { name: "broken", description: "Finds a note" }];
  writeFileSync(file, JSON.stringify(tools));
  const command = [process.execPath, fileURLToPath(new URL("mcp-server.mjs", import.meta.url)), file];
  return { file, tools, config: `mcp:\n  servers:\n    - name: notes\n      approve: each\n      command: ${JSON.stringify(command)}\n`, remove: () => rmSync(dir, { recursive: true, force: true }) };
}
