// Screenshots of every page, in light, dark and at 375 px: make console-shots.
import { mkdirSync } from "node:fs";
import path from "node:path";
import { open, startBrowser } from "./bridge.mjs";
import { fillAccess, fillCap, fillRuns, startWorld } from "./world.mjs";
import { pages } from "./pages.mjs";

const dir = process.env.SHOTS ?? new URL("../shots", import.meta.url).pathname;
const only = process.argv.slice(2);
mkdirSync(dir, { recursive: true });
const [world, browser] = await Promise.all([startWorld(), startBrowser()]);
const first = await world.ask("Truck 4471 is early. Let it in.");
await world.bridge.call("approval.decide", { approval_id: first.approval.approval_id, nonce: first.approval.nonce, decision: "approve", reason: "the driver has called" });
await first.answer;
const second = await world.ask("And the next one.");
await world.bridge.call("approval.decide", { approval_id: second.approval.approval_id, nonce: second.approval.nonce, decision: "deny", reason: "no slot booked" });
await second.answer;
await world.bridge.call("skill.invoke", { skill_id: "door", capability_id: "state" });
for (const id of ["cold-store-1", "cold-store-2", "agv-04"]) await world.bridge.call("agent.register", { agent_id: id, type: "end_agent", name: id.replaceAll("-", " ") });
await fillAccess(world);
await fillRuns(world);
await fillCap(world);
await world.ask("Truck 4471 has a delivery slot at 02:20. Let it in when it stands at the ramp.");
for (const [name, address] of pages) {
  if (only.length && !only.includes(name)) continue;
  for (const [variant, options] of [["1440-light", {}], ["1440-dark", { colorScheme: "dark" }], ["375-light", { viewport: { width: 375, height: 800 } }]]) {
    const page = await open(browser, world.bridge, address(world), options);
    await page.locator("main h1:visible").first().waitFor();
    await page.waitForFunction(() => !document.querySelector("main [aria-busy=true]"));
    await page.waitForTimeout(300);
    await page.screenshot({ path: path.join(dir, `${name}-${variant}.png`) });
    await page.context().close();
  }
}
await browser.close();
await world.stop();
