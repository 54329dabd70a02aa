import type { Caller, Client } from "./client.js";
import type { Fields } from "./envelope.js";
import type { BridgeError } from "./errors.js";
export interface About {
    id: string;
    skill: string;
    capability: string;
    trace: string | undefined;
    /** Tells callers apart as long as the bridge runs; "" for administrators. */
    caller: string;
    priority: string;
    /** Unix milliseconds. */
    deadline: number;
}
export type Emit = (name: string, data: Fields) => void | Promise<void>;
/** One call of a capability: the second argument of its handler. */
export declare class Invocation {
    #private;
    readonly id: string;
    readonly skill: string;
    readonly capability: string;
    readonly trace: string | undefined;
    readonly caller: string;
    readonly priority: string;
    readonly deadline: number;
    /** Calls that are made for this one: they carry on its trace and its deadline, and end
     * with it. */
    readonly bridge: Caller;
    constructor(about: About, client: Client, emit: Emit);
    /** Aborted when the work is to end: it was cancelled, its time is up, or the agent
     * leaves. The reason is the error that the caller gets. */
    get signal(): AbortSignal;
    get msLeft(): number;
    /** Pause for milliseconds. It throws as soon as the work is to end. */
    sleep(ms: number): Promise<void>;
    /** Tell the caller how far the work is, from 0 to 100. It does not wait; progress may be lost. */
    progress(percent: number, message?: string, data?: Fields): void;
    /** Send a piece of the result ahead, for streams. Await it: it holds up a stream that
     * is faster than the connection. */
    delta(data: Fields): Promise<void>;
    /** @internal Have the work end for a reason; the first one counts. */
    end(why: BridgeError): void;
}
