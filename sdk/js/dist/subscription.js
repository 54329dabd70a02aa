// Subscriptions that last over reconnections.
import { Lost } from "./connection.js";
import { isObject } from "./envelope.js";
import { InvalidParameter, PermissionDenied } from "./errors.js";
import { Queue } from "./wait.js";
export const MAX_WAITING = 1024; // messages of a subscription; more are dropped
const PATIENCE = 30_000;
/** A handler of messages that passes on the JSON objects in them; an empty message is an
 * empty object. */
export function onObject(handle) {
    return (m) => {
        const value = m.payload.length > 0 ? jsonOf(m) : {};
        return isObject(value) ? handle(value) : undefined;
    };
}
/** The JSON in a message. */
export const jsonOf = (m) => JSON.parse(new TextDecoder().decode(m.payload));
/** Whether a filter covers a topic, by the rules of MQTT. */
export function covers(filter, topic) {
    const [wanted, levels] = [filter.split("/"), topic.split("/")];
    if (levels[0].startsWith("$") && /^[+#]$/.test(wanted[0]))
        return false;
    for (const [i, level] of wanted.entries()) {
        if (level === "#")
            return true;
        if (i >= levels.length || (level !== "+" && level !== levels[i]))
            return false;
    }
    return wanted.length === levels.length;
}
/** Messages on topics that a filter covers: for a handler, or by iteration. */
export class Subscription {
    filter;
    qos;
    isClosed = false;
    #owner;
    #waiting = new Queue();
    #pattern;
    constructor(owner, filter, qos, handle) {
        this.filter = filter;
        this.qos = qos;
        this.#owner = owner;
        this.#pattern = filter.startsWith("$share/") ? filter.split("/").slice(2).join("/") : filter;
        if (handle)
            void this.#run(handle);
    }
    /** The next message; undefined when the milliseconds are over or the subscription has ended. */
    next(ms) {
        return this.isClosed && this.#waiting.length === 0 ? Promise.resolve(undefined) : this.#waiting.take(ms);
    }
    async *[Symbol.asyncIterator]() {
        try {
            for (let m = await this.next(); m !== undefined; m = await this.next())
                yield m;
        }
        finally {
            this.close();
        }
    }
    /** End the subscription. */
    close() {
        if (this.isClosed)
            return;
        this.#owner.remove(this);
        this.end();
    }
    [Symbol.dispose]() {
        this.close();
    }
    /** @internal */
    end() {
        this.isClosed = true;
        this.#waiting.put(undefined);
    }
    /** @internal */
    put(m) {
        if (!covers(this.#pattern, m.topic))
            return;
        if (this.#waiting.length < MAX_WAITING)
            this.#waiting.put(m);
        else
            this.#owner.log.warn(`a message on ${m.topic} is dropped: ${MAX_WAITING} wait`);
    }
    async #run(handle) {
        for (let m = await this.next(); m !== undefined && !this.isClosed; m = await this.next()) {
            try {
                await handle(m);
            }
            catch (e) {
                this.#owner.log.error(`the handler of ${this.filter} failed:`, e);
            }
        }
    }
}
/** All subscriptions of a client. */
export class Subscriptions {
    #client;
    #all = new Set();
    constructor(client) {
        this.#client = client;
    }
    get log() {
        return this.#client.log;
    }
    async open(filter, handle, qos) {
        const s = new Subscription(this, filter, qos, handle);
        this.#all.add(s);
        let code;
        try {
            const link = await this.#client.online(Date.now() + PATIENCE);
            [code] = (await link.subscribe([[filter, qos]]));
        }
        catch (e) {
            if (e instanceof Lost)
                return s; // the next connection has it
            s.close();
            throw e;
        }
        if (code < 0x80)
            return s;
        s.close();
        throw new (code === 0x87 ? PermissionDenied : InvalidParameter)(`the bridge refuses the subscription to ${filter}: reason ${code}`);
    }
    /** Subscribe to everything on a new connection. What is refused now is logged. */
    async restore(link) {
        const wanted = new Map([...this.#all].map((s) => [s.filter, s.qos]));
        const filters = [...wanted.keys()];
        for (const [i, code] of (await link.subscribe(wanted)).entries()) {
            if (code >= 0x80)
                this.log.warn(`the bridge refuses the subscription to ${filters[i]}: reason ${code}`);
        }
    }
    deliver(m) {
        for (const s of this.#all)
            s.put(m);
    }
    remove(s) {
        this.#all.delete(s);
        if (![...this.#all].some((other) => other.filter === s.filter))
            this.#client.readyLink?.unsubscribe(s.filter);
    }
    close() {
        for (const s of this.#all)
            s.end();
        this.#all.clear();
    }
}
