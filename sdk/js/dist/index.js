// Write devices and callers for AI Bridge. What browsers have, too; node.ts adds the rest.
export { Agent } from "./agent.js";
export { DEFAULT_TIMEOUT, MAX_TIMEOUT } from "./calling.js";
export { Skill } from "./capability.js";
export { Client } from "./client.js";
export { Credential, Key, Password, Token } from "./credentials.js";
export * from "./errors.js";
export { Approvals, Channel, Group } from "./groups.js";
export * from "./schema.js";
