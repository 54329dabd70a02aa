import type { Client } from "./client.js";
import { type BridgeEvent, type Fields } from "./envelope.js";
import { BridgeError } from "./errors.js";
import { Queue } from "./wait.js";
export declare const DEFAULT_TIMEOUT = 30000;
export declare const MAX_TIMEOUT = 600000;
export interface CallOptions {
    /** Milliseconds, 30 000 unless told. */
    timeout?: number;
    /** By default a new one. */
    id?: string;
    /** Gets the events of a command that tells some. */
    onEvent?: (event: BridgeEvent) => void;
    priority?: "low" | "medium" | "high" | "urgent";
    trace?: string;
    /** A revision of the state, such as one that `onRevision` was told of a write at another
     * bridge of the cluster: the bridge that answers waits until it has seen it. */
    minRevision?: number;
    /** Gets the revision of the state after a command that wrote. */
    onRevision?: (revision: number) => void;
    /** Whether lost connections and busy bridges are waited out; true unless told. */
    retry?: boolean;
    /** Ends the waiting. What the bridge has begun goes on; `task.cancel` ends that. */
    signal?: AbortSignal;
}
/** What comes in about a call. */
export type News = {
    answer: Fields;
} | {
    event: BridgeEvent;
} | {
    lost: true;
} | {
    ended: Error;
};
export declare class Call {
    #private;
    readonly id: string;
    readonly inbox: Queue<News>;
    constructor(client: Client, command: string, params: unknown, options: CallOptions);
    /** Run the command; waiters is where the client finds the call for an answer. */
    run(waiters: Map<string, Call>): Promise<unknown>;
}
/** The error that an aborted call ends with. */
export declare function reasonOf(signal: AbortSignal): BridgeError;
