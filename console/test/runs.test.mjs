import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { open, startBrowser } from "./bridge.mjs";
import { fillRuns, startWorld } from "./world.mjs";
import { absent, shows, submit } from "./sees.mjs";

let world, browser;
before(async () => {
  [world, browser] = await Promise.all([startWorld(), startBrowser()]);
  await fillRuns(world);
});
after(async () => (await browser?.close(), await world?.stop()));

test("the list is filtered in the address, and opened by the keyboard", async () => {
  const page = await open(browser, world.bridge, "/runs");
  await page.getByRole("heading", { name: "2 runs" }).waitFor();
  await page.getByRole("button", { name: "waiting for you" }).click();
  await page.waitForURL(/phase=WaitingUser/);
  await page.getByRole("heading", { name: "1 run", exact: true }).waitFor();
  await page.getByRole("button", { name: "failed" }).click();
  await page.getByText("No run fits").waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await page.getByLabel("Find by id, package or project").fill("CLIMATE");
  await page.waitForURL(/find=CLIMATE/);
  await page.getByRole("heading", { name: "1 run", exact: true }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(new RegExp(world.run));
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a run shows where it is, whom it waits for and what it cost; when that is decided it goes on by itself", async () => {
  const page = await open(browser, world.bridge, `/runs/${world.run}`);
  await page.getByText("Waiting for an approval").waitFor();
  await page.locator(".graph .n.here").waitFor();
  assert.match(await page.locator(".graph").getAttribute("aria-label"), /Measure: is here, .*Report: not yet|Measure: is here/);
  const fall = page.locator(".fall");
  await fall.getByRole("link", { name: /^C01 test at house ?, done.*15 tokens/ }).waitFor();
  await fall.getByRole("link", { name: /^an operator until .*waits.*entry \d+ of the audit/ }).waitFor();
  await fall.getByRole("link", { name: /^door acts when agreed/ }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.waitForURL(/span=C01/);
  await page.getByRole("heading", { name: "Turn C01" }).waitFor();
  await shows(page.locator(".strip code"), new RegExp(`aibridge run follow ${world.run}`));
  await page.keyboard.press("Escape");
  const { approvals } = await world.bridge.call("approval.list", { state: "pending" });
  const mine = approvals.find((a) => a.session_id === world.run);
  await world.bridge.call("approval.decide", { approval_id: mine.approval_id, nonce: mine.nonce, decision: "approve" });
  await page.getByRole("heading", { name: "It waits for you" }).waitFor();
  await fall.getByRole("link", { name: /^anonymous agreed ?, done/ }).waitFor();
  await fall.getByRole("link", { name: /^door acted ?, done/ }).waitFor();
  await fall.getByRole("link", { name: /^C02 test/ }).waitFor();
  await page.keyboard.press("c");
  await page.getByText("It is done.").first().waitFor();
  await page.getByText("wants door").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("who is waited for answers with the keyboard, and the run hears it; a run is cancelled after the page has asked", async () => {
  const page = await open(browser, world.bridge, `/runs/${world.talk}`);
  await page.getByRole("heading", { name: "It waits for you" }).waitFor();
  await page.keyboard.press("s");
  await page.keyboard.type("And D4, <b>please</b>");
  await submit(page);
  await page.locator(".fall").getByRole("link", { name: /^C02/ }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Conversation" }).click();
  await page.getByText("And D4, <b>please</b>").first().waitFor();
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel run" }).click();
  await page.getByRole("heading", { name: "Why it stopped" }).waitFor();
  assert.equal((await world.bridge.call("llm.run.status", { run_id: world.talk })).stop_reason, "ENGINE_ABORTED");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a chat begins, its tool waits for an approval in sight, and the answer comes", async () => {
  const page = await open(browser, world.bridge, "/conversations/new");
  await page.getByLabel("Tools it may use").fill("door.*");
  await page.getByLabel("What you say").fill("Open D3.");
  await submit(page);
  await page.locator(".note.waiting").getByText("door.open").waitFor();
  const { approvals } = await world.bridge.call("approval.list", { state: "pending" });
  const mine = approvals.find((a) => a.session_id !== world.run && a.session_id !== world.talk);
  await world.bridge.call("approval.decide", { approval_id: mine.approval_id, nonce: mine.nonce, decision: "approve" });
  await page.waitForURL(/conversations\/(?!new)/);
  await page.locator(".msg.assistant").getByText("It is done.").waitFor();
  await absent(page.locator(".note.waiting"));
  await page.getByLabel("What you say").fill("/help");
  await submit(page);
  await page.getByText("/reset").first().waitFor();
  await page.goto(`${world.bridge.url}/conversations?find=open%20d3`);
  await page.getByRole("link", { name: "Open D3." }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("who may only look sees no run and no conversation of others, and is refused if it forges", async () => {
  const keyed = await startWorld({ dev: false });
  try {
    await keyed.bridge.call("llm.chat", { session_id: "mine", message: "hello" });
    const { run_id } = await keyed.bridge.call("llm.run.start", { input: "hello", tools: ["nothing.*"] });
    const { key } = await keyed.bridge.call("key.create", { principal_id: "eve", kind: "operator", roles: ["observer"] });
    const page = await open(browser, keyed.bridge, `/runs/${run_id}`);
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("There is no such run").waitFor();
    await page.goto(`${keyed.bridge.url}/conversations/mine`);
    await page.getByText("There is no such conversation").waitFor();
    await page.goto(`${keyed.bridge.url}/runs`);
    await page.getByText("No runs yet").waitFor();
    await absent(page.getByRole("link", { name: "Start a run" }));
    for (const [command, params, code] of [["llm.run.start", { input: "x" }, "2003"], ["llm.chat", { message: "x" }, "2003"], ["llm.run.trace", { run_id }, "3001"], ["llm.run.turns", { run_id }, "3001"], ["llm.conversation.get", { session_id: "mine" }, "3001"]])
      await assert.rejects(keyed.bridge.call(command, params, key), (e) => e.code === code, command);
    await page.context().close();
  } finally {
    await keyed.stop();
  }
});
