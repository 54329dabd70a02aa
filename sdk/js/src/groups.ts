// Groups and channels of Caps, and approvals.

import type { Client } from "./client.js";
import type { Commands } from "./commands.js";
import type { Received } from "./connection.js";
import type { Fields } from "./envelope.js";
import { jsonOf, onObject, type Subscription } from "./subscription.js";

/** What group.data.set calls the type of a value. */
export function dataType(value: unknown): string {
  if (Array.isArray(value)) return "array";
  if (Number.isInteger(value)) return "integer";
  return typeof value === "undefined" ? "object" : typeof value;
}

/** A group of a Cap. It is born with its first member. */
export class Group {
  #client: Client;

  constructor(client: Client, readonly capID: string, readonly groupID: string) {
    this.#client = client;
  }

  #call(command: string, params: Fields): Promise<any> {
    return this.#client.call(command, { cap_id: this.capID, group_id: this.groupID, ...params });
  }

  async add(skill: string, role: string, attributes?: Record<string, string>): Promise<void> {
    await this.#call("group.member.add", { skill_id: skill, role, attributes });
  }

  async remove(skill: string): Promise<void> {
    await this.#call("group.member.remove", { skill_id: skill });
  }

  /** The value that the members share under a key. NotFound if there is none. */
  async get(key: string): Promise<any> {
    return (await this.#call("group.data.get", { data_key: key })).data_value;
  }

  /** Share a value and return its revision. With a revision it is only written if the
   * value still has that one, else RevisionConflict; 0 is for a new key. */
  async set(key: string, value: unknown, options: { revision?: number } = {}): Promise<number> {
    return (await this.#call("group.data.set", { data_key: key, data_value: value, data_type: dataType(value), ...options })).revision;
  }

  /** Hear the shared values, now and when they change; undefined for one that is gone. */
  async watch(handle: (key: string, value: unknown) => void | Promise<void>, key = "+"): Promise<Subscription> {
    await this.#client.connect();
    const filter = `${this.#client.root}/cap/${this.capID}/data/${this.groupID}/${key}`;
    return this.#client.subscribe(filter, (m) => {
      const value = m.payload.length > 0 ? (jsonOf(m) as Fields)["data_value"] : undefined;
      return handle(m.topic.split("/").pop()!, value);
    });
  }

  /** Have all members, or those of the target, do something. The task's id is for
   * Client.follow. deadline is in milliseconds. */
  async dispatch(capability: string, params: object = {}, options: { target?: object; completion?: unknown; deadline?: number } = {}): Promise<string> {
    const { deadline = 60_000, ...others } = options;
    return (await this.#call("group.dispatch", { capability_id: capability, params, deadline_ms: deadline, ...others })).task_id;
  }
}

/** The channel of a Cap: what its members say to each other. */
export class Channel {
  #client: Client;

  constructor(client: Client, readonly capID: string) {
    this.#client = client;
  }

  /** The topics below, once the first level is known. */
  async #topic(topic: string): Promise<string> {
    await this.#client.connect();
    return `${this.#client.root}/cap/${this.capID}/${topic}`;
  }

  /** Say something under a topic of the channel's own. */
  async publish(topic: string, payload: unknown = "", options: { qos?: 0 | 1 } = {}): Promise<void> {
    await this.#client.publish(await this.#topic(`message/${topic}`), payload, options);
  }

  /** Hear what is said; "#" hears all. The topics are those in the channel. */
  async subscribe(filter: string, handle: (m: Received) => void | Promise<void>): Promise<Subscription> {
    const prefix = await this.#topic("message/");
    return this.#client.subscribe(prefix + filter, (m) => handle({ ...m, topic: m.topic.slice(prefix.length) }));
  }

  /** Hear of members, links and data. */
  async events(handle: (event: Fields) => void | Promise<void>): Promise<Subscription> {
    return this.#client.subscribe(await this.#topic("event"), onObject(handle));
  }
}

export type Approval = Commands["approval.list"]["result"]["approvals"][number];

/** Calls of models that wait for a person (docs/approvals.md). */
export class Approvals {
  #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Those that wait, and that the caller may decide. */
  async pending(): Promise<Approval[]> {
    return (await this.#client.call("approval.list", { state: "pending", mine: true })).approvals;
  }

  /** Let the call of an approval be run, exactly as it is shown there. */
  approve(approval: Pick<Approval, "approval_id" | "nonce">, reason?: string): Promise<void> {
    return this.#decide(approval, "approve", reason);
  }

  /** Refuse the call of an approval; the model reads the reason. */
  deny(approval: Pick<Approval, "approval_id" | "nonce">, reason?: string): Promise<void> {
    return this.#decide(approval, "deny", reason);
  }

  async #decide({ approval_id, nonce }: Pick<Approval, "approval_id" | "nonce">, decision: string, reason?: string): Promise<void> {
    await this.#client.call("approval.decide" as string, { approval_id, nonce, decision, ...(reason && { reason }) });
  }

  /** Hear of every step of every approval: the event, whose data is the approval. */
  watch(handle: (event: Fields) => void): Promise<Subscription> {
    return this.#client.events("approval", handle);
  }
}
