import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { open, startBridge, startBrowser } from "./bridge.mjs";
import { absent } from "./sees.mjs";

let bridge, browser;
before(async () => {
  const config = "telemetry:\n  otlp: http://user:topsecret@127.0.0.1:9\nmcp:\n  servers:\n    - name: notes\n      command: [/bin/false, topsecret]\n      env: {KEY: topsecret}\n";
  [bridge, browser] = await Promise.all([startBridge({ dev: false, config, more: ["--drain-seconds", "3"] }), startBrowser()]);
});
after(async () => (await browser?.close(), await bridge?.stop()));

async function enter(address, key = bridge.key) {
  const page = await open(browser, bridge, address);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("nav.nav").waitFor();
  return page;
}

test("the settings are shown without secrets, and those that are not the default are found", async () => {
  const page = await enter("/settings");
  await page.getByRole("row").filter({ hasText: "limits.depth" }).getByText("64").waitFor();
  assert.equal((await page.content()).includes("topsecret"), false);
  assert.equal(JSON.stringify(await bridge.call("bridge.config")).includes("topsecret"), false);
  await page.getByRole("button", { name: "not the default" }).click();
  await page.waitForURL(/which=changed/);
  await page.getByRole("row").filter({ hasText: "drain_seconds" }).getByText("3", { exact: true }).waitFor();
  await absent(page.getByRole("row").filter({ hasText: "limits.depth" }));
  await page.getByLabel("Find a setting").fill("mcp");
  await page.getByRole("row").filter({ hasText: "mcp.servers" }).getByText("notes").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the cluster tells where the state is, and that every part works", async () => {
  const page = await enter("/cluster");
  await page.getByRole("heading", { name: /One bridge, by itself/ }).waitFor();
  await page.getByText("NATS within this process").waitFor();
  await page.getByRole("row").filter({ hasText: "audit" }).getByText("works").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("who may only look is told what it needs", async () => {
  const { key } = await bridge.call("key.create", { principal_id: "watcher", kind: "operator", roles: ["observer"] });
  const page = await enter("/settings", key);
  await page.getByText("bridge:config").waitFor();
  await assert.rejects(bridge.call("bridge.config", {}, key), { code: "2003" });
  await page.context().close();
});
