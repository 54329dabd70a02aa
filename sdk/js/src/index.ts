// Write devices and callers for AI Bridge. What browsers have, too; node.ts adds the rest.

export { Agent, type AgentOptions } from "./agent.js";
export { DEFAULT_TIMEOUT, MAX_TIMEOUT, type CallOptions } from "./calling.js";
export { Skill, type Description, type Handler, type Plain, type Shaped } from "./capability.js";
export { Client, type Caller, type ClientOptions } from "./client.js";
export type { CommandName, Commands } from "./commands.js";
export type { Login, Message, Received, TLS } from "./connection.js";
export { Credential, Key, Password, Token } from "./credentials.js";
export type { BridgeEvent, Fields } from "./envelope.js";
export * from "./errors.js";
export { Approvals, Channel, Group, type Approval } from "./groups.js";
export type { Invocation } from "./invocation.js";
export type { Log } from "./log.js";
export type { Memory, Remembered } from "./memory.js";
export * from "./schema.js";
export type { Subscription } from "./subscription.js";
