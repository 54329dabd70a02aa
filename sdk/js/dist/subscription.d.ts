import type { Client } from "./client.js";
import { type Connection, type Received } from "./connection.js";
import { type Fields } from "./envelope.js";
export declare const MAX_WAITING = 1024;
export type Handle = (m: Received) => void | Promise<void>;
/** A handler of messages that passes on the JSON objects in them; an empty message is an
 * empty object. */
export declare function onObject(handle: (value: Fields) => void | Promise<void>): Handle;
/** The JSON in a message. */
export declare const jsonOf: (m: Received) => unknown;
/** Whether a filter covers a topic, by the rules of MQTT. */
export declare function covers(filter: string, topic: string): boolean;
/** Messages on topics that a filter covers: for a handler, or by iteration. */
export declare class Subscription implements AsyncIterable<Received> {
    #private;
    readonly filter: string;
    readonly qos: 0 | 1;
    isClosed: boolean;
    constructor(owner: Subscriptions, filter: string, qos: 0 | 1, handle?: Handle);
    /** The next message; undefined when the milliseconds are over or the subscription has ended. */
    next(ms?: number): Promise<Received | undefined>;
    [Symbol.asyncIterator](): AsyncGenerator<Received>;
    /** End the subscription. */
    close(): void;
    [Symbol.dispose](): void;
    /** @internal */
    end(): void;
    /** @internal */
    put(m: Received): void;
}
/** All subscriptions of a client. */
export declare class Subscriptions {
    #private;
    constructor(client: Client);
    get log(): import("./log.js").Log;
    open(filter: string, handle: Handle | undefined, qos: 0 | 1): Promise<Subscription>;
    /** Subscribe to everything on a new connection. What is refused now is logged. */
    restore(link: Connection): Promise<void>;
    deliver(m: Received): void;
    remove(s: Subscription): void;
    close(): void;
}
