import { type CallOptions } from "./calling.js";
import type { CommandName, Commands } from "./commands.js";
import { Connection, type Received } from "./connection.js";
import type { Credential } from "./credentials.js";
import { type Fields } from "./envelope.js";
import { BridgeError } from "./errors.js";
import { Approvals, Channel, Group } from "./groups.js";
import { type Log } from "./log.js";
import { Subscription, type Handle } from "./subscription.js";
export interface ClientOptions {
    /** What the client shows, by default what the environment names (Node). */
    credential?: Credential;
    /** The MQTT client id, by default one by chance. */
    clientID?: string;
    /** The authority of the bridge, as a PEM text; by default the file AIBRIDGE_CA, the one
     * beside the certificate, or those of the system. */
    ca?: string;
    /** The first level of all topics, by default what the bridge says. */
    root?: string;
    /** Seconds. */
    keepalive?: number;
    log?: Log;
}
/** The commands, for those who call only. Results of commands are typed by their name. */
export interface Caller {
    call<C extends CommandName>(command: C, params?: Commands[C]["params"], options?: CallOptions): Promise<Commands[C]["result"]>;
    call(command: string, params?: object, options?: CallOptions): Promise<any>;
    invoke<T = any>(skill: string, capability: string, params?: object, options?: CallOptions): Promise<T>;
}
/**
 * A connection to a bridge that restores itself. url is mqtt://, mqtts://, ws:// or
 * wss://, by default AIBRIDGE_URL or the bridge on this machine.
 */
export declare class Client implements Caller {
    #private;
    readonly id: string;
    root: string;
    readonly log: Log;
    /** Called on every new connection. */
    onReady: () => void;
    /** Filters of the owner's own, which stand before a connection is used. */
    ownFilters: () => [string, 0 | 1 | 2][];
    /** Takes a message before subscriptions do; true if it is taken. */
    intercept: (m: Received) => boolean;
    constructor(url?: string, options?: ClientOptions);
    /** Aborted when the client is closed. */
    get closing(): AbortSignal;
    /** Why the client has ended by itself or by close, undefined while it has not. */
    get ended(): BridgeError | undefined;
    get responseTopic(): string;
    /** Connect, and stay so until close. A refusal that will not pass, such as a wrong key,
     * and time that runs out (milliseconds) are errors. Calls connect by themselves. */
    connect(timeout?: number): Promise<this>;
    /** End the connection. Nothing works afterwards. */
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
    /** The connection, once it is ready for use; deadline is Unix milliseconds. */
    online(deadline: number): Promise<Connection>;
    /** The connection if it is ready for use now. */
    get readyLink(): Connection | undefined;
    /** Publish bytes, a text, or anything else as JSON. With QoS 1 it is settled when the
     * bridge has it. */
    publish(topic: string, payload?: unknown, options?: {
        qos?: 0 | 1;
        retain?: boolean;
        timeout?: number;
    }): Promise<void>;
    /** Hear messages: by handle, one at a time, or by `for await` over the subscription. It
     * lasts over reconnections. */
    subscribe(filter: string, handle?: Handle, qos?: 0 | 1): Promise<Subscription>;
    /**
     * Run a command of the bridge and return its result.
     *
     * Within the timeout lost connections and busy bridges are waited out: the same request
     * is sent again, with the same id, so that the bridge runs it once. Throws BridgeError:
     * what the bridge answered, TargetUnavailable if it was not reached, OutcomeUnknown if
     * the connection was lost and the answer with it, TimedOut when time ran out.
     */
    call<C extends CommandName>(command: C, params?: Commands[C]["params"], options?: CallOptions): Promise<Commands[C]["result"]>;
    call(command: string, params?: object, options?: CallOptions): Promise<any>;
    /** Have a skill do something and return its result. */
    invoke<T = any>(skill: string, capability: string, params?: object, options?: CallOptions): Promise<T>;
    /** The events of a task until it has ended; the last item is what task.get says then. */
    follow(taskID: string, timeout?: number): AsyncGenerator<Fields, void>;
    /** A group of a Cap: members, shared data, dispatch. */
    group(capID: string, groupID: string): Group;
    /** What the members of a Cap say to each other. */
    channel(capID: string): Channel;
    /** The calls of models that wait for a person. */
    get approvals(): Approvals;
    /** Hear what happens to agents, skills, approvals and so on; "+" hears all. */
    events(family: string, handle: (event: Fields) => void): Promise<Subscription>;
    /** Hear an agent's card, now and whenever it or its presence changes; "+" hears all. */
    watchAgent(agentID: string, handle: (card: Fields) => void): Promise<Subscription>;
}
