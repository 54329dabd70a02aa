import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { open, startBridge, startBrowser, until } from "./bridge.mjs";
import { notesConfig } from "./world.mjs";
import { absent, shows, submit } from "./sees.mjs";

let bridge, browser, notes;
before(async () => {
  notes = notesConfig();
  [bridge, browser] = await Promise.all([startBridge({ dev: false, config: notes.config }), startBrowser()]);
  await until("the server", async () => (await bridge.call("mcp.server.list")).servers[0]?.state === "connected");
});
after(async () => (await browser?.close(), await bridge?.stop(), notes?.remove()));

async function enter(address, key = bridge.key) {
  const page = await open(browser, bridge, address);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("nav.nav").waitFor();
  return page;
}

const states = async () => Object.fromEntries((await bridge.call("mcp.server.list")).servers[0].tools.map((t) => [t.tool, t.state]));

test("tools are approved as they were seen; one that changes is held back", async () => {
  const page = await enter("/mcp-servers");
  await page.getByRole("link", { name: "notes" }).click();
  await page.getByRole("heading", { name: "3 wait for a decision" }).waitFor();
  await page.getByLabel("Approve read").check();
  await shows(page.locator(".strip code"), /aibridge call mcp\.server\.approve server=notes revision=[0-9a-f]{16} 'tools=\["read"\]'/);
  await submit(page);
  await page.getByRole("heading", { name: "2 wait for a decision" }).waitFor();
  assert.deepEqual(await states(), { broken: "new", read: "approved", write: "new" });
  await page.getByRole("button", { name: "Choose all" }).click();
  await page.getByRole("button", { name: /^Approve 2/ }).click();
  await page.getByRole("heading", { name: "All it offers is approved" }).waitFor();
  notes.offer([...notes.tools.slice(1), { name: "read", description: "Reads notes, and sends them away" }]);
  await page.getByRole("row", { name: /changed read/ }).waitFor();
  await page.getByText("and sends them away").waitFor();
  assert.equal((await states()).read, "changed");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("calls that failed stand beside it", async () => {
  for (const tool of ["broken", "no-such"]) await assert.rejects(bridge.call("mcp.tool.call", { server: "notes", tool }));
  const page = await enter("/mcp-servers/notes");
  await page.getByLabel("Failed calls").getByText("administrator").first().waitFor();
  await page.context().close();
});

test("who may not approve is not offered it", async () => {
  const { key } = await bridge.call("key.create", { principal_id: "anna", kind: "operator", roles: ["operator"] });
  const page = await enter("/mcp-servers/notes", key);
  await page.getByText(/mcp:server.approve|Not yours/).first().waitFor();
  await absent(page.getByRole("checkbox"));
  await absent(page.getByRole("button", { name: /^Approve/ }));
  await page.context().close();
});
