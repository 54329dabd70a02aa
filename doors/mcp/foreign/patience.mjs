// The official TypeScript SDKs of both generations against a bridge: forms for what a call
// lacks, and calls that outlast their patience, whose results they get by task. What they
// see, as one JSON object on stdout; stderr says when they were told of a task. Both have
// the patience of the SDKs, which is a minute. Usage: patience.mjs 1|2 URL
import * as later from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [generation, where] = process.argv.slice(2);
const out = { forms: [] };
const answers = [{ action: "accept", content: { celsius: 21.5 } }, { action: "decline" }];
const answer = async (request) => {
  out.forms.push(request.params);
  return answers.shift();
};
const me = { name: "foreign", version: "1.0.0" };
const capabilities = { elicitation: {} };
let client;
if (generation === "1") {
  client = new Client(me, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, answer);
  await client.connect(new StreamableHTTPClientTransport(new URL(where)));
} else {
  client = new later.Client(me, { capabilities, versionNegotiation: { mode: { pin: "2026-07-28" } } });
  client.setRequestHandler("elicitation/create", answer);
  await client.connect(new later.StreamableHTTPClientTransport(new URL(where)));
}
const call = (name, args = {}) => client.callTool({ name, arguments: args });

out.set = await call("heater.set");
out.declined = await call("heater.set");
// By its task it has the result of what it was told of.
const byTask = async (told) => {
  const task = told._meta["aibridge/waiting"].task_id;
  for (;;) {
    const got = await call("task.get", { task_id: task });
    if (got.structuredContent.ended_at) return got;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
};
out.kiln = await call("kiln.fire");
process.stderr.write("told\n");
out.fired = await byTask(out.kiln);
out.door = await call("door.open");
process.stderr.write("waits\n");
out.opened = await byTask(out.door);
await client.close();
process.stdout.write(JSON.stringify(out) + "\n");
