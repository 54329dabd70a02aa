#!/usr/bin/env node
// A thermostat as a skill of AI Bridge, with nothing but MQTT.js (MQTT 5).
import { randomUUID } from "node:crypto";
import mqtt from "mqtt";

const NAME = "thermostat-js";
const [LOWEST, HIGHEST] = [5, 30];
const topics = {
  bridge: "aibridge/bridge/request",
  answers: `aibridge/client/${NAME}/response`, // to what we ask the bridge
  requests: `aibridge/agent/${NAME}/request`, // what the bridge asks us
  responses: `aibridge/agent/${NAME}/response`, // what we answer
};

const skill = {
  skill_id: NAME,
  name: "Thermostat",
  description: "Reads and sets the temperature of a room",
  version: "1.0.0",
  capabilities: [
    { capability_id: "read", description: "the temperature now and the one aimed at", effect: "read" },
    {
      capability_id: "set_target",
      description: "aim at a temperature",
      idempotent: true,
      params_schema: { // the bridge checks params against it before it asks
        type: "object",
        properties: { celsius: { type: "number", minimum: LOWEST, maximum: HIGHEST } },
        required: ["celsius"],
        additionalProperties: false,
      },
    },
  ],
};

// An error of the protocol: four digits, a message, details.
class Refused extends Error {
  constructor(code, message, details = {}) {
    super(message);
    this.error = { code, message, details };
  }
}

const invalid = (name, reason) => new Refused("1001", `${name}: ${reason}`, { param_name: name, reason });

// The device: it pretends to heat a room.
const room = { celsius: 19, target: 20 };
const capabilities = {
  read() {
    room.celsius += (room.target - room.celsius) / 10; // the room follows slowly
    return { ...room };
  },
  set_target({ celsius }) {
    // A device does not rely on others for what could harm it.
    if (typeof celsius !== "number") throw invalid("params.celsius", "must be a number");
    if (celsius < LOWEST || celsius > HIGHEST) {
      throw invalid("params.celsius", `must be ${LOWEST} to ${HIGHEST}, is ${celsius}`);
    }
    room.target = celsius;
    return { ...room };
  },
};

function answer({ command, params: call }) {
  if (command !== "skill.invoke") throw new Refused("1002", `this agent does not know the command ${command}`);
  if (call.skill_id !== NAME) throw new Refused("3001", `this agent does not serve the skill ${call.skill_id}`);
  if (!Object.hasOwn(capabilities, call.capability_id)) throw new Refused("3001", `no capability ${call.capability_id}`);
  const params = call.params ?? {};
  if (typeof params !== "object" || Array.isArray(params)) throw invalid("params", "must be an object");
  return capabilities[call.capability_id](params);
}

const envelope = (type, id, fields) =>
  JSON.stringify({ version: "0.6.3", id, timestamp: Date.now(), type, ...fields });

const key = process.env.AIBRIDGE_API_KEY;
const client = mqtt.connect(process.env.AIBRIDGE_URL ?? "mqtt://127.0.0.1:1883", {
  protocolVersion: 5,
  clientId: NAME,
  ...(key && { username: "apikey", password: key }),
});

function onAnswer({ status, error }) {
  if (status !== "success") fail(`the bridge refuses: ${JSON.stringify(error)}`);
  console.log("serving", NAME);
}

function onRequest(request, correlationData) {
  if (request.command === "task.cancel") return; // what we do is done at once
  let outcome;
  try {
    outcome = { status: "success", result: answer(request), error: null };
  } catch (err) {
    if (!(err instanceof Refused)) console.error(err);
    outcome = { status: "failed", result: {}, error: err.error ?? new Refused("5000", "the device failed").error };
  }
  console.log(request.command, JSON.stringify(request.params), "->", JSON.stringify(outcome.error ?? outcome.result));
  const metadata = { sender_id: NAME, trace_id: request.metadata?.trace_id };
  client.publish(topics.responses, envelope("response", request.id, { ...outcome, metadata }), {
    qos: 1,
    properties: { contentType: "application/json", ...(correlationData && { correlationData }) },
  });
}

client.on("connect", async () => {
  // On every connection anew: the bridge may have been another one.
  await client.subscribeAsync([topics.answers, topics.requests], { qos: 1 });
  const agent = { agent_id: NAME, type: "end_agent", name: "Thermostat in JavaScript", skills: [skill] };
  client.publish(topics.bridge, envelope("request", randomUUID(), { command: "agent.register", params: agent }), { qos: 1 });
});
client.on("message", (topic, payload, packet) => {
  const message = JSON.parse(payload);
  if (topic === topics.answers) onAnswer(message);
  else onRequest(message, packet.properties?.correlationData);
});
client.on("error", (err) => {
  // A number is the bridge's reason; what is wrong with the network may pass.
  if (typeof err.code === "number") fail(`the bridge refuses the connection: ${err.message}`);
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => client.end());

function fail(reason) {
  console.error(reason);
  process.exit(1);
}
