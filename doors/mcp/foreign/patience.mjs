// The official TypeScript SDKs of both generations against two bridges: forms for what a
// call lacks at one, and at another, which soon tells of tasks, calls whose results they
// get by task. What they see, as one JSON object on stdout; stderr says when they were told
// of a task. Both have the patience of the SDKs, which is a minute. Usage: patience.mjs 1|2
// URL URL
import * as later from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [generation, ...bridges] = process.argv.slice(2);
const out = { forms: [] };
const answers = [{ action: "accept", content: { celsius: 21.5 } }, { action: "decline" }];
const answer = async (request) => {
  out.forms.push(request.params);
  return answers.shift();
};
const me = { name: "foreign", version: "1.0.0" };
const capabilities = { elicitation: {} };
const connect = async (where) => {
  if (generation === "1") {
    const client = new Client(me, { capabilities });
    client.setRequestHandler(ElicitRequestSchema, answer);
    await client.connect(new StreamableHTTPClientTransport(new URL(where)));
    return client;
  }
  const client = new later.Client(me, { capabilities, versionNegotiation: { mode: { pin: "2026-07-28" } } });
  client.setRequestHandler("elicitation/create", answer);
  await client.connect(new later.StreamableHTTPClientTransport(new URL(where)));
  return client;
};
const [patient, client] = await Promise.all(bridges.map(connect));
const call = (name, args = {}) => client.callTool({ name, arguments: args });

out.set = await patient.callTool({ name: "heater.set", arguments: {} });
out.declined = await patient.callTool({ name: "heater.set", arguments: {} });
await patient.close();
// By its task it has the result of what it was told of.
const byTask = async (told) => {
  const task = told._meta["aibridge/waiting"].task_id;
  for (;;) {
    const got = await call("task.get", { task_id: task });
    if (got.structuredContent?.ended_at) return got; // or the question itself takes long
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
