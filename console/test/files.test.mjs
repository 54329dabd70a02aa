import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { open, startBridge, startBrowser, until } from "./bridge.mjs";
import { fillCap, putFile, startWorld } from "./world.mjs";
import { absent, shows } from "./sees.mjs";

let world, browser;
before(async () => {
  [world, browser] = await Promise.all([startWorld(), startBrowser()]);
  await fillCap(world, "", { scene: false });
});
after(async () => (await browser?.close(), await world?.stop()));

test("files are uploaded, got, brought back and deleted", async () => {
  const { bridge } = world;
  const page = await open(browser, bridge, "/files");
  await page.getByLabel("Name of the group").fill("notes");
  await page.getByRole("button", { name: "Go on" }).click();
  await page.waitForURL(/\/files\/notes\?upload=1/);
  await shows(page.locator(".strip code"), /aibridge vfs put FILE notes\/FILE/);
  const choose = page.getByLabel("Files to upload");
  const file = (name, text) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
  await choose.setInputFiles([file("one.txt", "first"), file("two.txt", "2")]);
  await page.getByText("stored, 5 B").waitFor();
  await choose.setInputFiles([file("one.txt", "second!")]);
  await page.getByText("stored, 7 B").waitFor();
  await page.getByRole("link", { name: "one.txt" }).click();
  const got = async (button) => {
    const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
    assert.equal(download.suggestedFilename(), "one.txt");
    return readFileSync(await download.path(), "utf8");
  };
  const downloads = page.getByRole("button", { name: "Download" });
  await page.getByText("2 kept").waitFor();
  assert.equal(await got(downloads.first()), "second!");
  assert.equal(await got(downloads.nth(1)), "first");
  await page.getByRole("button", { name: "Bring back" }).click();
  await page.getByRole("button", { name: "Bring it back" }).click();
  await page.getByText("3 kept").waitFor();
  assert.equal(await got(downloads.first()), "first");
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  await until("its going", async () => (await page.getByRole("link", { name: "one.txt" }).count()) === 0);
  await page.getByLabel("deleted ones, too").check();
  await page.getByRole("link", { name: "one.txt" }).click();
  await page.getByRole("button", { name: "Bring back" }).first().click();
  await page.getByRole("button", { name: "Bring it back" }).click();
  await page.getByText("5 kept").waitFor();
  assert.deepEqual((await bridge.call("vfs.list", { group_name: "notes" })).files.map((f) => f.path), ["one.txt", "two.txt"]);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("an upload that is refused says why, and is sent again", async () => {
  const page = await open(browser, world.bridge, "/files/plans/2026?upload=1");
  const file = { name: "WEEK 47", mimeType: "text/plain", buffer: Buffer.from("in the way") };
  await page.getByLabel("Files to upload").setInputFiles([file]);
  await page.locator(".sending .failed").getByText("3002").waitFor();
  for (const name of ["monday.txt", "tuesday.txt"]) await world.bridge.call("vfs.delete", { group_name: "plans", path: `2026/week 47/${name}` });
  await page.getByRole("button", { name: "Again" }).click();
  await page.getByText("stored, 10 B").waitFor();
  await page.context().close();
});

test("folders are walked by the keyboard, and an address leads back", async () => {
  await putFile(world.bridge, "deep", "a/b/c.txt", "deep");
  const page = await open(browser, world.bridge, "/files/deep");
  await page.getByRole("link", { name: "a/" }).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/files\/deep\/a$/);
  await page.getByRole("link", { name: "b/" }).click();
  await page.getByRole("link", { name: "c.txt" }).click();
  await page.waitForURL(/\/files\/deep\/a\/b\?file=c\.txt$/);
  await page.reload();
  await page.getByRole("button", { name: "Download" }).waitFor();
  await page.keyboard.press("Escape");
  await page.waitForURL(/\/files\/deep\/a\/b$/);
  await page.keyboard.press("Escape");
  await page.waitForURL(/\/files\/deep\/a$/);
  await page.goto(`${world.bridge.url}/files/nothing`);
  await page.getByText("This group has no files").waitFor();
  await page.context().close();
});

test("what is behind says why; a copy that lost is brought back; a mirror pauses and goes on", async () => {
  const { bridge, cap } = world;
  const page = await open(browser, bridge, "/files?tab=sync&show=behind");
  await page.getByText("1 device behind").waitFor();
  await page.getByRole("link", { name: cap }).click();
  await page.getByText("no space left in the folder").waitFor();
  await page.getByRole("button", { name: "Bring back disk/rota.txt" }).first().click();
  await page.getByRole("button", { name: "Bring it back" }).click();
  const content = async () => (await bridge.call("vfs.sync.from", { group_name: "cap", files: [`${cap}/disk/rota.txt`] })).files[0].content;
  await until("the copy that lost", async () => (await content()) === "Monday: Ada");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await page.getByRole("heading", { name: /dock.*paused/ }).waitFor();
  await bridge.call("cap.vfs.sync", { cap_id: cap, vfs_path: `/vfs/cap/${cap}/disk/rota.txt`, content: "Monday: Cy" });
  await page.getByText(/1 file behind/).waitFor();
  await page.getByRole("button", { name: "Go on" }).click();
  await until("what waited", async () => (await content()) === "Monday: Cy");
  await page.getByRole("button", { name: "Look at everything" }).click();
  await page.getByText("looked at anew").waitFor();
  await page.getByRole("heading", { name: /dock.*synced/ }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("who looks on sees no way to change files", async () => {
  const locked = await startBridge({ dev: false });
  try {
    const { key } = await locked.call("key.create", { principal_id: "watcher", kind: "operator", roles: ["observer"] });
    await putFile(locked, "secrets", "plan.txt", "shown");
    const page = await open(browser, locked, "/files");
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "secrets" }).waitFor();
    await absent(page.getByText("Begin a group"));
    await page.goto(`${locked.url}/files/secrets`);
    await page.getByRole("heading", { name: "secrets" }).waitFor();
    await absent(page.getByRole("button", { name: /Upload/ }));
    await page.goto(`${locked.url}/files?tab=sync`);
    await page.getByText("Nothing is mirrored").waitFor();
    await page.context().close();
  } finally {
    await locked.stop();
  }
});
