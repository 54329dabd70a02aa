// A group to command: lamps that do it, one that fails, one that is at it until
// it is told, and one that is away.
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { startAgent, startBridge, until } from "./bridge.mjs";

const skill = (id, name) => `apiVersion: skill.ooder.net/v1
kind: Skill
metadata:
  id: ${id}
  name: ${name}
  version: 1.0.0
  description: A lamp that can be set
spec:
  type: custom
  capabilities:
    - id: set
      name: Set
      description: Sets how bright it is
      effect: act
      risk: low
      parameters:
        - {name: level, type: integer, required: true, minimum: 0, maximum: 100, description: how bright, in percent}
      returns:
        - {name: level, type: integer, required: true}
`;

/** Writes a folder of skills: their ids with the shell script of "set". */
export function writeLamps(dir, lamps) {
  for (const [id, script] of Object.entries(lamps)) {
    const scripts = path.join(dir, "lamps", id, "scripts");
    mkdirSync(scripts, { recursive: true });
    writeFileSync(path.join(dir, "lamps", id, "skill.yaml"), skill(id, id));
    writeFileSync(path.join(scripts, "set.sh"), `#!/bin/sh\ncat >/dev/null\n${script}\n`);
    chmodSync(path.join(scripts, "set.sh"), 0o755);
  }
  return path.join(dir, "lamps");
}

const done = `echo '{"level":40}'`;

/** Starts a bridge with a Cap "light" and its group "hall". release() lets the
 * lamp that is at it end. */
export async function startGroups(o = {}) {
  const bridge = await startBridge(o);
  const gate = path.join(bridge.dir, "go");
  const lamps = {};
  for (let i = 1; i <= 9; i++) lamps[`lamp-${i}`] = done;
  lamps["lamp-broken"] = `echo "the fuse is blown" >&2; exit 1`;
  lamps["lamp-slow"] = `while [ ! -e '${gate}' ]; do sleep 0.1; done; ${done}`;
  const agent = startAgent(bridge, "hall-1", writeLamps(bridge.dir, lamps));
  const members = [...Object.keys(lamps), "lamp-away"];
  await until("the lamps", async () => (await bridge.call("skill.discover", { text: "lamp", limit: 100 })).skills.filter((s) => s.status === "online").length === members.length - 1);
  await bridge.call("cap.declare", { cap_id: "light", cap_name: "Light", skill_id: "lamp-1", max_members: 50 });
  for (const m of members) await bridge.call("group.member.add", { cap_id: "light", group_id: "hall", skill_id: m, role: m === "lamp-1" ? "lead" : "lamp" });
  return {
    bridge, members,
    /** Has the members do it, and returns the task as soon as all but the slow and the absent have ended. */
    async dispatch(more = {}) {
      const { task_id } = await bridge.call("group.dispatch", { cap_id: "light", group_id: "hall", capability_id: "set", params: { level: 40 }, deadline_ms: 600000, ...more });
      await until("the answers", async () => {
        const { counts } = (await bridge.call("task.get", { task_id })).group;
        return (counts.ok ?? 0) >= 9 && counts.failed === 1;
      });
      return task_id;
    },
    release: () => writeFileSync(gate, ""),
    async stop() {
      writeFileSync(gate, "");
      await agent.stop();
      await bridge.stop();
    },
  };
}
