import type { Client } from "./client.js";
import { type Fields } from "./envelope.js";
import type { Skill } from "./capability.js";
import { type JSONSchema, type Shape } from "./schema.js";
/** Makes a device what it shall be. delta is the part of the desired state that the
 * reported one lacks, also what was set while the device was away. What it returns is
 * reported, as a merge patch; undefined reports nothing. Of an error the bridge learns
 * nothing: the delta stays. */
export type DesiredHandler<D = any> = (delta: D) => Fields | void | Promise<Fields | void>;
export interface Desired {
    readonly schema: JSONSchema;
    readonly run: DesiredHandler;
}
/** The declaration of a state, whose fields may be set one by one. */
export declare function desired(state: Shape | {
    schema: JSONSchema;
}, run: DesiredHandler): Desired;
/** Has skills made what they shall be, one message after the other. */
export declare function followDesired(client: Client, agent: string, skills: Map<string, Skill>, report: (state: Fields, skill: string) => Promise<void>): Promise<void>;
