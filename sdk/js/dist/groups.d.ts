import type { Client } from "./client.js";
import type { Commands } from "./commands.js";
import type { Received } from "./connection.js";
import type { Fields } from "./envelope.js";
import { type Subscription } from "./subscription.js";
/** What group.data.set calls the type of a value. */
export declare function dataType(value: unknown): string;
/** A group of a Cap. It is born with its first member. */
export declare class Group {
    #private;
    readonly capID: string;
    readonly groupID: string;
    constructor(client: Client, capID: string, groupID: string);
    add(skill: string, role: string, attributes?: Record<string, string>): Promise<void>;
    remove(skill: string): Promise<void>;
    /** The value that the members share under a key. NotFound if there is none. */
    get(key: string): Promise<any>;
    /** Share a value and return its revision. With a revision it is only written if the
     * value still has that one, else RevisionConflict; 0 is for a new key. */
    set(key: string, value: unknown, options?: {
        revision?: number;
    }): Promise<number>;
    /** Hear the shared values, now and when they change; undefined for one that is gone. */
    watch(handle: (key: string, value: unknown) => void | Promise<void>, key?: string): Promise<Subscription>;
    /** Have all members, or those of the target, do something. The task's id is for
     * Client.follow. deadline is in milliseconds. */
    dispatch(capability: string, params?: object, options?: {
        target?: object;
        completion?: unknown;
        deadline?: number;
    }): Promise<string>;
}
/** The channel of a Cap: what its members say to each other. */
export declare class Channel {
    #private;
    readonly capID: string;
    constructor(client: Client, capID: string);
    /** Say something under a topic of the channel's own. */
    publish(topic: string, payload?: unknown, options?: {
        qos?: 0 | 1;
    }): Promise<void>;
    /** Hear what is said; "#" hears all. The topics are those in the channel. */
    subscribe(filter: string, handle: (m: Received) => void | Promise<void>): Promise<Subscription>;
    /** Hear of members, links and data. */
    events(handle: (event: Fields) => void | Promise<void>): Promise<Subscription>;
}
export type Approval = Commands["approval.list"]["result"]["approvals"][number];
/** Calls of models that wait for a person (docs/approvals.md). */
export declare class Approvals {
    #private;
    constructor(client: Client);
    /** Those that wait, and that the caller may decide. */
    pending(): Promise<Approval[]>;
    /** Let the call of an approval be run, exactly as it is shown there. */
    approve(approval: Pick<Approval, "approval_id" | "nonce">, reason?: string): Promise<void>;
    /** Refuse the call of an approval; the model reads the reason. */
    deny(approval: Pick<Approval, "approval_id" | "nonce">, reason?: string): Promise<void>;
    /** Hear of every step of every approval: the event, whose data is the approval. */
    watch(handle: (event: Fields) => void): Promise<Subscription>;
}
