// The SDK against a bridge that runs; the Go tests start one with --dev.
// AIBRIDGE_URL, BRIDGE_MQTTS, BRIDGE_WS and BRIDGE_HTTP say where it is.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Agent, AgentOffline, BridgeError, Cancelled, Certificate, Client, InvalidParameter, InvalidState, KeyPair, NotFound, RevisionConflict, TimedOut, UnknownCommand, boolean, enrol, integer, text } from "@aibridge/client";
import { Queue } from "../dist/wait.js";

const PATIENCE = 60_000;
const { BRIDGE_MQTTS, BRIDGE_WS, BRIDGE_HTTP } = process.env;

function lamp(name) {
  return new Agent(name)
    .capability("switch", { idempotent: true, params: { on: boolean() } }, ({ on }) => ({ on }))
    .capability("dim", { params: { steps: integer() } }, ({ steps }, call) => {
      for (let i = 1; i <= steps; i++) call.progress((100 * i) / steps, `step ${i}`);
      return "dimmed";
    })
    .capability("wait", (_, call) => call.sleep(PATIENCE))
    .capability("break", () => {
      throw new InvalidState("the bulb is broken", { bulb: 1 });
    })
    .capability("relay", { params: { to: text() } }, ({ to }, call) => call.bridge.invoke(to, "switch", { on: true }));
}

/** The next item of a queue that fits. */
async function until(queue, fits) {
  for (const deadline = Date.now() + PATIENCE; Date.now() < deadline; ) {
    const item = await queue.take(deadline - Date.now());
    if (item !== undefined && fits(item)) return item;
  }
  return assert.fail("it never came");
}

async function last(items) {
  let found;
  for await (const item of items) found = item;
  return found;
}

let bridge;
let agents;
before(async () => {
  bridge = await new Client().connect(PATIENCE);
  agents = await Promise.all(["lamp-1", "lamp-2"].map((name) => lamp(name).start()));
});
after(() => Promise.all([bridge, ...agents].map((c) => c.close())));

test("a capability is called, and calls others", async () => {
  assert.deepEqual(await bridge.invoke("lamp-1", "switch", { on: true }), { on: true });
  assert.deepEqual(await bridge.invoke("lamp-1", "relay", { to: "lamp-2" }), { on: true });
  await assert.rejects(bridge.invoke("lamp-1", "relay", { to: "lamp-none" }), BridgeError);
});

test("errors are typed", async () => {
  await assert.rejects(bridge.call("agent.get", { agent_id: "nobody" }), NotFound);
  await assert.rejects(bridge.call("skill.invok"), (e) => e instanceof UnknownCommand && e.details.did_you_mean === "skill.invoke");
  await assert.rejects(bridge.invoke("lamp-1", "switch", { on: "yes" }), (e) => e instanceof InvalidParameter && e.details.param_name === "params.on");
  await assert.rejects(bridge.invoke("lamp-1", "break"), (e) => e instanceof InvalidState && e.message === "the bulb is broken" && e.details.bulb === 1);
});

test("progress is heard", async () => {
  const told = [];
  await bridge.invoke("lamp-1", "dim", { steps: 4 }, { onEvent: (e) => e.event === "task.progress" && told.push(e.data.percent) });
  assert.deepEqual(told, [25, 50, 75, 100]);
});

test("waiting ends with its time and with its signal", async () => {
  await assert.rejects(bridge.invoke("lamp-1", "wait", {}, { timeout: 300 }), TimedOut);
  await assert.rejects(bridge.invoke("lamp-1", "wait", {}, { signal: AbortSignal.timeout(100) }), Cancelled);
  await assert.rejects(bridge.call("agent.list", {}, { signal: AbortSignal.abort() }), Cancelled);
});

test("a task is followed", async () => {
  const started = await bridge.call("skill.invoke", { skill_id: "lamp-1", capability_id: "dim", params: { steps: 2 }, async: true });
  const task = await last(bridge.follow(started.task_id, PATIENCE));
  assert.deepEqual([task.state, task.result.data], ["succeeded", "dimmed"]);
});

test("presence is heard", async () => {
  const cards = new Queue();
  const watching = await bridge.watchAgent("lamp-3", (card) => cards.put(card));
  const agent = await lamp("lamp-3").start();
  await until(cards, (card) => card.status === "online");
  await agent.close();
  await until(cards, (card) => card.status === "offline");
  watching.close();
  await assert.rejects(bridge.invoke("lamp-3", "switch", { on: true }, { retry: false }), AgentOffline);
});

test("members of a group share values and work", async () => {
  await bridge.call("cap.declare", { cap_id: "home", cap_name: "Home", skill_id: "lamp-1" });
  const hall = bridge.group("home", "hall");
  await hall.add("lamp-1", "light");
  await hall.add("lamp-2", "light", { floor: "1" });
  const seen = new Queue();
  const watching = await hall.watch((key, value) => seen.put(`${key}=${JSON.stringify(value)}`));
  const revision = await hall.set("brightness", 80);
  await until(seen, (text) => text === "brightness=80");
  await (await bridge.online(Date.now() + PATIENCE)).drop(); // the connection is lost
  await hall.set("brightness", 81);
  await until(seen, (text) => text === "brightness=81");
  watching.close();
  assert.equal(await hall.get("brightness"), 81);
  await assert.rejects(hall.set("brightness", 90, { revision: revision + 7 }), RevisionConflict);
  await hall.set("names", ["a"]);
  await assert.rejects(hall.get("nothing"), NotFound);
  const task = await last(bridge.follow(await hall.dispatch("switch", { on: true }, { deadline: PATIENCE }), PATIENCE));
  assert.equal(task.state, "complete");
  await hall.remove("lamp-2");

  const said = new Queue();
  const channel = bridge.channel("home");
  const hearing = await channel.subscribe("windows/#", (m) => said.put(m));
  await channel.publish("windows/left", { open: true });
  const m = await until(said, () => true);
  assert.deepEqual([m.topic, new TextDecoder().decode(m.payload)], ["windows/left", '{"open":true}']);
  hearing.close();
});

test("approvals are listed", async () => {
  assert.deepEqual(await bridge.approvals.pending(), []);
  await assert.rejects(bridge.approvals.approve({ approval_id: "none", nonce: "none" }), NotFound);
});

test("a subscription is iterated over until it is closed", async () => {
  const heard = await bridge.subscribe("house/+");
  await bridge.publish("house/a", "1");
  await bridge.publish("house/b", "2");
  const topics = [];
  for await (const m of heard) {
    topics.push(m.topic);
    if (topics.length === 2) break;
  }
  assert.deepEqual(topics, ["house/a", "house/b"]);
  assert.equal(await heard.next(), undefined);
});

test("it works over WebSocket", async () => {
  const client = new Client(BRIDGE_WS);
  assert.ok((await client.call("agent.list")).agents);
  await client.close();
});

function folder(t) {
  const name = mkdtempSync(join(tmpdir(), "certificate-"));
  t.after(() => rmSync(name, { recursive: true }));
  return name;
}

async function claim(id) {
  const params = { authority: "operator", agent_id: id, skill_id: id, roles: ["agent_route"], scene_types: ["SMART_HOME"] };
  return (await bridge.call("cert.token.create", params)).token;
}

test("a certificate is got, used and renewed", async (t) => {
  const place = folder(t);
  const certificate = await enrol(place, BRIDGE_HTTP, await claim("heating"));
  assert.equal((await enrol(place, "http://nowhere", "used")).folder, place);
  assert.ok(certificate.due() > 0);
  const device = new Client(BRIDGE_MQTTS, { credential: certificate, clientID: "heating" });
  await device.call("agent.list");
  const read = () => readFileSync(join(place, "cert.pem"), "utf8");
  const before = read();
  assert.equal(await certificate.renew(device), true);
  assert.notEqual(read(), before);
  assert.deepEqual(readdirSync(place).sort(), ["ca.pem", "cert.pem", "key.pem"]);
  await device.close();
  const ca = readFileSync(join(place, "ca.pem"), "utf8");
  for (const credential of [new Certificate(place), new KeyPair(join(place, "cert.pem"), join(place, "key.pem"))]) {
    const again = new Client(BRIDGE_MQTTS, { credential, clientID: "heating", ca });
    await again.call("agent.list");
    await again.close();
  }
});

test("a certificate that is due is renewed by itself", async (t) => {
  class Due extends Certificate {
    renewed = false;
    due() {
      return this.renewed ? 3_600_000 : 0;
    }
    async renew(client) {
      return (this.renewed = await super.renew(client));
    }
  }
  const place = folder(t);
  await enrol(place, BRIDGE_HTTP, await claim("cooling"));
  const before = readFileSync(join(place, "cert.pem"), "utf8");
  const credential = new Due(place);
  const device = new Client(BRIDGE_MQTTS, { credential, clientID: "cooling" });
  const first = await device.online(Date.now() + PATIENCE);
  await first.lost;
  await device.call("agent.list");
  assert.notEqual(await device.online(Date.now() + PATIENCE), first);
  assert.notEqual(readFileSync(join(place, "cert.pem"), "utf8"), before);
  await device.close();
});

test("what is not valid is refused", async (t) => {
  await assert.rejects(enrol(folder(t), BRIDGE_HTTP, "never-issued"), BridgeError);
  const suspicious = new Client(BRIDGE_MQTTS, { clientID: "suspicious" });
  await assert.rejects(suspicious.connect(PATIENCE), /not trusted/);
  await suspicious.close();
});
