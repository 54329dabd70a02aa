import { Skill, type Handler, type Plain, type Shaped } from "./capability.js";
import { Client, type ClientOptions } from "./client.js";
import { type DesiredHandler } from "./desired.js";
import { type Fields } from "./envelope.js";
import type { Memory } from "./memory.js";
import type { JSONSchema, Of, Shape } from "./schema.js";
export interface AgentOptions extends Omit<ClientOptions, "clientID"> {
    /** Where the bridge is, as Client has it. */
    url?: string;
    name?: string;
    description?: string;
    version?: string;
    /** How many calls run at a time; others are refused with 4008. 128 unless told. */
    calls?: number;
    /** Where calls are remembered over restarts, so that none runs twice: a folder (Node)
     * or a Memory. By default AIBRIDGE_STATE, and without it calls are remembered as long
     * as the program runs. */
    memory?: string | Memory;
    space?: string;
}
/**
 * A program that serves skills. capability adds to a skill with the agent's own id;
 * skill adds further skills.
 *
 *     const agent = new Agent("led-strip");
 *     agent.capability("set_brightness", { params: { percent: integer({ min: 0, max: 100 }) } },
 *       ({ percent }) => strip.brightness(percent / 100));
 *     await agent.run();
 */
export declare class Agent {
    #private;
    readonly id: string;
    readonly client: Client;
    constructor(id: string, options?: AgentOptions);
    /** Make a function a capability of the agent's own skill; see Skill.capability. */
    capability(id: string, run: Handler<Record<string, never>>): this;
    capability<S extends Shape>(id: string, about: Shaped<S>, run: Handler<Of<S>>): this;
    capability<P = any>(id: string, about: Plain, run: Handler<P>): this;
    /** Have a function take over the desired state of the agent's own skill; see
     * Skill.desired. */
    desired<S extends Shape>(state: S, run: DesiredHandler<Partial<Of<S>>>): this;
    desired<D = any>(state: {
        schema: JSONSchema;
    }, run: DesiredHandler<D>): this;
    /** Say what state a skill has, the agent's own unless told, by a merge patch (RFC 7386)
     * of what was reported before: fields are set, objects are merged, null removes. It
     * resolves when that is stored. */
    report(state: Fields, skillID?: string): Promise<void>;
    /** A further skill of the agent. */
    skill(id: string, about?: {
        name?: string;
        description?: string;
        version?: string;
    }): Skill;
    /** Connect and register. From here on calls are served, and everything stands again
     * after a lost connection. Refusals are errors, as is time that runs out (ms). */
    start(timeout?: number): Promise<this>;
    /** Serve until the program is asked to end (SIGTERM, Ctrl-C), then leave in order. It
     * throws an error of the bridge that will not pass. */
    run(): Promise<void>;
    /** Stop serving: calls at work are stopped and answered with 5002. The agent stays
     * registered and goes offline. */
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}
