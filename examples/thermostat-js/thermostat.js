#!/usr/bin/env node
// A thermostat as a skill of AI Bridge, with the JavaScript SDK.
import { Agent, InvalidParameter, number } from "@aibridge/client";

// The device: it pretends to heat a room.
const room = { celsius: 19, target: 20 };
const [lowest, most] = [5, 30];
let highest = most; // that anybody may aim at

const agent = new Agent("thermostat-js", { name: "Thermostat", description: "Reads and sets the temperature of a room" });

agent.capability("read", { description: "The temperature now and the one aimed at.", effect: "read" }, () => {
  room.celsius += (room.target - room.celsius) / 10; // the room follows slowly
  return room;
});

const celsius = number({ min: lowest, max: most });
agent.capability("set_target", { description: "Aim at a temperature.", idempotent: true, params: { celsius } }, ({ celsius }) => {
  if (celsius > highest) throw InvalidParameter.at("params.celsius", `must be ${lowest} to ${highest}, is ${celsius}`);
  room.target = celsius;
  return room;
});

// The state of the thermostat that others set, also while it is away.
agent.desired({ highest: number({ min: lowest, max: most }) }, (delta) => {
  // A device does not rely on others for what could harm it.
  if (!(delta.highest >= lowest && delta.highest <= most)) throw new RangeError(`highest must be ${lowest} to ${most}, is ${delta.highest}`);
  highest = delta.highest;
  room.target = Math.min(room.target, highest);
  return { highest };
});

await agent.run();
