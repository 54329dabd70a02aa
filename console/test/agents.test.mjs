import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { open, startBrowser, until } from "./bridge.mjs";
import { startWorld } from "./world.mjs";
import { absent, off, shows, submit } from "./sees.mjs";

let world, browser;
before(async () => ([world, browser] = await Promise.all([startWorld(), startBrowser()])));
after(async () => (await browser?.close(), await world?.stop()));

test("a new agent appears by itself, and is found by its name", async () => {
  const page = await open(browser, world.bridge, "/agents");
  await page.getByRole("link", { name: "dock-1" }).waitFor();
  await world.bridge.call("agent.register", { agent_id: "lamp-7", type: "end_agent", name: "Lamp in the hall" });
  await page.getByRole("link", { name: "lamp-7" }).waitFor();
  await page.getByLabel("Find by id or name").fill("HALL");
  await page.waitForURL(/find=HALL/);
  await page.getByText("1 in all").waitFor();
  await absent(page.getByRole("link", { name: "dock-1" }));
  await page.reload();
  await page.getByText("1 in all").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the page of an agent says what is wrong with it, and what to do", async () => {
  await world.bridge.call("agent.register", { agent_id: "lamp-8", type: "end_agent" });
  const page = await open(browser, world.bridge, "/agents/lamp-8");
  await page.getByText("no client of it is connected", { exact: true }).waitFor();
  await page.getByText("start the device", { exact: false }).waitFor();
  await page.getByRole("button", { name: "Show the checks" }).click();
  await page.getByText("ok: no answer of the last 15 minutes was wrong").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("trying a capability: the form says what is wrong, and then runs it", async () => {
  const page = await open(browser, world.bridge, "/agents/dock-1?skill=door&capability=open");
  await page.getByLabel(/^Door/).fill("D3");
  await page.getByLabel(/^For seconds/).fill("900");
  await page.getByLabel(/^For seconds/).blur();
  await page.getByText("at most 300").waitFor();
  const run = page.getByRole("button", { name: "Run door.open" });
  await off(run);
  await page.getByText("You may.").waitFor();
  await page.getByLabel(/^For seconds/).fill("90");
  await shows(page.locator(".strip code"), /aibridge call skill\.invoke skill_id=door capability_id=open params\.door=D3 params\.for_seconds=90/);
  await submit(page);
  await page.locator(".try .json").getByText("true").waitFor();
  await until("the audit", async () => (await page.locator("table.t").getByText("skill.invoke").count()) > 0);
  await page.context().close();
});

test("the keyboard moves, opens and goes", async () => {
  const page = await open(browser, world.bridge, "/agents");
  await page.getByRole("link", { name: "dock-1" }).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/agents\/.+/);
  await until("the approvals", async () => { // the two keys must be pressed soon after one another
    await page.keyboard.press("g");
    await page.keyboard.press("a");
    return page.url().endsWith("/approvals");
  });
  await page.keyboard.press("/");
  await page.getByRole("combobox").fill("dock");
  await page.getByRole("option", { name: /dock-1/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/agents\/dock-1$/);
  await page.keyboard.press("e");
  await page.getByText("Envelope, by MQTT, HTTP or WebSocket").waitFor();
  await page.context().close();
});

test("a client is kicked, after the page has asked", async () => {
  const page = await open(browser, world.bridge, "/agents/dock-1");
  await page.getByText("connected").waitFor();
  const dock = () => world.bridge.call("agent.get", { agent_id: "dock-1" });
  const before = (await dock()).presence.length;
  await page.getByRole("button", { name: "Kick" }).click();
  await page.getByRole("button", { name: "Disconnect dock-1" }).click();
  await until("its leaving", async () => (await dock()).presence.length > before);
  await until("its return", async () => (await dock()).status === "online");
  await page.context().close();
});

test("the packets of a client are traced for a while, and the audit tells by whom", async () => {
  const page = await open(browser, world.bridge, "/agents/dock-1");
  const trace = page.getByRole("region", { name: "Trace" });
  await trace.getByRole("button", { name: "Trace for five minutes" }).click();
  await trace.getByText(/for \d+ (min|s)/).first().waitFor();
  await world.bridge.call("skill.invoke", { skill_id: "door", capability_id: "open", params: { door: "the-secret-door", for_seconds: 90 } });
  await trace.getByText("aibridge/agent/dock-1/request").first().waitFor();
  await trace.getByText("aibridge/agent/dock-1/response").first().waitFor();
  assert.equal((await trace.innerText()).includes("the-secret-door"), false, "a payload is in the trace");
  const entry = await until("the audit", async () => (await world.bridge.call("audit.query", { event: "session.trace.start" })).entries[0]);
  assert.equal(entry.resource, "session/dock-1");
  await trace.getByRole("button", { name: "Forget it" }).click();
  await trace.getByText("That it was traced, and by whom").waitFor();
  await assert.rejects(world.bridge.call("session.trace.get", { client_id: "dock-1" }), { code: "3001" });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
