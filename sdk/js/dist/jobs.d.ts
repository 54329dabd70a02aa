import type { Capability } from "./capability.js";
import type { Client } from "./client.js";
import { BridgeError } from "./errors.js";
import { type About } from "./invocation.js";
import type { Memory } from "./memory.js";
import { type Correlation } from "./outbox.js";
export declare class Jobs {
    #private;
    constructor(client: Client, agentID: string, most: number, memory: Memory | undefined);
    /** Take over what an earlier run of the program remembers. */
    recollect(): Promise<void>;
    /** Send again, over a new connection, what the last one took with it. */
    resend(): void;
    /** Run a call, unless its id was seen before: then its answer is sent again, or will be
     * when there is one. */
    start(capability: Capability, params: unknown, about: About, correlation: Correlation): void;
    cancel(id: string, reason: string): void;
    /** Answer the question what became of a call; an answer that is known is sent again. */
    recall(id: string, asked: string, trace: string | undefined, correlation: Correlation): void;
    /** Answer a request that is no call. */
    refuse(id: string, trace: string | undefined, correlation: Correlation, why: BridgeError): void;
    /** Stop what is at work and wait for its answers to leave. */
    close(ms: number): Promise<void>;
}
