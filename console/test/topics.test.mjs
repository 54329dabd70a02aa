import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { open, startBridge, startBrowser, until } from "./bridge.mjs";
import { absent, counts, shows, submit } from "./sees.mjs";

const mqtt = createRequire(import.meta.url)("mqtt");

let bridge, browser, device;
before(async () => {
  [bridge, browser] = await Promise.all([startBridge(), startBrowser()]);
  device = await mqtt.connectAsync(`mqtt://${bridge.mqtt}`, { protocolVersion: 5, clientId: "hall-sensor" });
});
after(async () => {
  await device?.endAsync();
  await browser?.close();
  await bridge?.stop();
});

const say = (topic, value, o = {}) => device.publishAsync(topic, typeof value === "string" || Buffer.isBuffer(value) ? value : JSON.stringify(value), { qos: 1, ...o });
const row = (page, name) => page.getByRole("treeitem").filter({ has: page.getByText(name, { exact: true }) });

test("a topic appears with its last value, what changed in it, and a chart", async () => {
  await say("hall/b/temperature", { data_value: 4.2, unit: "C" }, { retain: true, properties: { contentType: "application/json", userProperties: { node: "b" } } });
  const page = await open(browser, bridge, "/topics?topic=hall/b/temperature");
  await row(page, "temperature").getByText('{"data_value":4.2').waitFor();
  await row(page, "temperature").getByText("retained").waitFor();
  await say("hall/b/temperature", { data_value: 4.3, unit: "C" }, { retain: true, properties: { contentType: "application/json", userProperties: { node: "b" } } });
  await page.locator("ins").getByText("4.3").waitFor();
  await page.locator("del").getByText("4.2").waitFor();
  await page.getByRole("img", { name: /data_value: 2 values from 4.2 to 4.3/ }).waitFor();
  await page.getByText("application/json").waitFor();
  await page.getByRole("group", { name: "View" }).getByText("Hex").click();
  await page.getByText("0000  7b 22 64").waitFor();
  assert.match(page.url(), /view=hex/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("CBOR and bytes are told apart and shown", async () => {
  await say("bytes/cbor", Buffer.from("a2617818ff6179820102", "hex"), { retain: true });
  await say("bytes/raw", Buffer.from("ff00fe01", "hex"), { retain: true });
  const page = await open(browser, bridge, "/topics?topic=bytes/cbor&find=bytes");
  await row(page, "cbor").getByText('{"x":255,"y":[1,2]}').waitFor();
  await row(page, "raw").getByText("binary, 4 B").waitFor();
  await page.getByRole("button", { name: "CBOR" }).first().waitFor();
  await counts(page.getByRole("treeitem"), 3);
  await page.context().close();
});

test("publishing with properties reaches a device, and a wrong payload is said", async () => {
  const page = await open(browser, bridge, "/topics");
  await page.getByRole("tree").or(page.getByText("Nothing has spoken yet")).waitFor();
  const came = new Promise((done) => device.on("message", (topic, payload, packet) => topic === "lamp/set" && done({ payload, packet })));
  await device.subscribeAsync("lamp/set", { qos: 1 });
  await page.keyboard.press("p");
  await page.keyboard.type("lamp/set");
  await page.getByLabel("Payload", { exact: true }).fill('{"state":');
  await page.getByRole("group", { name: "Payload as" }).getByText("CBOR").click();
  await page.getByText("Properties", { exact: true }).click();
  await page.getByLabel(/^Expires/).fill("60");
  await page.getByLabel("Response topic").fill("lamp/answer");
  await page.getByLabel(/^User properties/).fill("room=hall");
  await page.getByText("Policy lets you publish here").waitFor();
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.getByText(/This is not JSON/).waitFor();
  await page.getByLabel("Payload", { exact: true }).fill('{"state":"ON"}');
  await submit(page);
  const { payload, packet } = await came;
  assert.equal(payload.toString("hex"), "a1657374617465624f4e");
  assert.equal(packet.properties.contentType, "application/cbor");
  assert.equal(packet.properties.responseTopic, "lamp/answer");
  assert.ok(packet.properties.messageExpiryInterval <= 60);
  assert.equal(packet.properties.userProperties.room, "hall");
  await page.locator(".published").getByText("taken").waitFor();
  await shows(page.locator(".strip code"), /mosquitto_pub .* -q 1 -t lamp\/set .*response-topic lamp\/answer/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the keyboard moves, opens, closes and holds still", async () => {
  await say("keys/one/a", "1", { retain: true });
  await say("keys/two/b", "2", { retain: true });
  const page = await open(browser, bridge, "/topics?filter=keys/%23");
  await row(page, "one").waitFor();
  await page.getByRole("tree").focus();
  await page.keyboard.press("ArrowDown"); // one
  await page.keyboard.press("ArrowRight"); // opened
  await row(page, "a").waitFor();
  await page.keyboard.press("ArrowRight"); // a
  await page.keyboard.press("Enter");
  await page.waitForURL(/topic=keys%2Fone%2Fa/);
  await page.keyboard.press(" ");
  await page.getByText(/Held still since/).waitFor();
  await say("keys/one/a", "99", { retain: true });
  await page.keyboard.press(" ");
  await say("keys/one/a", "100", { retain: true });
  await page.locator("ins").getByText("100").waitFor();
  await page.context().close();
});

test("a retained value is cleared, after the page has asked", async () => {
  await say("old/news", "stale", { retain: true });
  const page = await open(browser, bridge, "/topics?filter=old/%23&topic=old/news");
  await page.getByRole("button", { name: "Clear retained…" }).click();
  await page.getByRole("button", { name: "Clear it" }).click();
  await page.getByText("The payload is empty.").waitFor();
  await absent(row(page, "news").getByText("retained"));
  await page.context().close();
});

test("who may not hear a filter, or publish, is told so", async () => {
  const locked = await startBridge({ dev: false });
  try {
    const { key } = await locked.call("key.create", { principal_id: "visitor", kind: "agent", roles: ["end_agent"] });
    const page = await open(browser, locked, "/topics");
    await page.getByLabel("API key").fill(key);
    await page.keyboard.press("Enter");
    await page.getByText("The bridge refused the filter #").waitFor();
    await page.getByLabel("Topic", { exact: true }).fill("aibridge/agent/lamp-2/request");
    await page.getByLabel("Payload", { exact: true }).fill("x");
    await page.getByRole("button", { name: "Publish", exact: true }).click();
    await page.locator(".published span.failed").waitFor();
    await page.context().close();
  } finally {
    await locked.stop();
  }
});

test("only who the request says it is gets in", async () => {
  const locked = await startBridge({ dev: false });
  try {
    const answer = await fetch(locked.url + "/mqtt");
    assert.equal(answer.status, 426);
    const refused = await new Promise((done) => {
      const client = mqtt.connect(locked.url.replace("http", "ws") + "/mqtt", { protocolVersion: 5, reconnectPeriod: 0 });
      client.on("connect", () => (client.end(true), done(false)));
      client.on("error", () => done(true));
      client.on("close", () => done(true));
    });
    assert.ok(refused);
  } finally {
    await locked.stop();
  }
});
