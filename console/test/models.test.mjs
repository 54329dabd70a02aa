import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { open, startBrowser, until } from "./bridge.mjs";
import { startWorld } from "./world.mjs";
import { absent, shows, submit } from "./sees.mjs";

let world, browser;
before(async () => {
  [world, browser] = await Promise.all([startWorld({ budget: 4 }), startBrowser()]);
  for (const query of ["one", "two", "two"]) await world.bridge.call("llm.query", { query }); // the third is from the cache
  const { run_id } = await world.bridge.call("llm.run.start", { input: "three", tools: ["nothing.*"] });
  await until("the run's answer", async () => (await world.bridge.call("llm.run.status", { run_id })).phase === "WaitingUser");
});
after(async () => (await browser?.close(), await world?.stop()));

test("what was spent stands there by day, person and model, and as CSV", async () => {
  const page = await open(browser, world.bridge, "/models");
  await page.getByRole("heading", { name: /^0\.0\d+ this month$/ }).waitFor();
  await page.locator(".chart rect.s1").waitFor();
  const row = page.getByRole("row", { name: /anonymous test 3 45/ });
  await row.waitFor();
  await page.keyboard.press("5");
  await page.waitForURL(/by=run/);
  await page.getByRole("row", { name: /no run anonymous 2 30/ }).waitFor();
  await shows(page.locator(".strip code"), /llm\.spend since=\d{4}-\d\d-01 'by=\["day","run"\]'/);
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
  const lines = readFileSync(await file.path(), "utf8").trim().split("\r\n");
  assert.match(lines[0], /^day,space_id,principal,/);
  assert.equal(lines.length, 4); // asked, repeated, by the run
  assert.equal(lines.slice(1).map((l) => Number(l.split(",").at(-1))).reduce((a, b) => a + b).toFixed(6), "0.000315");
  await page.locator("a.mono").click();
  await page.waitForURL(/\/runs\/.+/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("budgets tell what is left, providers how they fare, the cache how full it is", async () => {
  const page = await open(browser, world.bridge, "/models");
  await page.getByRole("row", { name: /anonymous day 75 % 1 requests/ }).waitFor();
  await page.getByText("house closed").waitFor();
  await page.getByText("25 % of answers").waitFor();
  await page.getByText(/p50 .*p99/).first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the playground asks, and says what it took; when the budget is spent it says so, and Home does", async () => {
  const page = await open(browser, world.bridge, "/models?tab=playground&model=test");
  await page.getByLabel("What you ask").fill("<i>four</i>");
  await submit(page);
  await page.getByText("It is done.").waitFor();
  await page.getByText("10 in, 5 out").waitFor();
  await submit(page);
  await page.getByRole("alert").getByText("4014").waitFor();
  await page.goto(world.bridge.url + "/");
  await page.getByText("Budget is spent").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("who may only look sees what it has spent itself, which is nothing; a device sees nothing at all", async () => {
  const keyed = await startWorld({ dev: false });
  try {
    await keyed.bridge.call("llm.query", { query: "one" });
    const { key } = await keyed.bridge.call("key.create", { principal_id: "eve", kind: "operator", roles: ["observer"] });
    const page = await open(browser, keyed.bridge, "/models");
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("Nothing was spent").waitFor();
    await absent(page.getByRole("link", { name: "Playground" }));
    assert.equal((await keyed.bridge.call("llm.spend", { by: ["principal"], principal: "admin" }, key)).total, 0);
    const device = await keyed.bridge.call("key.create", { principal_id: "lamp-1", kind: "agent", roles: ["end_agent"] });
    await assert.rejects(keyed.bridge.call("llm.spend", {}, device.key), (e) => e.code === "2003");
    await page.context().close();
  } finally {
    await keyed.stop();
  }
});
