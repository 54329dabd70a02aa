import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { open, startBridge, startBrowser } from "./bridge.mjs";

let bridge, browser;
before(async () => { [bridge, browser] = await Promise.all([startBridge(), startBrowser()]); });
after(async () => {
  await browser?.close();
  await bridge?.stop();
});

test("the documentation is found by an error code, and its policy holds", async () => {
  const page = await open(browser, bridge, "/docs");
  await page.getByRole("heading", { level: 1, name: "AI Bridge" }).waitFor();
  assert.equal(await page.getByRole("main").locator("img").evaluate((i) => i.decode().then(() => i.naturalWidth > 0)), true);
  await page.keyboard.press("/");
  await page.keyboard.type("4012");
  await page.getByRole("link", { name: "Troubleshooting: By code" }).click();
  await page.waitForURL(/\/docs\/troubleshooting\.html#by-code$/);
  await page.getByRole("cell", { name: "outcome unknown" }).waitFor();
  await page.getByRole("searchbox").fill("zzqxjv");
  await page.getByText("No section has all these words.").waitFor();
  await page.getByRole("searchbox").press("Escape");
  await page.getByText("No section has all these words.").waitFor({ state: "hidden" });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
