import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { open, startBridge, startBrowser, until } from "./bridge.mjs";
import { absent, shows } from "./sees.mjs";

let bridge, browser, device;
before(async () => {
  [bridge, browser] = await Promise.all([startBridge({ dev: false }), startBrowser()]);
  ({ key: device } = await bridge.call("key.create", { principal_id: "lamp-1" }));
  await bridge.call("agent.register", { agent_id: "lamp-1", type: "end_agent" }, device);
  await assert.rejects(bridge.call("key.list", {}, device), { code: "2003" });
});
after(async () => (await browser?.close(), await bridge?.stop()));

async function enter(address, key = bridge.key) {
  const page = await open(browser, bridge, address);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("nav.nav").waitFor();
  return page;
}

test("who did it is found by principal, command, outcome; the filters are the address", async () => {
  const page = await enter("/audit");
  await page.getByRole("table").getByText("key.create").first().waitFor();
  await page.getByRole("searchbox", { name: "Who" }).fill("lamp-1");
  await page.waitForURL(/principal=lamp-1/);
  await until("the filter", async () => (await page.getByRole("table").getByText("key.create").count()) === 0);
  await page.getByRole("button", { name: "denied", exact: true }).click();
  await page.getByText("1 in all").waitFor();
  await page.getByRole("row", { name: /denied 2003/ }).waitFor();
  await shows(page.locator(".strip code"), /aibridge call audit\.query principal=lamp-1 code=2003/);
  await page.reload();
  await page.getByText("1 in all").waitFor();
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByRole("searchbox", { name: /^What/ }).fill("agent.*");
  await page.getByRole("table").getByText("agent.register").waitFor();
  await page.getByRole("searchbox", { name: /^What/ }).fill("nothing.such");
  await page.getByText("No entry fits").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("an entry opens by the keyboard, says by whom and on what, and leads to the policy", async () => {
  const page = await enter("/audit?principal=lamp-1&code=2003");
  await page.getByText("1 in all").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/entry=\d+/);
  await page.getByRole("link", { name: "Ask by which policy" }).waitFor();
  await page.locator("ol.crossing").getByText("lamp-1").waitFor();
  await page.keyboard.press("Escape");
  await until("its closing", () => !page.url().includes("entry="));
  await page.context().close();
});

test("the chain is verified, and what fits is exported", async () => {
  const page = await enter("/audit?event=agent.register");
  await page.getByText("The chain is whole").waitFor();
  await page.getByRole("button", { name: "Verify now" }).click();
  await page.getByText("The chain is whole").waitFor();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export" }).click()]);
  const lines = readFileSync(await file.path(), "utf8").trim().split("\n").map((l) => JSON.parse(l));
  assert.deepEqual(lines.map((e) => [e.event, e.principal]), [["agent.register", "lamp-1"]]);
  assert.match(file.suggestedFilename(), /^audit-.*\.jsonl$/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("what happens appears by itself", async () => {
  const page = await enter("/audit?event=agent.unregister");
  await page.getByText("No entry fits").waitFor();
  await bridge.call("agent.unregister", { agent_id: "lamp-1" }, device);
  await page.getByRole("table").getByText("agent.unregister").waitFor();
  await page.context().close();
});

test("who may not is told what it needs", async () => {
  const { key } = await bridge.call("key.create", { principal_id: "watcher", kind: "operator", roles: ["observer"] });
  const page = await enter("/audit", key);
  await page.getByText("Not yours").waitFor();
  await page.getByText("audit:query").waitFor();
  await page.getByText("audit:verify").waitFor();
  await absent(page.getByRole("button", { name: "Export" }));
  await page.context().close();
});
