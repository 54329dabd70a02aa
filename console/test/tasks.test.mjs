import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { open, startBrowser, until } from "./bridge.mjs";
import { startGroups } from "./groups.mjs";
import { absent, counts, shows } from "./sees.mjs";

let world, browser, task;
before(async () => {
  [world, browser] = await Promise.all([startGroups(), startBrowser()]);
  task = await world.dispatch();
});
after(async () => (await browser?.close(), await world?.stop()));

test("the list tells how many have done it, and its filters are in the address", async () => {
  const page = await open(browser, world.bridge, "/tasks");
  await page.getByRole("link", { name: "light/hall set" }).waitFor();
  await page.getByText("9 of 12").waitFor();
  await page.getByRole("button", { name: "cancelled" }).click();
  await page.getByText("No task fits").waitFor();
  assert.match(page.url(), /state=cancelled/);
  await page.getByRole("button", { name: "Show all" }).click();
  await page.getByLabel("Find by id, command or group").fill("HALL");
  await page.waitForURL(/find=HALL/);
  await page.getByText("9 of 12").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/tasks\/.+/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a task is the matrix of its members, walked by the keyboard", async () => {
  const page = await open(browser, world.bridge, `/tasks/${task}`);
  await page.getByText("9 of 12 have done it").waitFor();
  await page.locator(".matrix a").first().focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  await page.waitForURL(/member=lamp-slow/);
  await page.getByRole("heading", { name: "lamp-slow" }).waitFor();
  await page.locator(".pick").getByRole("button", { name: /^failed 1/ }).click();
  await page.locator("table").getByText("lamp-broken").waitFor();
  await counts(page.locator("table tbody tr"), 1);
  assert.match(page.url(), /show=failed/);
  await page.reload();
  await page.locator("table").getByText("lamp-broken").waitFor();
  await shows(page.locator(".strip code"), /aibridge call group\.dispatch cap_id=light group_id=hall capability_id=set params\.level=40/);
  await page.keyboard.press("e");
  await page.getByText("Envelope, by MQTT, HTTP or WebSocket").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("who failed is asked again, as a task of its own", async () => {
  const page = await open(browser, world.bridge, `/tasks/${task}`);
  await page.getByRole("button", { name: /Retry 1 failed/ }).waitFor();
  await page.keyboard.press("r"); // it goes to the button, and does not act
  await page.waitForFunction(() => /Retry/.test(document.activeElement.textContent));
  await page.keyboard.press("Enter");
  await page.waitForFunction((old) => !location.pathname.endsWith(old), task);
  await page.getByText("0 of 1 have done it").waitFor();
  await page.locator(".matrix a[aria-label='lamp-broken: failed']").waitFor();
  await page.context().close();
});

test("a task is cancelled after the page has asked, and the page follows", async () => {
  const mine = await world.dispatch();
  const page = await open(browser, world.bridge, `/tasks/${mine}`);
  await page.getByText("9 of 12 have done it").waitFor();
  await page.keyboard.press("x");
  await page.getByLabel("Reason, for those who look later").fill("enough light");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel task" }).click();
  await page.getByText("enough light").first().waitFor();
  await until("the end", async () => (await world.bridge.call("task.get", { task_id: mine })).state === "cancelled");
  await page.getByRole("button", { name: "Cancel task" }).waitFor({ state: "detached" });
  await page.context().close();
});

test("an answer comes to the page by itself", async () => {
  const page = await open(browser, world.bridge, `/tasks/${task}`);
  await page.getByText("9 of 12 have done it").waitFor();
  world.release();
  await page.getByText("10 of 12 have done it").waitFor();
  await page.context().close();
});

test("who may only look sees no task of others, is offered nothing, and is refused if it forges", async () => {
  const keyed = await startGroups({ dev: false });
  try {
    const mine = await keyed.dispatch();
    const { key } = await keyed.bridge.call("key.create", { principal_id: "eve", kind: "operator", roles: ["observer"] });
    const page = await open(browser, keyed.bridge, `/tasks/${mine}`);
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("There is no such task").waitFor();
    await absent(page.getByRole("button", { name: /Cancel task|Retry/ }));
    await page.goto(`${keyed.bridge.url}/tasks`);
    await page.getByText("No tasks yet").waitFor();
    for (const [command, params] of [["task.cancel", { task_id: mine }], ["group.dispatch", { cap_id: "light", group_id: "hall", capability_id: "set", params: { level: 1 } }]])
      await assert.rejects(keyed.bridge.call(command, params, key), (e) => e.code === "2003");
    await page.context().close();
  } finally {
    await keyed.stop();
  }
});
