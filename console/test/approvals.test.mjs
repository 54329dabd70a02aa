import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { cable, open, startBrowser, until } from "./bridge.mjs";
import { startWorld } from "./world.mjs";
import { off, reconnects, shows, submit } from "./sees.mjs";

let world, browser;
before(async () => ([world, browser] = await Promise.all([startWorld(), startBrowser()])));
after(async () => (await browser?.close(), await world?.stop()));

test("an approval appears by itself, and approving it runs the call once", async () => {
  const page = await open(browser, world.bridge, "/approvals");
  await page.getByText("Nothing waits for you").first().waitFor();
  const { approval, answer } = await world.ask();
  await page.getByRole("link", { name: /door\.open/ }).first().click();
  await page.getByRole("heading", { name: /door\.open/ }).waitFor();
  await page.getByText("risk high").waitFor();
  const given = page.locator("table.params");
  await given.getByText("D3").waitFor();
  await given.getByText("90").waitFor();
  await shows(page.locator(".strip code"), new RegExp(approval.approval_id));
  await page.getByRole("button", { name: /Approve, runs once/ }).click();
  const result = await answer;
  assert.equal(result instanceof Error, false, String(result));
  assert.equal((await world.bridge.call("approval.get", { approval_id: approval.approval_id })).state, "used");
  await page.locator("article").getByText(/approved by you/).first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("denying by the keyboard: D chooses, the reason is typed, Ctrl Enter does it", async () => {
  const { approval, answer } = await world.ask("And again.");
  const page = await open(browser, world.bridge, `/approvals/${approval.approval_id}`);
  await page.getByRole("button", { name: /^Deny/ }).waitFor();
  await page.keyboard.press("d");
  assert.equal((await world.bridge.call("approval.get", { approval_id: approval.approval_id })).state, "pending", "a single key has acted");
  await page.keyboard.type("no slot booked");
  await submit(page);
  await page.getByText(/denied by you: no slot booked/).first().waitFor();
  await answer;
  const ended = await world.bridge.call("approval.get", { approval_id: approval.approval_id });
  assert.equal(ended.state, "denied");
  assert.equal(ended.reason, "no slot booked");
  await page.context().close();
});

test("on a phone an opened approval has the decision in sight and no bar below", async () => {
  const { approval } = await world.ask("Once more.");
  const page = await open(browser, world.bridge, "/approvals", { viewport: { width: 375, height: 800 }, hasTouch: true });
  await page.locator(`.inbox a[href*="${approval.approval_id}"]`).click();
  const approve = page.getByRole("button", { name: /Approve, runs once/ });
  await until("the decision in sight", async () => {
    const box = await approve.boundingBox();
    return box && box.y + box.height <= 800 && box.height >= 44;
  });
  await page.locator("nav.nav").waitFor({ state: "hidden" });
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 375, "the page scrolls sideways");
  await world.bridge.call("approval.decide", { approval_id: approval.approval_id, nonce: approval.nonce, decision: "deny" });
  await page.locator("article").getByText(/denied by/).first().waitFor();
  await page.context().close();
});

test("while the connection is lost nothing can be decided, and what was typed stays", async () => {
  const { approval } = await world.ask("A last time.");
  const line = cable();
  const page = await open(browser, world.bridge, `/approvals/${approval.approval_id}`, { prepare: line.prepare });
  const approve = page.getByRole("button", { name: /Approve, runs once/ });
  await page.getByLabel(/Reason/).fill("typed before");
  await line.cut();
  await page.getByText("Connection lost at").waitFor();
  await off(approve);
  await approve.click({ force: true });
  assert.equal((await world.bridge.call("approval.get", { approval_id: approval.approval_id })).state, "pending");
  await page.getByText("not live").waitFor({ state: "attached" });
  line.mend();
  await reconnects(page);
  assert.equal(await page.getByLabel(/Reason/).inputValue(), "typed before");
  await approve.click();
  await page.locator("article").getByText(/approved by you/).first().waitFor();
  await page.context().close();
});

test("changed arguments are another question, and the call runs with them", async () => {
  const { approval, answer } = await world.ask("Shorter, please.");
  const page = await open(browser, world.bridge, `/approvals/${approval.approval_id}`);
  await page.getByText("Change the arguments").click();
  await page.getByLabel("Arguments, as JSON").fill('{"door":"D3","for_seconds":');
  await off(page.getByRole("button", { name: "Ask about the changed call" }));
  await page.getByLabel("Arguments, as JSON").fill('{"door":"D3","for_seconds":15}');
  await page.getByLabel(/^Why/).fill("a minute is too long");
  await page.getByRole("button", { name: "Ask about the changed call" }).click();
  await page.getByRole("heading", { name: "Changed by you" }).waitFor();
  await page.locator("table.params").getByText("15").waitFor();
  await page.getByRole("button", { name: /Approve, runs once/ }).click();
  const result = await answer;
  assert.equal(result instanceof Error, false, String(result));
  const ended = await world.bridge.call("approval.get", { approval_id: approval.approval_id });
  assert.deepEqual([ended.state, ended.arguments, ended.edits], ["used", { door: "D3", for_seconds: 15 }, 1]);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("equal calls are shown and decided together", async () => {
  const asked = [await world.ask("One."), await world.ask("Two.")];
  const page = await open(browser, world.bridge, `/approvals/${asked[0].approval.approval_id}`);
  await page.getByText("2 equal calls wait").click();
  await page.getByRole("button", { name: "Deny all 2" }).click();
  for (const { approval, answer } of asked) {
    await answer;
    assert.equal((await world.bridge.call("approval.get", { approval_id: approval.approval_id })).state, "denied");
  }
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
