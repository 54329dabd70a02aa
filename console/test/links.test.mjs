import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { open, startBridge, startBrowser, until } from "./bridge.mjs";
import { shows } from "./sees.mjs";

let bridge, remote, browser;
before(async () => {
  [remote, browser] = await Promise.all([startBridge({ more: ["--id", "remote"] }), startBrowser()]);
  bridge = await startBridge({
    config: `links:
  - name: near
    url: mqtt://${remote.mqtt}
    out: [{topic: "up/#", remote: "house/", qos: 1}]
  - name: far
    url: mqtt://127.0.0.1:9
    in: [{topic: "down/#"}]
`,
  });
  await until("the link", async () => (await bridge.call("link.get", { link: "near" })).state === "connected");
  await until("what is away", async () => (await bridge.call("link.get", { link: "far" })).state === "down");
});
after(async () => (await browser?.close(), await bridge?.stop(), await remote?.stop()));

test("links are listed with their state, and one tells what it carries", async () => {
  const page = await open(browser, bridge, "/links");
  await page.getByRole("heading", { name: "2 links" }).waitFor();
  await page.getByRole("row").filter({ hasText: "far" }).getByText("down", { exact: true }).waitFor();
  await shows(page.locator(".strip code"), /aibridge .*link.*list/);
  await page.getByRole("row").filter({ hasText: "near" }).getByRole("link", { name: "near" }).click();
  await page.waitForURL(/links\/near/);
  await page.getByText("house/up/#").waitFor();
  await page.getByText("connected", { exact: true }).first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a link that is down wants attention at home, and its page says why", async () => {
  const page = await open(browser, bridge, "/?first=0");
  await page.getByRole("link", { name: /Link is down/ }).click();
  await page.waitForURL(/links\/far/);
  await page.getByText(/Not connected since/).waitFor();
  await page.getByText(/refused|lost/).first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("status counts them", async () => {
  const { links } = await bridge.call("bridge.status");
  assert.deepEqual([links.total, links.connected], [2, 1]);
});
