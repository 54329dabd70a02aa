// The JavaScript SDK in a browser, over WebSocket: a device and a caller.
import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { startBridge, startBrowser, patience } from "./bridge.mjs";

const sdk = fileURLToPath(new URL("../../sdk/js/", import.meta.url));
const mqtt = sdk + "node_modules/mqtt/dist/mqtt.esm.js";

const device = `<!doctype html><meta charset="utf-8"><title>a device</title>
<script type="importmap">{"imports":{"mqtt":"/mqtt.js"}}</script>
<script type="module">
import { Agent, Client, NotFound, integer } from "/sdk/index.js";
const url = new URLSearchParams(location.search).get("bridge");
const agent = new Agent("page-lamp", { url });
let level = 0;
agent.capability("set_level", { description: "Set the level", params: { level: integer({ min: 0, max: 100 }) } }, ({ level: wanted }, call) => {
  call.progress(50, "dimming");
  document.title = "level " + (level = wanted);
  return { level };
});
window.stop = () => agent.stop?.();
window.running = agent.run();
window.ask = async () => {
  const bridge = new Client(url);
  try {
    const set = await bridge.invoke("page-lamp", "set_level", { level: 70 });
    const refused = await bridge.call("agent.get", { agent_id: "nobody" }).then(() => "found", (e) => (e instanceof NotFound ? e.code : String(e)));
    return { set, refused };
  } finally {
    await bridge.close();
  }
};
</script>`;

let bridge, browser, pages;
before(async () => {
  if (!existsSync(mqtt)) throw new Error("MQTT.js is not installed: run npm ci in sdk/js");
  pages = createServer((request, answer) => {
    const path = new URL(request.url, "http://page").pathname;
    const file = path === "/mqtt.js" ? mqtt : /^\/sdk\/[a-z]+\.js$/.test(path) ? `${sdk}dist/${path.slice(5)}` : "";
    if (file && !existsSync(file)) return answer.writeHead(404).end();
    answer.writeHead(200, { "Content-Type": file ? "text/javascript" : "text/html" }).end(file ? readFileSync(file) : device);
  });
  await new Promise((listening) => pages.listen(0, "127.0.0.1", listening));
  [bridge, browser] = await Promise.all([startBridge(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await bridge?.stop();
  pages?.closeAllConnections();
  await new Promise((closed) => (pages ? pages.close(closed) : closed()));
});

test("a page is a device, and calls one", async () => {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  const problems = [];
  page.on("pageerror", (e) => problems.push(String(e)));
  await page.goto(`http://127.0.0.1:${pages.address().port}/?bridge=${encodeURIComponent(`ws://${bridge.ws}/mqtt`)}`);
  const until = Date.now() + patience;
  let result;
  while (!result) { // until the device is online
    try {
      result = await bridge.call("skill.invoke", { skill_id: "page-lamp", capability_id: "set_level", params: { level: 40 } });
    } catch (e) {
      if (Date.now() > until || problems.length) throw new Error(`${e.message}; the page says ${problems}`);
      await new Promise((r) => setTimeout(r, 50));
    }
  }
  assert.deepEqual(result.data, { level: 40 });
  assert.equal(await page.title(), "level 40");
  await assert.rejects(bridge.call("skill.invoke", { skill_id: "page-lamp", capability_id: "set_level", params: { level: 400 } }), { code: "1001" });
  const asked = await page.evaluate("ask()");
  assert.deepEqual(asked, { set: { level: 70 }, refused: "3001" });
  assert.deepEqual(problems, []);
  await page.close();
});
