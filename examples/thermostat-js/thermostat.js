#!/usr/bin/env node
// A thermostat as a skill of AI Bridge, with the JavaScript SDK.
import { Agent, number } from "@aibridge/client";

// The device: it pretends to heat a room.
const room = { celsius: 19, target: 20 };

const agent = new Agent("thermostat-js", { name: "Thermostat", description: "Reads and sets the temperature of a room" });

agent.capability("read", { description: "The temperature now and the one aimed at.", effect: "read" }, () => {
  room.celsius += (room.target - room.celsius) / 10; // the room follows slowly
  return room;
});

const celsius = number({ min: 5, max: 30 });
agent.capability("set_target", { description: "Aim at a temperature.", idempotent: true, params: { celsius } }, ({ celsius }) => {
  room.target = celsius;
  return room;
});

await agent.run();
