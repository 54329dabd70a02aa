// Groups and channels of Caps, and approvals.
import { jsonOf, onObject } from "./subscription.js";
/** What group.data.set calls the type of a value. */
export function dataType(value) {
    if (Array.isArray(value))
        return "array";
    if (Number.isInteger(value))
        return "integer";
    return typeof value === "undefined" ? "object" : typeof value;
}
/** A group of a Cap. It is born with its first member. */
export class Group {
    capID;
    groupID;
    #client;
    constructor(client, capID, groupID) {
        this.capID = capID;
        this.groupID = groupID;
        this.#client = client;
    }
    #call(command, params) {
        return this.#client.call(command, { cap_id: this.capID, group_id: this.groupID, ...params });
    }
    async add(skill, role, attributes) {
        await this.#call("group.member.add", { skill_id: skill, role, attributes });
    }
    async remove(skill) {
        await this.#call("group.member.remove", { skill_id: skill });
    }
    /** The value that the members share under a key. NotFound if there is none. */
    async get(key) {
        return (await this.#call("group.data.get", { data_key: key })).data_value;
    }
    /** Share a value and return its revision. With a revision it is only written if the
     * value still has that one, else RevisionConflict; 0 is for a new key. */
    async set(key, value, options = {}) {
        return (await this.#call("group.data.set", { data_key: key, data_value: value, data_type: dataType(value), ...options })).revision;
    }
    /** Hear the shared values, now and when they change; undefined for one that is gone. */
    async watch(handle, key = "+") {
        await this.#client.connect();
        const filter = `${this.#client.root}/cap/${this.capID}/data/${this.groupID}/${key}`;
        return this.#client.subscribe(filter, (m) => {
            const value = m.payload.length > 0 ? jsonOf(m)["data_value"] : undefined;
            return handle(m.topic.split("/").pop(), value);
        });
    }
    /** Have all members, or those of the target, do something. The task's id is for
     * Client.follow. deadline is in milliseconds. */
    async dispatch(capability, params = {}, options = {}) {
        const { deadline = 60_000, ...others } = options;
        return (await this.#call("group.dispatch", { capability_id: capability, params, deadline_ms: deadline, ...others })).task_id;
    }
}
/** The channel of a Cap: what its members say to each other. */
export class Channel {
    capID;
    #client;
    constructor(client, capID) {
        this.capID = capID;
        this.#client = client;
    }
    /** The topics below, once the first level is known. */
    async #topic(topic) {
        await this.#client.connect();
        return `${this.#client.root}/cap/${this.capID}/${topic}`;
    }
    /** Say something under a topic of the channel's own. */
    async publish(topic, payload = "", options = {}) {
        await this.#client.publish(await this.#topic(`message/${topic}`), payload, options);
    }
    /** Hear what is said; "#" hears all. The topics are those in the channel. */
    async subscribe(filter, handle) {
        const prefix = await this.#topic("message/");
        return this.#client.subscribe(prefix + filter, (m) => handle({ ...m, topic: m.topic.slice(prefix.length) }));
    }
    /** Hear of members, links and data. */
    async events(handle) {
        return this.#client.subscribe(await this.#topic("event"), onObject(handle));
    }
}
/** Calls of models that wait for a person (docs/approvals.md). */
export class Approvals {
    #client;
    constructor(client) {
        this.#client = client;
    }
    /** Those that wait, and that the caller may decide. */
    async pending() {
        return (await this.#client.call("approval.list", { state: "pending", mine: true })).approvals;
    }
    /** Let the call of an approval be run, exactly as it is shown there. */
    approve(approval, reason) {
        return this.#decide(approval, "approve", reason);
    }
    /** Refuse the call of an approval; the model reads the reason. */
    deny(approval, reason) {
        return this.#decide(approval, "deny", reason);
    }
    async #decide({ approval_id, nonce }, decision, reason) {
        await this.#client.call("approval.decide", { approval_id, nonce, decision, ...(reason && { reason }) });
    }
    /** Hear of every step of every approval: the event, whose data is the approval. */
    watch(handle) {
        return this.#client.events("approval", handle);
    }
}
