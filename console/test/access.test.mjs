import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { open, program, startBridge, startBrowser, until } from "./bridge.mjs";
import { writeSkills } from "./world.mjs";
import { absent, off, shows, submit } from "./sees.mjs";

let bridge, browser;
before(async () => ([bridge, browser] = await Promise.all([startBridge({ dev: false, more: ["--mqtts", "127.0.0.1:0"] }), startBrowser()])));
after(async () => (await browser?.close(), await bridge?.stop()));

/** Signs in with a key. */
async function enter(address, key = bridge.key) {
  const page = await open(browser, bridge, address);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("nav.nav").waitFor();
  return page;
}

const online = async (id) => (await bridge.call("agent.list", { find: id })).agents.find((a) => a.agent_id === id)?.status;

test("a certificate is revoked in the console, and its agent drops", async (t) => {
  const out = path.join(bridge.dir, "door-cert");
  bridge.run("cert", "issue", "--authority", "operator", "--skill", "door", "--agent", "dock-1", "--out", out);
  const agent = spawn(program, ["agent", "end", "--url", `mqtts://${bridge.mqtts}`, "--ca", `${out}/ca.pem`, "--cert", `${out}/cert.pem`, "--key", `${out}/key.pem`, "--id", "dock-1", "--skills", writeSkills(bridge.dir)], { stdio: "ignore" });
  const ended = new Promise((done) => agent.on("exit", done));
  t.after(() => (agent.kill("SIGTERM"), ended));
  await until("the agent", async () => (await online("dock-1")) === "online");
  const page = await enter("/access");
  await page.getByRole("link", { name: "dock-1" }).click();
  await page.waitForURL(/serial=/);
  const serial = new URL(page.url()).searchParams.get("serial");
  await page.getByRole("button", { name: "Revoke…" }).click();
  const act = page.getByRole("button", { name: `Revoke ${serial}` });
  await off(act);
  await page.getByLabel(/^Reason/).fill("cessation of operation");
  await act.click();
  await page.locator("dl.facts").getByText("revoked").first().waitFor();
  await until("its leaving", async () => (await online("dock-1")) === "suspended");
  await page.goto(`${bridge.url}/agents/dock-1`);
  await page.getByText("suspended").first().waitFor();
  await page.goto(`${bridge.url}/audit?event=cert.revoke`);
  await page.getByRole("row").filter({ hasText: "cert.revoke" }).filter({ hasText: serial }).first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a request is approved with a reason, another rejected", async () => {
  const asker = await bridge.call("key.create", { principal_id: "asker", kind: "operator", roles: ["administrator"] });
  const file = path.join(bridge.dir, "asker.key");
  writeFileSync(file, asker.key, { mode: 0o600 });
  for (const skill of ["lighting", "heating"]) bridge.run("cert", "request", "--api-key-file", file, "--authority", "operator", "--skill", skill, "--purpose", `for the ${skill}`, "--out", path.join(bridge.dir, skill));
  const page = await enter("/access?tab=requests");
  await page.getByText("Requests, 2 wait").waitFor();
  await page.getByRole("link", { name: "lighting" }).click();
  await page.getByText("for the lighting").waitFor();
  await shows(page.locator(".strip code"), /aibridge call cert\.approve request_id=/);
  await page.getByLabel(/^Reason/).fill("known house");
  await page.getByRole("button", { name: "Approve the request" }).click();
  await page.getByText("Whoever asked fetches it").waitFor();
  await page.getByRole("link", { name: "heating" }).click();
  await page.getByText("for the heating").waitFor();
  await page.getByRole("button", { name: "Reject it" }).click();
  await page.locator("dl.facts").getByText("rejected").waitFor();
  const { requests } = await bridge.call("cert.list", { of: "requests" });
  assert.deepEqual(requests.map((r) => `${r.principal} ${r.status} ${r.reason ?? ""}`.trim()).sort(), ["heating rejected", "lighting approved known house"]);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a key is made by the keyboard, shown once, and revoked", async () => {
  const page = await enter("/access?tab=keys&make=1");
  await page.getByLabel(/^Whose/).last().fill("lamp-7");
  await submit(page);
  const secret = await page.locator(".secret pre").innerText();
  assert.match(secret, /^abk_/);
  assert.equal((await page.locator(".strip").innerText()).includes(secret), false);
  assert.equal(page.url().includes(secret), false);
  await page.getByRole("button", { name: "I have it" }).click();
  await absent(page.locator(".secret"));
  await page.getByText("not used").first().waitFor();
  assert.equal((await page.content()).includes(secret), false, "the key is still in the page");
  await page.getByRole("button", { name: "Revoke…" }).click();
  await page.getByLabel(/^Reason/).fill("the lamp was sold");
  await page.getByRole("button", { name: /^Revoke [0-9a-f]+/ }).click();
  await page.locator("dl.facts").getByText("the lamp was sold").waitFor();
  await assert.rejects(bridge.call("agent.list", {}, secret), { code: "2002" });
  await page.context().close();
});

test("a device is enrolled with the line of the page", async () => {
  const page = await enter("/access?tab=enrol");
  await page.getByLabel(/^Its id/).fill("gate");
  await page.getByRole("button", { name: "Make the token" }).click();
  const line = await page.locator(".secret pre").innerText();
  const [, token] = /cert claim (\S+)/.exec(line);
  bridge.run("cert", "claim", token, "--url", bridge.url, "--out", path.join(bridge.dir, "gate"));
  await page.getByRole("link", { name: "Certificates" }).first().click();
  await page.getByRole("link", { name: "gate" }).waitFor();
  await page.context().close();
});

test("a token of an issuer is revoked, and stands in the list", async () => {
  const page = await enter("/access?tab=tokens");
  await page.getByText("No token is revoked").waitFor();
  await page.getByLabel(/^Or all of a principal/).fill("staff.alice");
  await page.getByLabel(/^Reason/).fill("laptop stolen");
  await page.getByRole("button", { name: "Revoke…" }).click();
  await page.getByRole("button", { name: "Revoke all of staff.alice" }).click();
  await page.getByRole("table").getByText("staff.alice").waitFor();
  await page.context().close();
});

test("who may only look is offered nothing, and told what it needs", async () => {
  const { key } = await bridge.call("key.create", { principal_id: "watcher", kind: "operator", roles: ["observer"] });
  bridge.run("cert", "issue", "--authority", "operator", "--skill", "looked-at", "--out", path.join(bridge.dir, "looked-at"));
  const page = await enter("/access", key);
  await page.getByRole("link", { name: "looked-at" }).click();
  await page.getByText("cert:revoke").waitFor();
  await absent(page.getByRole("button", { name: "Revoke…" }));
  for (const [tab, action] of [["keys", "key:list"], ["enrol", "cert:issue"]]) {
    await page.goto(`${bridge.url}/access?tab=${tab}`);
    await page.getByText("Not yours").waitFor();
    await page.getByText(action).waitFor();
    for (const name of ["New key", "Make the token"]) await absent(page.getByRole("button", { name }).or(page.getByRole("link", { name })));
  }
  await page.context().close();
});
