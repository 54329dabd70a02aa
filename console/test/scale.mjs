// How smooth the console is with 100 000 agents and 50 000 topics: time of its
// frames while one scrolls, types and looks on, what it fetches, and its memory.
// Run by hand: node test/scale.mjs [agents [topics]]
import { createRequire } from "node:module";
import { open, startBridge, startBrowser, until } from "./bridge.mjs";

const require = createRequire(import.meta.url);
const WebSocket = require("ws");
const mqtt = require("mqtt");
const [agents, topics] = [Number(process.argv[2] ?? 100_000), Number(process.argv[3] ?? 50_000)];

const bridge = await startBridge({ more: JSON.parse(process.env.FLAGS ?? "[]") });
const browser = await startBrowser();

/** Registers agents over one WebSocket, so many at a time. */
function register(from, to) {
  return new Promise((done, failed) => {
    const ws = new WebSocket(`ws://${bridge.ws}/ws`);
    let next = from, open = 0;
    const more = () => {
      for (; open < 64 && next < to; open++, next++) {
        const agent_id = `device-${String(next).padStart(6, "0")}`;
        ws.send(JSON.stringify({ version: "0.6.3", id: agent_id, timestamp: Date.now(), type: "request", command: "agent.register", params: { agent_id, type: "end_agent", name: `Device ${next} in hall ${next % 40}` }, metadata: { timeout: 600000 } }));
      }
      if (open === 0) (ws.close(), done());
    };
    ws.on("open", more);
    ws.on("error", failed);
    ws.on("message", (text) => {
      const { error } = JSON.parse(text);
      if (error) return failed(new Error(JSON.stringify(error)));
      open--;
      more();
    });
  });
}

async function timed(what, work) {
  const began = Date.now();
  const result = await work();
  console.log(`${what}: ${((Date.now() - began) / 1000).toFixed(1)} s`);
  return result;
}

/** Counts what a page receives over its WebSockets. */
const meter = (page) => {
  const m = { bytes: 0, frames: 0 };
  page.on("websocket", (ws) => ws.on("framereceived", ({ payload }) => ((m.bytes += payload.length), m.frames++)));
  return m;
};

/** What the page does with its thread, in ms of the script, of styles and of layout. */
async function meterTime(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const read = async () => Object.fromEntries((await session.send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value]));
  const from = await read();
  return async () => {
    const to = await read();
    await session.detach();
    return ["ScriptDuration", "RecalcStyleDuration", "LayoutDuration"].map((n) => Math.round(1000 * (to[n] - from[n]))).join(" / ");
  };
}

/** Frame times while something goes on, in ms: from one drawn frame to the next. */
async function frames(page, what, m, work) {
  const before = { ...m };
  const spent = await meterTime(page);
  await page.evaluate(() => {
    const times = (window.frameTimes = []);
    let last = performance.now();
    const step = (now) => (times.push(now - last), (last = now), (window.frameStep = requestAnimationFrame(step)));
    window.frameStep = requestAnimationFrame(step);
  });
  await work();
  const times = (await page.evaluate(() => (cancelAnimationFrame(window.frameStep), window.frameTimes))).sort((a, b) => a - b);
  const at = (p) => times[Math.min(times.length - 1, Math.floor(p * times.length))].toFixed(1);
  const cpu = await spent();
  const heap = await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0);
  console.log(`| ${what} | ${times.length} | ${at(0.5)} | ${at(0.99)} | ${at(1)} | ${times.filter((t) => t > 50).length} | ${cpu} | ${((m.bytes - before.bytes) / 1000).toFixed(0)} | ${(heap / 1e6).toFixed(0)} |`);
}

const scroll = (page, box, steps = 120) => async () => {
  await page.locator(box).first().hover();
  for (let i = 0; i < steps; i++) await page.mouse.wheel(0, 400);
};
const type = (page, label, text) => async () => {
  await page.getByLabel(label).pressSequentially(text, { delay: 60 });
  await page.waitForTimeout(1500);
};

const device = await mqtt.connectAsync(`mqtt://${bridge.mqtt}`, { protocolVersion: 5, clientId: "teller" });
try {
  await timed(`${agents} agents registered`, () => Promise.all([0, 1, 2, 3].map((i) => register((i * agents) / 4, ((i + 1) * agents) / 4))));
  await timed(`${topics} topics retained`, async () => {
    for (let i = 0; i < topics; ) {
      const some = [];
      for (let k = 0; k < 500 && i < topics; k++, i++) some.push(device.publishAsync(`site/${i % 20}/hall/${i % 400}/sensor-${i}`, JSON.stringify({ celsius: (i % 300) / 10 }), { qos: 1, retain: true }));
      await Promise.all(some);
    }
  });

  console.log("\n| what | frames | p50 ms | p99 ms | slowest ms | over 50 ms | script / style / layout ms | kB received | heap MB |\n|---|---|---|---|---|---|---|---|---|");
  {
    let found;
    const page = await open(browser, bridge, "/agents", { prepare: (p) => (found = meter(p)) });
    await page.getByText(/of 100.?000|of \d/).first().waitFor();
    await frames(page, "agents: first page, looking on", found, () => page.waitForTimeout(3000));
    await frames(page, "agents: scrolling through 1 000s", found, scroll(page, ".rows"));
    await frames(page, "agents: typing a filter", found, type(page, "Find by id or name", "hall 17"));
    let go = true;
    const churn = (async () => {
      for (let i = 0; go; i++) {
        await bridge.call("agent.register", { agent_id: `guest-${i % 20}`, type: "end_agent", name: "guest" });
        await bridge.call("agent.unregister", { agent_id: `guest-${i % 20}` });
      }
    })();
    await page.goto(`${bridge.url}/agents`);
    await page.getByText(/of \d/).first().waitFor();
    await frames(page, "agents: while others come and go", found, () => page.waitForTimeout(5000));
    go = false;
    await churn;
    await page.context().close();
  }
  {
    let found;
    const page = await open(browser, bridge, "/topics?filter=site/%23", { prepare: (p) => (found = meter(p)) });
    await timed("topics: all in the tree", () => until("all topics", async () => (await page.locator("h1").innerText()).replace(/\D/g, " ").split("  ")[0].replaceAll(" ", "").startsWith(String(topics))));
    await frames(page, "topics: looking on", found, () => page.waitForTimeout(3000));
    let go = true, said = 0;
    const churn = (async () => {
      while (go) {
        await Promise.all(Array.from({ length: 100 }, () => device.publishAsync(`site/${said % 20}/hall/${said % 400}/sensor-${said++ % topics}`, JSON.stringify({ celsius: said % 40 }), { qos: 1 })));
        await new Promise((r) => setTimeout(r, 100));
      }
    })();
    await frames(page, "topics: about 1 000 messages a second", found, () => page.waitForTimeout(5000));
    await frames(page, "topics: typing a filter meanwhile", found, type(page, "Find a topic", "sensor-4999"));
    await page.getByLabel("Find a topic").fill("");
    await page.waitForTimeout(1000);
    await frames(page, "topics: scrolling the tree meanwhile", found, scroll(page, ".tree"));
    go = false;
    await churn;
    await page.context().close();
  }
} finally {
  await device.endAsync();
  await browser.close();
  await bridge.stop();
}
