import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { open, startBrowser } from "./bridge.mjs";
import { fillAccess, fillCap, fillRuns, startWorld } from "./world.mjs";
import { pages } from "./pages.mjs";

const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

let world, browser;
before(async () => {
  [world, browser] = await Promise.all([startWorld(), startBrowser()]);
  await world.ask();
  await fillAccess(world);
  await fillRuns(world);
  await fillCap(world);
});
after(async () => (await browser?.close(), await world?.stop()));

/** Waits until the page shows something that is not a promise of it. */
async function settled(page) {
  await page.locator("main h1:visible").first().waitFor();
  await page.waitForFunction(() => !document.querySelector("main [aria-busy=true]"));
}

for (const [name, address] of pages)
  test(`${name} is accessible, in light, dark and on a phone`, async () => {
    for (const options of [{}, { colorScheme: "dark" }, { viewport: { width: 375, height: 800 } }]) {
      // axe is put into the page by the debugger, past the policy of the page.
      const page = await open(browser, world.bridge, address(world), { bypassCSP: true, ...options });
      await settled(page);
      await page.setViewportSize({ width: page.viewportSize().width, height: 3000 }); // nothing is behind the strip
      await page.evaluate(axe);
      const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
      assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")} ${v.nodes[0].failureSummary}`), []);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `${name} scrolls sideways`);
      assert.deepEqual(page.problems, []);
      await page.context().close();
    }
  });
