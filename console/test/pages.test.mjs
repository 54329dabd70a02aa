import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { open, startBrowser } from "./bridge.mjs";
import { fillAccess, fillCap, fillRuns, startWorld } from "./world.mjs";
import { pages } from "./pages.mjs";
import { settled } from "./sees.mjs";

const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

let world, browser, desk, phone;
before(async () => {
  [world, browser] = await Promise.all([startWorld(), startBrowser()]);
  await world.ask();
  await fillAccess(world);
  await fillRuns(world);
  await fillCap(world);
  // axe is put into the page by the debugger, past the policy of the page.
  const opened = (o) => open(browser, world.bridge, "/", { bypassCSP: true, ...o });
  [desk, phone] = await Promise.all([opened(), opened({ viewport: { width: 375, height: 800 } })]);
});
after(async () => (await browser?.close(), await world?.stop()));

/** Goes to an address in an open page: a new one costs the browser a process. */
async function goTo(page, address) {
  page.problems.length = 0;
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: page.viewportSize().width, height: 800 });
  await page.goto(world.bridge.url + address);
  await settled(page);
  await page.setViewportSize({ width: page.viewportSize().width, height: 3000 }); // nothing is behind the strip
  await page.evaluate(axe);
}

async function isAccessible(page, name) {
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
  assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")} ${v.nodes[0].failureSummary}`), []);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `${name} scrolls sideways`);
  assert.deepEqual(page.problems, []);
}

for (const [name, address] of pages)
  test(`${name} is accessible, in light, dark and on a phone`, async () => {
    await goTo(desk, address(world));
    await isAccessible(desk, name);
    await desk.emulateMedia({ colorScheme: "dark" });
    await isAccessible(desk, name);
    await goTo(phone, address(world));
    await isAccessible(phone, name);
  });
