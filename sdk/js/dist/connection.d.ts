import { BridgeError } from "./errors.js";
export declare const TAKEN_OVER = 142;
/** A message on a topic. */
export interface Message {
    topic: string;
    payload: Uint8Array | string;
    qos?: 0 | 1 | 2;
    retain?: boolean;
    contentType?: string;
    responseTopic?: string;
    correlation?: Uint8Array | string;
    /** MQTT 5 User Properties. */
    properties?: Record<string, string | string[]>;
    /** Seconds. */
    expiry?: number;
}
/** A message that came. */
export type Received = Message & {
    payload: Uint8Array;
};
/** What a connection shows: a user name and a password, or nothing. */
export interface Login {
    username?: string;
    password?: string;
}
/** PEM texts for a TLS connection. */
export interface TLS {
    ca?: string;
    cert?: string;
    key?: string;
}
/** The bridge refuses the connection. Final means that the next try fails as well. */
export declare class Refused extends Error {
    readonly error: BridgeError;
    readonly final: boolean;
    constructor(error: BridgeError, final: boolean);
}
/** The connection is gone, and what became of a message is not known. */
export declare class Lost extends Error {
}
export interface Dial {
    url: string;
    clientID: string;
    login: Login;
    tls: TLS;
    keepalive: number;
    received: (m: Received) => void;
}
export declare class Connection {
    #private;
    /** Settled when the connection is gone. */
    readonly lost: Promise<void>;
    isLost: boolean;
    /** The reason of the bridge's DISCONNECT. */
    reason: number | undefined;
    responseInfo: string;
    /** Connect; Refused if that fails. */
    static open(dial: Dial): Promise<Connection>;
    private constructor();
    /** End the connection, after what is to be sent if it still stands. */
    close(): Promise<void>;
    /** End the connection at once. */
    drop(): Promise<void>;
    /** Whether so much is on its way that what may be lost should be. */
    get crowded(): boolean;
    /** Send a message. It is settled when the bridge has it (QoS 1), or it is on its way
     * (QoS 0); Lost if the connection is lost before. */
    publish(m: Message): Promise<void>;
    /** Subscribe to filters with their QoS and return the reason codes. */
    subscribe(filters: Iterable<[string, 0 | 1 | 2]>): Promise<number[]>;
    unsubscribe(filter: string): void;
}
