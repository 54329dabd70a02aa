import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { open, startBridge, startBrowser, until } from "./bridge.mjs";
import { allHostile, dispatch, fillAccess, fillCap, fillRuns, hostile, startWorld } from "./world.mjs";
import { pages } from "./pages.mjs";
import { absent, settled } from "./sees.mjs";

let world, locked, browser;
before(async () => ([world, locked, browser] = await Promise.all([startWorld({ says: allHostile, args: { door: allHostile.slice(0, 400) } }), startBridge({ dev: false }), startBrowser()])));
after(async () => (await browser?.close(), await world?.stop(), await locked?.stop()));

test("what devices, models and people write is text on every page", async () => {
  const { bridge } = world;
  await bridge.call("agent.register", { agent_id: hostile.name, type: "end_agent", name: hostile.texts[0], endpoints: [`https://example.test/${encodeURIComponent(hostile.texts[0])}`] });
  await bridge.call("skill.register", {
    agent_id: hostile.name,
    skill: { skill_id: "hostile", name: hostile.texts[1], description: allHostile, version: "1.0.0", capabilities: [{ capability_id: "run", name: hostile.texts[3], description: allHostile, params_schema: { type: "object", title: hostile.texts[1], properties: { [hostile.name]: { type: "string", title: hostile.texts[0], description: allHostile, enum: hostile.texts, default: hostile.texts[4] } } } }] },
  });
  await bridge.call("skill.invoke", { skill_id: "hostile", capability_id: "run", params: {} }).catch(() => {});
  await world.ask(allHostile);
  const task = await dispatch(bridge, "hostile", "run", { [hostile.name]: hostile.texts[0] }, { cap_id: "danger", cap_name: hostile.texts[0], description: allHostile, attributes: { floor: hostile.texts[1] }, value: hostile.texts, deadline_ms: 1000 });
  const seen = { ...world, task, cap: "danger", agent: hostile.name, skill: "hostile" };
  await fillAccess(world, allHostile.slice(0, 120));
  await fillCap(seen, allHostile.slice(0, 120));
  await fillRuns(seen, allHostile);
  const page = await open(browser, bridge);
  let alerted = false;
  page.on("dialog", (d) => ((alerted = true), d.dismiss()));
  for (const [name, address] of pages) {
    await page.goto(bridge.url + address(seen));
    await settled(page);
    const made = await page.evaluate(() => document.querySelectorAll("img, iframe, script:not([src*='assets/']), [onerror], [onload], a[href^='javascript']").length);
    assert.equal(made, 0, `${name} has made elements of text`);
    assert.equal(alerted, false, `${name} has run a script`);
    assert.deepEqual(page.problems, [], name);
  }
  await page.context().close();
});

test("nobody is in without a key; the cookie is the page's alone, and no secret is where a script can read it", async () => {
  const page = await open(browser, locked, "/agents");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByLabel("API key").fill("abk_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("That key is not good").waitFor();
  await page.getByLabel("API key").fill(locked.key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("No agents yet").waitFor();
  const [cookie] = await page.context().cookies();
  assert.equal(cookie.httpOnly, true);
  assert.equal(cookie.sameSite, "Strict");
  const readable = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href, document.documentElement.outerHTML]));
  assert.equal(readable.includes(locked.key), false, "the key is in the page");
  assert.equal(readable.includes(cookie.value), false, "the session is in the page");
  assert.equal(locked.log.join("").includes(locked.key) || locked.log.join("").includes(cookie.value), false, "a secret is in the log");
  await page.reload();
  await page.getByText("No agents yet").waitFor();
  await page.locator("details.who summary").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  const again = await fetch(`${locked.url}/session`, { headers: { Cookie: `${cookie.name}=${cookie.value}`, "Sec-Fetch-Site": "same-origin" } });
  assert.equal((await again.json()).signed_in, false);
  await page.context().close();
});

test("another site can neither frame the page nor act through it", async () => {
  const page = await open(browser, locked, "/");
  await page.getByLabel("API key").fill(locked.key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("nav.nav").waitFor();
  const [cookie] = await page.context().cookies();
  const shown = `${cookie.name}=${cookie.value}`;
  const body = { method: "POST", headers: { "Content-Type": "application/json", Cookie: shown }, body: "{}" };
  for (const [site, headers] of [["cross-site", { "Sec-Fetch-Site": "cross-site", Origin: "https://evil.example" }], ["same-site", { "Sec-Fetch-Site": "same-site", Origin: "http://127.0.0.1:1" }], ["none told", {}]]) {
    const got = await fetch(`${locked.url}/api/v1/commands/agent.list`, { ...body, headers: { ...body.headers, ...headers } });
    assert.ok([401, 403].includes(got.status), `${site}: ${got.status}`);
  }
  const evil = createServer((_, res) => {
    res.setHeader("Content-Type", "text/html");
    res.end(`<iframe src="${locked.url}/approvals"></iframe>`);
  });
  await new Promise((done) => evil.listen(0, "127.0.0.1", done));
  const other = await page.context().newPage();
  await other.goto(`http://127.0.0.1:${evil.address().port}/`);
  await until("the refusal", async () => other.frames().length > 1);
  const framed = await other.frames()[1].evaluate(() => document.querySelector("#app") !== null).catch(() => false);
  assert.equal(framed, false, "the page is framed");
  evil.close();
  await page.context().close();
});

test("what a person may not do is not offered, and refused if forged", async () => {
  const { key } = await locked.call("key.create", { principal_id: "watcher", kind: "operator", roles: ["observer"] });
  const page = await open(browser, locked, "/approvals");
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText(/Nothing waits/).first().waitFor();
  const refused = await page.evaluate(async () => {
    const answer = await fetch("api/v1/commands/key.list", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
    return (await answer.json()).error?.code;
  });
  assert.equal(refused, "2003");
  await absent(page.getByRole("button", { name: "Kick" }));
  await page.context().close();
});

test("revoking the key takes everything off the screen", async () => {
  const made = await locked.call("key.create", { principal_id: "anna", kind: "operator", roles: ["operator"] });
  const page = await open(browser, locked, "/agents");
  await page.getByLabel("API key").fill(made.key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("No agents yet").waitFor();
  await page.getByText("live", { exact: true }).waitFor();
  await locked.call("key.revoke", { key_id: made.key_id });
  await page.getByText("Your session has ended.").waitFor();
  await absent(page.locator("nav.nav"));
  assert.equal((await page.evaluate(async () => (await (await fetch("session")).json()).signed_in)), false);
  await page.context().close();
});
