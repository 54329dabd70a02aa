// What somebody can do in the browser alone who has never read a word: the whole
// way, from an empty bridge to a device that is thrown out. Only what happens
// outside the browser - devices, a model, a colleague - is done by other means.
import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { open, program, startAgent, startBridge, startBrowser } from "./bridge.mjs";
import { writeLamps } from "./groups.mjs";
import { startModel, writeSkills } from "./world.mjs";
import { absent } from "./sees.mjs";

const run = promisify(execFile);

let bridge, browser, model, page;
const ends = [];
before(async () => {
  model = await startModel("door.open", { door: "D3", for_seconds: 90 });
  [bridge, browser] = await Promise.all([
    startBridge({ dev: false, more: ["--mqtts", "127.0.0.1:0", "--llm-base-url", model.url, "--llm-model", "test", "--approvals-wait-seconds", "600"] }),
    startBrowser(),
  ]);
});
after(async () => {
  await browser?.close();
  for (const end of ends.reverse()) await end();
  await bridge?.stop();
  model?.stop();
});

/** Goes to a page of the console by its name. */
const goTo = (name) => page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }).first().click();

/** The shown line for a terminal, typed there: what it starts is a device. */
function type(line, cwd) {
  const [, ...words] = line.trim().split(/\s+/);
  const child = spawn(program, words, { cwd, stdio: "ignore" });
  const ended = new Promise((done) => child.on("exit", done));
  ends.push(() => (child.kill("SIGTERM"), ended));
  return ended;
}

/** A step of the story; one that fails ends it. */
let broken = false;
const step = (name, f) =>
  test(name, async (t) => {
    if (broken) return t.skip("the story broke off before");
    broken = true;
    await f();
    broken = false;
  });

step("she signs in, and is led to the first device", async () => {
  const { key } = await bridge.call("key.create", { principal_id: "anna", kind: "operator", roles: ["administrator"] });
  page = await open(browser, bridge, "/");
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Connect a device" }).waitFor();
  assert.equal((await page.content()).includes(key), false, "the key is still in the page");
});

step("she enrols a device, and sees it appear by itself", async () => {
  await goTo("Access");
  await page.getByRole("link", { name: "Enrol a device" }).first().click();
  await page.getByRole("group", { name: "For" }).getByText("an agent").click();
  await page.getByLabel(/^Its id/).fill("dock-1");
  await page.getByRole("button", { name: "Make the token" }).click();
  const claim = await page.locator(".secret pre").first().innerText();
  const connect = await page.locator("pre.connects").innerText();
  writeSkills(bridge.dir);
  assert.equal(await type(claim, bridge.dir), 0, "the line of the page does not work");
  await goTo("Agents");
  await page.getByRole("link", { name: "mcp-agent-1" }).waitFor();
  await absent(page.getByRole("link", { name: "dock-1" }));
  void type(connect, bridge.dir);
  await page.getByRole("link", { name: "dock-1" }).waitFor();
});

step("she calls it", async () => {
  await page.getByRole("link", { name: "dock-1" }).click();
  await page.getByText("online since").waitFor();
  await page.getByRole("group", { name: "Capability" }).getByText("state").click();
  await page.getByRole("button", { name: "Run door.state" }).click();
  await page.locator(".try .json").getByText("false").waitFor();
});

step("she subscribes to its topic, and hears what it publishes", async () => {
  const cert = path.join(bridge.dir, "dock-1");
  const [host, port] = bridge.mqtts.split(":");
  const publish = (message) =>
    run("mosquitto_pub", ["-V", "5", "-h", host, "-p", port, "-i", "dock-1-sensor", "--cafile", `${cert}/ca.pem`, "--cert", `${cert}/cert.pem`, "--key", `${cert}/key.pem`, "-q", "1", "-t", "dock/1/temperature", "-m", message]);
  await goTo("Topics");
  await page.getByLabel("filter", { exact: true }).fill("dock/1/#");
  await page.getByRole("button", { name: "Hear it" }).click();
  await page.getByText("Nothing has spoken yet").waitFor();
  await publish(JSON.stringify({ celsius: 4.2 }));
  const row = page.getByRole("treeitem").filter({ hasText: "temperature" });
  await row.getByText('{"celsius":4.2}').waitFor();
  await row.click();
  await publish(JSON.stringify({ celsius: 4.3 }));
  await page.locator("ins").getByText("4.3").waitFor();
});

step("she approves what a model wants to do with it, while the model waits", async () => {
  const { key } = await bridge.call("key.create", { principal_id: "bob", kind: "operator", roles: ["operator"] });
  const answer = bridge.call("llm.query", { query: "Let the truck in.", tools: ["door.*"] }, key);
  await page.getByRole("navigation", { name: "Pages" }).getByText("1 wait").waitFor();
  await goTo("Approvals");
  await page.getByRole("link", { name: /door\.open/ }).first().click();
  await page.getByRole("heading", { name: /door\.open/ }).waitFor();
  await page.locator("table.params").getByText("D3").waitFor();
  await page.getByLabel(/Reason/).fill("the driver has called");
  await page.getByRole("button", { name: /Approve, runs once/ }).click();
  await page.locator("article").getByText(/approved by you/).first().waitFor();
  assert.match(JSON.stringify(await answer), /It is done/);
});

step("she finds out who did it in the audit", async () => {
  await page.locator("article").getByRole("link", { name: "Who did what" }).click();
  await page.waitForURL(/trace=/);
  const entries = page.getByRole("group", { name: "Entries of the audit trail" });
  const call = entries.getByRole("row").filter({ hasText: "skill/door" }).filter({ hasText: "bob" });
  await call.first().waitFor();
  await page.goBack();
  await page.locator("article").getByText(/approved by you: the driver has called/).first().waitFor();
  await goTo("Audit");
  const decided = entries.getByRole("row").filter({ hasText: "approval.decide" });
  await decided.filter({ hasText: "anna" }).first().waitFor();
  await page.getByText("The chain is whole").waitFor();
});

step("she watches a command reach ten members, one of which is away", async () => {
  const lamps = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`lamp-${i + 1}`, `echo '{"level":40}'`]));
  const hall = startAgent(bridge, "hall-1", writeLamps(bridge.dir, lamps));
  ends.push(() => hall.stop());
  await goTo("Agents");
  await page.getByRole("link", { name: "hall-1" }).waitFor();
  await bridge.call("cap.declare", { cap_id: "light", cap_name: "Light", skill_id: "lamp-1", max_members: 50 });
  for (const m of [...Object.keys(lamps), "lamp-10"]) await bridge.call("group.member.add", { cap_id: "light", group_id: "hall", skill_id: m, role: "lamp" });
  await page.keyboard.press("/");
  await page.getByRole("combobox").fill("group.dispatch");
  await page.getByRole("option", { name: /^group\.dispatch/ }).click();
  await page.getByLabel(/^Cap id/).fill("light");
  await page.getByLabel(/^Group id/).fill("hall");
  await page.getByLabel(/^Capability id/).fill("set");
  await page.getByText(/^More:/).click();
  await page.getByLabel(/^Params/).fill('{"level":40}');
  await page.getByLabel(/^Deadline/).fill("600000");
  await page.getByRole("button", { name: "Run group.dispatch" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run group.dispatch" }).click();
  await page.locator(".try .json").getByText("task_id").waitFor();
  await goTo("Tasks");
  await page.getByRole("link", { name: "light/hall set" }).click();
  await page.getByText("9 of 10 have done it").waitFor();
  await page.locator(".matrix a[aria-label^='lamp-10:']").click();
  await page.getByRole("heading", { name: "lamp-10" }).waitFor();
  await page.getByRole("link", { name: "who did what" }).click();
  const entries = page.getByRole("group", { name: "Entries of the audit trail" });
  await entries.getByRole("row").filter({ hasText: "group.dispatch" }).filter({ hasText: "anna" }).first().waitFor();
});

step("she revokes the device's certificate, and sees it drop", async () => {
  await goTo("Agents");
  await page.getByRole("link", { name: "dock-1" }).click();
  await page.getByText("online since").waitFor();
  const certificate = page.getByRole("region", { name: "Certificate" });
  await certificate.getByText("valid").waitFor();
  await certificate.getByRole("button", { name: "Revoke…" }).click();
  await page.getByRole("dialog").getByLabel(/^Reason/).fill("the dock was sold");
  await page.getByRole("dialog").getByRole("button", { name: /^Revoke [0-9a-f:]+/i }).click();
  await page.locator("h1").getByText("suspended").waitFor();
  await page.getByRole("region", { name: "MQTT session" }).getByText("connected").waitFor({ state: "detached" });
  await goTo("Audit");
  await page.getByRole("row").filter({ hasText: "cert.revoke" }).filter({ hasText: "anna" }).first().waitFor();
  assert.deepEqual(page.problems, []);
});
