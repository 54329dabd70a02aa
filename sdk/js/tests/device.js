// A device under test: the contract of docs/sdk-conformance.md.
import { Agent, BridgeError, Rejected, any, integer, list, record, text } from "@aibridge/client";

const agent = new Agent(process.env.AIBRIDGE_AGENT_ID);
const term = integer({ min: -1000, max: 1000 });
const natural = integer({ min: 0 });
let runs = 0;

agent
  .skill("conformance")
  .capability("echo", { effect: "read", params: { value: any().optional() } }, ({ value }) => ({ value: value ?? null }))
  .capability("add", { effect: "read", params: { a: term, b: term } }, ({ a, b }) => ({ sum: a + b }))
  .capability("slow", { params: { ms: natural } }, async ({ ms }, call) => {
    await call.sleep(ms);
    return { slept_ms: ms };
  })
  .capability("progress", { params: { steps: integer({ min: 1 }), ms: natural.default(0) } }, async ({ steps, ms }, call) => {
    for (let step = 1; step <= steps; step++) {
      await call.sleep(ms);
      call.progress((100 * step) / steps, `step ${step} of ${steps}`);
    }
    return { steps };
  })
  .capability("stream", { params: { pieces: list(text()) } }, async ({ pieces }, call) => {
    for (const piece of pieces) await call.delta({ text: piece });
    return pieces.join("");
  })
  .capability("count", () => ({ count: ++runs }))
  .capability("fail", { params: { code: text().optional(), message: text().default(""), details: record(any()).default({}) } }, ({ code, message, details }) => {
    throw code ? new BridgeError(message, details, code) : new Error(message);
  })
  .capability("reject", { params: { reason: text().default("not now") } }, ({ reason }) => {
    throw new Rejected(reason);
  })
  .capability("fill", { params: { bytes: natural } }, ({ bytes }) => ({ text: "x".repeat(bytes) }))
  .capability("ask", { params: { command: text(), params: record(any()).default({}) } }, ({ command, params }, call) => call.bridge.call(command, params))
  .capability("ask_seen", { params: { command: text(), params: record(any()).default({}), min_revision: natural } }, async ({ command, params, min_revision }, call) => {
    let revision = 0;
    const result = await call.bridge.call(command, params, { minRevision: min_revision, onRevision: (seen) => (revision = seen) });
    return { result, revision };
  });

await agent.run().catch((error) => {
  console.error(String(error));
  process.exitCode = 1;
});
