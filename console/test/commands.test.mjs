import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { open, startBridge, startBrowser, until } from "./bridge.mjs";
import { absent, off, submit } from "./sees.mjs";

let bridge, browser;
before(async () => ([bridge, browser] = await Promise.all([startBridge({ dev: false }), startBrowser()])));
after(async () => (await browser?.close(), await bridge?.stop()));

async function enter(address, key = bridge.key) {
  const page = await open(browser, bridge, address);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("nav.nav").waitFor();
  return page;
}

test("a command is found, told, and run; one that reads runs at once", async () => {
  const page = await enter("/");
  await page.keyboard.press("/");
  await page.getByRole("combobox").fill("task.list");
  await page.getByRole("option", { name: /^task\.list/ }).click();
  await page.waitForURL(/\/commands\/task\.list$/);
  await page.getByRole("link", { name: "Ask policy" }).waitFor();
  await page.getByLabel(/^Limit/).fill("0");
  await page.getByLabel(/^Limit/).blur();
  await page.getByText("at least 1").waitFor();
  await off(page.getByRole("button", { name: "Run task.list" }));
  await page.getByLabel(/^Limit/).fill("5");
  await page.locator(".strip code").getByText("aibridge call task.list limit=5", { exact: true }).waitFor();
  await submit(page);
  await page.locator(".try .json").getByText('"tasks"').waitFor();
  assert.equal(page.url().includes("limit"), false, "params are in the address");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("what changes something is asked about first, and what the bridge says of a field stands at the field", async () => {
  const page = await enter("/commands/agent.register");
  await page.getByRole("button", { name: "Fill in the example" }).click();
  const id = await until("the example", () => page.getByLabel(/^Agent id/).inputValue());
  await page.getByLabel(/^Agent id/).fill("lamp\u202e1");
  const run = page.getByRole("button", { name: "Run agent.register" });
  await run.first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Keep it" }).click();
  assert.equal((await bridge.call("agent.list", { find: "lamp" })).total, 0);
  await run.first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Run agent.register" }).click();
  await page.locator(".note.failed").waitFor();
  await page.locator("#run-agent_id-e").waitFor();
  await page.getByLabel(/^Agent id/).fill(id);
  await run.first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Run agent.register" }).click();
  await page.locator(".try .json").waitFor();
  assert.equal((await bridge.call("agent.list", { find: id })).total, 1);
  await page.context().close();
});

test("who may not run it is told what it needs, and one that is not there is said so", async () => {
  const { key } = await bridge.call("key.create", { principal_id: "watcher", kind: "operator", roles: ["observer"] });
  const page = await enter("/commands/key.create", key);
  await page.getByText("You may not: it needs").waitFor();
  await absent(page.getByRole("button", { name: "Run key.create" }));
  await page.goto(`${bridge.url}/commands/no.such`);
  await page.getByText("There is no command no.such").waitFor();
  await page.goto(`${bridge.url}/commands?find=key.`);
  await page.getByText("not yours").first().waitFor();
  await page.context().close();
});
