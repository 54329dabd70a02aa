// The parts of the SDK that need no bridge.
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { appendFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Agent, BridgeError, Busy, Client, FileMemory, InvalidParameter, NotFound, Token, boolean, integer, list, number, object, oneOf, record, text } from "@aibridge/client";
import { Capability } from "../dist/capability.js";
import { signingRequest } from "../dist/certificate.js";
import { decode } from "../dist/envelope.js";
import { dataType } from "../dist/groups.js";
import { Places } from "../dist/places.js";
import { check } from "../dist/schema.js";
import { covers } from "../dist/subscription.js";
import { Queue, backoff, pause } from "../dist/wait.js";

const bytes = (s) => new TextEncoder().encode(s);

function refused(schema, value, path) {
  assert.throws(() => check(schema.json, value, "params"), (e) => e instanceof InvalidParameter && e.details.param_name === path, JSON.stringify(value));
}

test("a schema is what the builders say", () => {
  const lamp = object({ level: integer({ min: 0, max: 100 }).describe("percent"), mode: oneOf("on", "off").optional() });
  assert.deepEqual(lamp.json, {
    type: "object",
    properties: { level: { type: "integer", minimum: 0, maximum: 100, description: "percent" }, mode: { enum: ["on", "off"] } },
    required: ["level"],
    additionalProperties: false,
  });
});

test("values are held to their schema, and the wrong one is named", () => {
  const schema = object({ n: integer({ min: 1, max: 3 }), tags: list(text({ max: 2, pattern: "^[a-z]+$" }), { max: 2 }).default([]), inner: object({ on: boolean() }).optional() });
  assert.deepEqual(check(schema.json, { n: 2 }, "params"), { n: 2, tags: [] });
  assert.deepEqual(check(schema.json, { n: 3, tags: ["ab"], inner: { on: true } }, "params"), { n: 3, tags: ["ab"], inner: { on: true } });
  for (const n of [0, 4, 1.5, "2", null, true, []]) refused(schema, { n }, "params.n");
  refused(schema, {}, "params.n");
  refused(schema, { n: 1, m: 1 }, "params.m");
  refused(schema, { n: 1, tags: ["a", "B"] }, "params.tags[1]");
  refused(schema, { n: 1, tags: ["abc"] }, "params.tags[0]");
  refused(schema, { n: 1, tags: ["a", "b", "c"] }, "params.tags");
  refused(schema, { n: 1, inner: { on: 1 } }, "params.inner.on");
  for (const value of [null, [], "x", 7]) refused(schema, value, "params");
  assert.throws(() => check({ anyOf: [{ type: "string" }, { type: "null" }] }, 7, "x"), InvalidParameter);
  assert.equal(check({ anyOf: [{ type: "string" }, { type: "null" }] }, null, "x"), null);
  assert.throws(() => check({ enum: [1, [2]] }, [3], "x"), InvalidParameter);
  assert.deepEqual(check({ enum: [1, [2]] }, [2], "x"), [2]);
  const named = check(record(number()).json, JSON.parse('{"__proto__":1,"constructor":2}'), "x");
  assert.deepEqual(Object.keys(named), ["__proto__", "constructor"]);
});

test("an envelope is an object in JSON and UTF-8, and nothing else", () => {
  assert.deepEqual(decode(bytes('{"id":"ü"}')), { id: "ü" });
  for (const wrong of ["", "[]", "7", "null", "{", '{"id":"\\ud800"}', "\ufeff{}", '{"a":'.repeat(70) + "1" + "}".repeat(70), "[".repeat(100_000)]) {
    assert.equal(decode(bytes(wrong)), undefined, wrong.slice(0, 20));
  }
  assert.equal(decode(new Uint8Array([0x7b, 0xff, 0x7d])), undefined);
});

test("an error is of the class of its code", () => {
  const busy = BridgeError.fromWire({ code: "4008", message: "later", details: { retry_after_ms: 20 } });
  assert.ok(busy instanceof Busy && busy.retry === "after retry_after_ms" && busy.retryAfter === 20);
  assert.equal(BridgeError.fromWire({ code: "7001", message: "own" }).code, "7001");
  assert.equal(BridgeError.fromWire("in words").code, "5000");
  assert.equal(new NotFound("nobody").name, "NotFound");
});

test("a filter covers topics by the rules of MQTT", () => {
  for (const [filter, topic] of [["a/+", "a/b"], ["a/#", "a"], ["#", "a/b"], ["a/+/c", "a//c"]]) assert.ok(covers(filter, topic), `${filter} ${topic}`);
  for (const [filter, topic] of [["a/+", "a"], ["a", "a/b"], ["a/b", "a"], ["+/b", "$x/b"], ["#", "$SYS/a"]]) assert.ok(!covers(filter, topic), `${filter} ${topic}`);
});

test("one caller does not take all places", () => {
  const places = new Places(8);
  const [first] = [places.take("a"), places.take("a")];
  assert.equal(places.take("a"), undefined);
  assert.ok(places.take("b"));
  first();
  assert.ok(places.take("a"));
});

test("calls are remembered over restarts, whatever a crash leaves", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "memory-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const first = new FileMemory(folder, "../lamp");
  first.begin("done", "t");
  first.answer("done", "{}");
  first.begin("begun", undefined);
  first.begin("rejected", undefined);
  first.forget("rejected");
  first.answer("unknown", "{}");
  first.close();
  const [file] = readdirSync(folder);
  appendFileSync(join(folder, file), '{"id":"torn","tr');
  const second = new FileMemory(folder, "../lamp");
  assert.deepEqual(second.load().map(({ id, answer }) => [id, answer]), [["done", "{}"], ["begun", undefined]]);
  for (let i = 0; i < 1200; i++) second.begin(`call-${i}`, undefined);
  second.close();
  const third = new FileMemory(folder, "../lamp");
  assert.equal(third.load().length, 1024);
  assert.equal(third.load().at(-1).id, "call-1199");
  third.close();
});

test("a signing request is DER of the length that it says", () => {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const der = Buffer.from(signingRequest(privateKey).split("\n").slice(1, -2).join(""), "base64");
  assert.equal(der[0], 0x30);
  assert.equal(der[1] === 0x81 ? der[2] + 3 : (der[2] << 8) + der[3] + 4, der.length);
});

test("a token is renewed when a newer one is there", async () => {
  const token = (exp) => ["h", Buffer.from(JSON.stringify({ exp })).toString("base64url"), "s"].join(".");
  const now = Math.floor(Date.now() / 1000);
  let shown = token(now + 3600);
  const credential = new Token(() => shown);
  assert.equal((await credential.login()).username, "jwt");
  assert.ok(credential.due() > 0 && credential.due() <= 3600 * 800);
  assert.equal(await credential.renew(), false);
  shown = token(now + 7200);
  assert.equal(await credential.renew(), true);
  assert.equal(new Token("opaque").due(), undefined);
});

test("waiting ends when it is told to", async () => {
  const over = new AbortController();
  const waiting = pause(3_600_000, over.signal);
  over.abort();
  assert.equal(await waiting, false);
  assert.equal(await pause(0), true);
  const queue = new Queue();
  assert.equal(await queue.take(1), undefined);
  queue.put(1);
  assert.equal(await queue.take(), 1);
  for (let n = 1; n < 40; n++) assert.ok(backoff(n, 5000) <= 5000 && backoff(n, 5000) > 0);
});

test("a capability says which calls are the same deed", () => {
  const about = { effectKey: "door:{door}", effectWindowMs: 5000, reconcile: { capability: "state", params: { door: "{door}" }, doneWhen: { locked: false } } };
  const { effect_key, effect_window_ms, reconcile } = JSON.parse(JSON.stringify(new Capability("unlock", about, () => {}).describe()));
  assert.deepEqual([effect_key, effect_window_ms, reconcile], ["door:{door}", 5000, { capability_id: "state", params: { door: "{door}" }, done_when: { locked: false } }]);
});

test("mistakes of the program are told at once", async () => {
  assert.throws(() => new Client("http://127.0.0.1"), InvalidParameter);
  const agent = new Agent("lamp").capability("on", () => {});
  assert.throws(() => agent.capability("on", () => {}), TypeError);
  await assert.rejects(new Agent("empty").start(), TypeError);
});

test("values have the types that a group knows", () => {
  assert.deepEqual([1, 1.5, "a", true, [], {}, null].map(dataType), ["integer", "number", "string", "boolean", "array", "object", "object"]);
});
