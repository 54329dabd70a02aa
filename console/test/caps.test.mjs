import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { cable, open, startBridge, startBrowser, until } from "./bridge.mjs";
import { startGroups } from "./groups.mjs";
import { fillCap, startWorld } from "./world.mjs";
import { absent, counts, off, reconnects, shows, submit } from "./sees.mjs";

let world, groups, browser;
before(async () => {
  [world, groups, browser] = await Promise.all([startWorld(), startGroups(), startBrowser()]);
  await fillCap(world);
});
after(async () => (await browser?.close(), await world?.stop(), await groups?.stop()));

const hall = "/caps/light/hall";

test("a Cap, its groups and scenes are found, sorted by the server, and opened by the keyboard", async () => {
  const page = await open(browser, world.bridge, "/caps?find=DOCK&sort=-groups");
  await page.getByText("1 in all").waitFor();
  await shows(page.locator(".strip code"), /aibridge call cap\.query find=DOCK sort=-groups/);
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/caps\/dock$/);
  await page.getByRole("link", { name: "LOADING" }).waitFor();
  await page.keyboard.press("n");
  await page.getByRole("textbox", { name: /^Skill/ }).fill("barrier");
  await page.getByRole("textbox", { name: /^Group/ }).fill("yard");
  await page.getByRole("textbox", { name: /^Role/ }).fill("signal");
  await page.getByRole("button", { name: "Add the member" }).click();
  await page.getByRole("link", { name: "yard" }).click();
  await page.waitForURL(/\/caps\/dock\/yard$/);
  await page.getByRole("link", { name: /^barrier/ }).waitFor();
  await page.goto(`${world.bridge.url}/caps?show=groups`);
  await page.getByRole("link", { name: "dock/yard" }).waitFor();
  await page.goto(`${world.bridge.url}/caps/nowhere`);
  await page.getByText("There is no Cap nowhere").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("values are live, keep what they were, and are not set over those of others", async () => {
  const { bridge } = groups;
  const set = (data_value) => bridge.call("group.data.set", { cap_id: "light", group_id: "hall", data_key: "level", data_type: "number", data_value });
  await set(10);
  const page = await open(browser, bridge, `${hall}?value=level`);
  const detail = page.getByRole("region", { name: "level" });
  await detail.locator(".json").getByText("10", { exact: true }).waitFor();
  for (const n of [20, 30, 40]) await set(n);
  await detail.locator(".json").getByText("40", { exact: true }).waitFor();
  const past = page.getByRole("list", { name: "What it was, the latest first" });
  await until("what it was", async () => (await past.locator("code").allInnerTexts()).join() === "40,30,20,10");
  await page.getByRole("img", { name: "From 10 to 40 in 4 steps" }).waitFor();
  await page.getByRole("button", { name: "Change it" }).click();
  await set(50); // somebody else
  await detail.locator(".json").getByText("50", { exact: true }).waitFor();
  await page.getByLabel("Value, as JSON").fill("7");
  await page.getByRole("button", { name: "Set level" }).click();
  await page.getByText("Somebody set it meanwhile.").waitFor();
  await page.getByRole("button", { name: "Leave it" }).click();
  await page.getByRole("button", { name: "Change it" }).click();
  await page.getByLabel("Value, as JSON").fill("{");
  await off(page.getByRole("button", { name: "Set level" }));
  await page.getByLabel("Value, as JSON").fill("7");
  await page.getByRole("button", { name: "Set level" }).click();
  await detail.locator(".json").getByText("7", { exact: true }).waitFor();
  assert.equal((await bridge.call("group.data.get", { cap_id: "light", group_id: "hall", data_key: "level" })).data_value, 7);
  await page.context().close();
});

test("members are linked, get another role and leave, and the picture follows", async () => {
  const { bridge } = groups;
  const page = await open(browser, bridge, `${hall}?member=lamp-9`);
  await page.getByText(/11 of 12 members there/).waitFor();
  await page.getByLabel("Link it to").selectOption("lamp-1");
  await page.getByRole("button", { name: "Link", exact: true }).click();
  await page.getByRole("button", { name: "Unlink lamp-1" }).waitFor();
  await counts(page.locator(".nodes path.mine"), 1);
  await page.getByLabel("Role", { exact: true }).fill("spare");
  await page.getByRole("button", { name: "Change", exact: true }).click();
  await page.locator(".nodes .role", { hasText: "spare" }).waitFor();
  await page.getByRole("button", { name: "Take it out…" }).click();
  await page.getByRole("button", { name: "Take lamp-9 out" }).click();
  await page.getByText(/10 of 11 members there/).waitFor();
  await bridge.call("group.member.add", { cap_id: "light", group_id: "hall", skill_id: "lamp-9", role: "lamp" });
  await page.getByText(/11 of 12 members there/).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a dispatch goes from the form of the schema to the page of its task", async () => {
  const page = await open(browser, groups.bridge, `${hall}?role=lead`);
  const level = page.getByLabel(/^Level/);
  await level.fill("400");
  await level.blur();
  await page.getByText("at most 100").waitFor();
  await off(page.getByRole("button", { name: "Dispatch set" }));
  await level.fill("40");
  await page.getByText("You may.").waitFor();
  await shows(page.locator(".strip code"), /group\.dispatch cap_id=light group_id=hall capability_id=set params\.level=40 target\.role=lead deadline_ms=60000/);
  await submit(page);
  await page.waitForURL(/\/tasks\/.+/);
  await page.getByText("1 of 1 has done it").waitFor();
  await page.getByRole("link", { name: "hall", exact: true }).click();
  await page.waitForURL(/\/caps\/light\/hall$/);
  await page.context().close();
});

test("a scene shows who leads; when it goes, its backup leads", async () => {
  const { bridge } = world;
  const page = await open(browser, bridge, "/scenes");
  await page.getByRole("link", { name: "LOADING/dock" }).click();
  const leaders = page.getByRole("list", { name: /^RouteAgents/ });
  await leaders.getByText("is in charge, the owner").waitFor();
  await leaders.getByText("stands by").waitFor();
  await world.leaders[0].stop();
  await until("the backup", async () => /yard is in charge/.test((await leaders.innerText()).replaceAll("\n", " ")));
  await page.getByRole("button", { name: "Take out door" }).click();
  await page.getByRole("button", { name: "Take it out" }).click();
  await page.getByText("Only RouteAgents so far").waitFor();
  await page.getByRole("button", { name: "End the scene…" }).click();
  await page.getByRole("button", { name: "End it for all" }).click();
  await page.getByText("No scenes yet").waitFor();
  await page.context().close();
});

test("the connection breaks: what acts is off, and what is typed stays", async () => {
  const wire = cable();
  const page = await open(browser, groups.bridge, hall, { prepare: wire.prepare });
  await page.getByLabel(/^Level/).fill("33");
  await wire.cut();
  await page.getByText(/Connection lost at/).waitFor();
  const off = page.locator('button[title="Off until the bridge answers"]').filter({ hasText: "Dispatch set" });
  await off.waitFor();
  wire.mend();
  await reconnects(page);
  await off.waitFor({ state: "detached" });
  assert.equal(await page.getByLabel(/^Level/).inputValue(), "33");
  await page.context().close();
});

test("an empty bridge says what a Cap is; who looks on is offered nothing that acts", async () => {
  const locked = await startBridge({ dev: false });
  try {
    const { key } = await locked.call("key.create", { principal_id: "watcher", kind: "operator", roles: ["observer"] });
    const page = await open(browser, locked, "/caps");
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("No Caps yet").waitFor();
    await locked.call("cap.declare", { cap_id: "vault", cap_name: "Vault", skill_id: "safe" });
    await locked.call("group.member.add", { cap_id: "vault", group_id: "inner", skill_id: "safe", role: "safe" });
    await page.getByRole("link", { name: "vault" }).click();
    await page.getByText("No groups yet").waitFor();
    await absent(page.locator("main .does button"));
    await page.goto(`${locked.url}/caps/vault/inner`);
    await page.getByText("Not yours").waitFor();
    await page.context().close();
  } finally {
    await locked.stop();
  }
});
