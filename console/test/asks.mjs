// How many commands each page asks a minute: of a bridge where nothing happens,
// and of one where agents come and go and a task tells of its progress. Run by
// hand: node test/asks.mjs [page …]
import { open, startBrowser } from "./bridge.mjs";
import { fillAccess, fillCap, startWorld } from "./world.mjs";
import { pages } from "./pages.mjs";

const only = process.argv.slice(2);
const seconds = Number(process.env.SECONDS ?? 20);
const [world, browser] = await Promise.all([startWorld(), startBrowser()]);
await fillAccess(world);
await fillCap(world, "", { scene: false });
await world.ask();

/** Opens pages at once, counts what they ask after they have settled. */
async function count(busy) {
  const found = new Map();
  for (const [name, address] of pages.filter(([name]) => !only.length || only.includes(name))) {
    let asked = {}, on = false;
    const page = await open(browser, world.bridge, address(world), {
      prepare: (page) => page.on("websocket", (ws) => ws.on("framesent", ({ payload }) => {
        if (!on || typeof payload !== "string") return;
        const { command } = JSON.parse(payload);
        asked[command] = (asked[command] ?? 0) + 1;
      })),
    });
    await page.waitForFunction(() => !document.querySelector("main [aria-busy=true]"));
    await page.waitForTimeout(1500);
    on = true;
    const until = Date.now() + seconds * 1000;
    while (Date.now() < until) await (busy ? happen() : page.waitForTimeout(until - Date.now()));
    const minute = Object.entries(asked).map(([c, n]) => [c, Math.round((n * 60) / seconds)]).sort((a, b) => b[1] - a[1]);
    found.set(name, minute);
    await page.context().close();
  }
  return found;
}

let n = 0;
/** Ten agents a second come and go, five values a second are set, audited commands run. */
async function happen() {
  const { bridge, cap, group } = world;
  const id = `guest-${n++ % 50}`;
  await bridge.call("agent.register", { agent_id: id, type: "end_agent", name: "A guest" });
  await bridge.call("group.data.set", { cap_id: cap, group_id: group, data_key: "noise", data_type: "number", data_value: n });
  await bridge.call("skill.invoke", { skill_id: "door", capability_id: "state" });
  await bridge.call("agent.unregister", { agent_id: id });
  if (n % 5 === 0) await bridge.call("group.dispatch", { cap_id: cap, group_id: group, capability_id: "state", target: { role: "gate" }, deadline_ms: 5000 });
  await new Promise((r) => setTimeout(r, 100));
}

for (const busy of [false, true]) {
  console.log(busy ? "\nwhile much happens" : "while nothing happens");
  for (const [name, list] of await count(busy)) console.log(`${name.padEnd(22)} ${String(list.reduce((sum, [, k]) => sum + k, 0)).padStart(4)}   ${list.map(([c, k]) => `${c} ${k}`).join(", ")}`);
}
await browser.close();
await world.stop();
