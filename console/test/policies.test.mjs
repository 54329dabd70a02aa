import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { open, startBridge, startBrowser, until } from "./bridge.mjs";
import { absent, off, shows, submit } from "./sees.mjs";

let bridge, browser, device, anna;
before(async () => {
  [bridge, browser] = await Promise.all([startBridge({ dev: false }), startBrowser()]);
  ({ key: device } = await bridge.call("key.create", { principal_id: "lamp-1" }));
  ({ key: anna } = await bridge.call("key.create", { principal_id: "anna", kind: "operator", roles: ["operator"] }));
});
after(async () => (await browser?.close(), await bridge?.stop()));

async function enter(address, key = bridge.key) {
  const page = await open(browser, bridge, address);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("nav.nav").waitFor();
  return page;
}

test("who may do what: asked by the keyboard, answered with the text that decides", async () => {
  const page = await enter("/policies");
  await page.getByLabel(/^Principal/).fill("agent:lamp-1");
  await page.getByLabel(/^Action/).fill("key:list");
  await page.keyboard.press("Enter");
  await page.getByText("No.", { exact: true }).waitFor();
  assert.match(page.url(), /principal=agent%3Alamp-1.*action=key%3Alist/);
  await shows(page.locator(".strip code"), /aibridge call policy\.explain principal\.id=lamp-1 principal\.kind=agent action=key:list/);
  await page.getByLabel(/^Principal/).fill("operator:anna");
  await page.getByLabel(/^Action/).fill("agent:list");
  await page.keyboard.press("Enter");
  await page.getByText("Yes.", { exact: true }).waitFor();
  await page.locator("pre.code").first().getByText("permit").waitFor();
  await page.reload();
  await page.getByText("Yes.", { exact: true }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("somebody edits a policy and is refused by it", async () => {
  await bridge.call("policy.put", { name: "desk", policy: `permit (principal == Operator::"anna", action == Action::"agent:list", resource);\n` });
  await bridge.call("agent.list", {}, anna);
  const page = await enter("/policies");
  await page.getByRole("link", { name: "desk" }).click();
  const text = page.getByLabel("Policies", { exact: true });
  await text.fill(`forbid (principal == Operator::"anna" action);`);
  await page.locator(".checks .failed").first().waitFor();
  await off(page.getByRole("button", { name: /^Put in force/ }));
  await text.fill(`@why("not at this desk")\nforbid (principal == Operator::"anna", action == Action::"agent:list", resource);\n`);
  await page.getByText("No errors").waitFor();
  await shows(page.locator("del.del"), /permit/);
  assert.match((await page.locator("ins.add").allInnerTexts()).join(""), /forbid/);
  await submit(page);
  await page.getByText("In force", { exact: true }).first().waitFor();
  await until("the refusal", () => bridge.call("agent.list", {}, anna).then(() => false, (e) => e.code === "2003"));
  const hers = await enter("/agents", anna);
  await hers.getByText("Not yours").waitFor();
  await hers.context().close();

  // The refusal stands in the page, and leads to who decided.
  await page.goto(`${bridge.url}/policies`);
  await page.getByRole("link", { name: "agent:list" }).first().click();
  await page.getByText("No.", { exact: true }).waitFor();
  await page.getByText("“not at this desk”").waitFor();
  await page.getByRole("link", { name: "desk", exact: true }).last().click();
  await page.getByRole("button", { name: "Remove…" }).click();
  await page.getByRole("button", { name: "Remove desk" }).click();
  await page.waitForURL(/\/policies$/);
  await until("the end of it", () => bridge.call("agent.list", {}, anna).then(() => true, () => false));
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a refusal becomes a proposed rule, which permits it once it is put", async () => {
  await assert.rejects(bridge.call("key.list", {}, device), { code: "2003" });
  const page = await enter("/policies");
  await page.getByRole("row", { name: /lamp-1.*key:list/ }).getByRole("link", { name: "Propose a rule" }).click();
  await until("the proposal", async () => /permit \(\s+principal == Agent::"lamp-1",\s+action == Action::"key:list"/.test(await page.getByLabel("Policies", { exact: true }).inputValue()));
  await page.getByText("No errors").waitFor();
  await page.getByLabel(/^Name/).fill("lamp-keys");
  await page.getByRole("button", { name: /^Put in force/ }).click();
  await page.waitForURL(/\/policies\/lamp-keys$/);
  await until("the permission", () => bridge.call("key.list", {}, device).then(() => true, () => false));
  await page.context().close();
});

test("who may not put policies is offered no editor", async () => {
  const page = await enter("/policies", anna);
  await page.getByText("audit:query").waitFor();
  await absent(page.getByRole("link", { name: "New policy" }));
  await page.goto(`${bridge.url}/policies?tab=ask&action=key:list`);
  await page.getByText(/You may not|No\./).first().waitFor();
  await page.context().close();
});
