import type { Client } from "./client.js";
export type Correlation = Uint8Array | string | undefined;
/**
 * Answers leave at once if there is a connection, else over the next one. Nobody waits
 * for them. An answer that was lost with a connection is sent again; the bridge takes
 * the first one.
 */
export declare class Outbox {
    #private;
    constructor(client: Client, agentID: string);
    /** Send an answer, over the next connection if need be. */
    send(payload: string, correlation: Correlation): void;
    /** Send an event, if there is a connection with room for it. */
    sendOnce(payload: string, correlation: Correlation): void;
    /** Hold up a stream that is faster than the connection, unless it is to end. */
    waitForRoom(signal: AbortSignal): Promise<void>;
    /** Send again, over a new connection, what the last one took with it. */
    resend(): void;
    /** Wait until everything has left, if there is a connection. */
    flush(ms: number): Promise<void>;
}
