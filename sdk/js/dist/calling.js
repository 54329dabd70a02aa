// A command on its way to the bridge, and on its way again.
import { Lost } from "./connection.js";
import { MAX_BYTES, VERSION, isObject, newID, request, sizeOf } from "./envelope.js";
import { BridgeError, Cancelled, IDReused, OutcomeUnknown, PayloadTooLarge, TargetUnavailable, TimedOut } from "./errors.js";
import { Queue, backoff, pause } from "./wait.js";
export const DEFAULT_TIMEOUT = 30_000;
export const MAX_TIMEOUT = 600_000;
const GRACE = 1000; // how much longer than the bridge a caller waits: its 4007 says more
const MAX_REPEATS = 4; // where something that the bridge needs is out of order
const DEFAULT_PAUSE = 250; // after a 4008 or 4009 that names none
const LONGEST_PAUSE = 5000;
export class Call {
    id;
    inbox = new Queue();
    #client;
    #command;
    #params;
    #metadata;
    #options;
    #deadline;
    #sent = false; // the bridge may have it
    constructor(client, command, params, options) {
        this.#client = client;
        this.#command = command;
        this.#params = params;
        this.#options = options;
        this.id = options.id ?? newID();
        this.#deadline = Date.now() + Math.min(Math.max(options.timeout ?? DEFAULT_TIMEOUT, 1), MAX_TIMEOUT);
        this.#metadata = { trace_id: options.trace ?? newID() };
        if (options.priority)
            this.#metadata["priority"] = options.priority;
        if (options.onEvent)
            this.#metadata["events"] = true;
        if (options.minRevision)
            this.#metadata["min_revision"] = options.minRevision;
    }
    /** Run the command; waiters is where the client finds the call for an answer. */
    async run(waiters) {
        if (waiters.has(this.id))
            throw new IDReused(`a call with the id ${this.id} is under way`);
        const signal = this.#options.signal;
        const aborted = () => this.inbox.put({ ended: reasonOf(signal) });
        if (signal?.aborted)
            throw reasonOf(signal);
        waiters.set(this.id, this);
        signal?.addEventListener("abort", aborted);
        try {
            return await this.#attempts();
        }
        finally {
            waiters.delete(this.id);
            signal?.removeEventListener("abort", aborted);
        }
    }
    async #attempts() {
        for (let attempt = 1;; attempt++) {
            let answer;
            try {
                answer = await this.#attempt();
            }
            catch (e) {
                if (e instanceof TargetUnavailable)
                    throw this.#sent ? this.#gaveUp(e.message) : e;
                if (!(e instanceof Lost))
                    throw e;
                if (!this.#mayRepeat || !(await this.#pause(backoff(attempt, LONGEST_PAUSE))))
                    throw this.#gaveUp(e.message);
                continue;
            }
            if ((answer["error"] ?? null) === null && (answer["status"] ?? "success") === "success") {
                this.#tellRevision(answer["metadata"]);
                return answer["result"];
            }
            const failure = BridgeError.fromWire(answer["error"] ?? "the bridge does not say why");
            const wait = repeatAfter(failure, attempt);
            if (wait === undefined || !this.#mayRepeat || !(await this.#pause(wait)))
                throw failure;
        }
    }
    /** Tell the caller the revision that the metadata of an answer has, if it has one. */
    #tellRevision(metadata) {
        const revision = isObject(metadata) ? metadata["revision"] : undefined;
        if (typeof revision === "number" && revision > 0)
            this.#options.onRevision?.(revision);
    }
    get #mayRepeat() {
        return this.#options.retry ?? true;
    }
    /** Send the request once and wait for the answer. */
    async #attempt() {
        this.inbox.clear(); // what is left of the last attempt
        const { signal } = this.#options;
        const link = await this.#client.online(this.#deadline);
        if (signal?.aborted)
            throw reasonOf(signal);
        const left = this.#deadline - Date.now();
        if (left <= 0)
            throw new TimedOut("no time left to send the request");
        this.#metadata["timeout"] = left;
        const payload = request(this.#command, this.#params, this.#metadata, this.id);
        const size = sizeOf(payload);
        if (size > MAX_BYTES)
            throw new PayloadTooLarge("the request is too large", { size, limit: MAX_BYTES });
        this.#sent = true;
        link.publish(this.#message(payload, left)).catch((e) => this.inbox.put(e instanceof Lost ? { lost: true } : { ended: e }));
        return this.#answer();
    }
    #message(payload, left) {
        return {
            topic: `${this.#client.root}/bridge/request`,
            payload,
            qos: 1,
            contentType: "application/json",
            responseTopic: this.#client.responseTopic,
            correlation: this.id,
            properties: { version: VERSION, trace_id: String(this.#metadata["trace_id"]) },
            expiry: left / 1000,
        };
    }
    async #answer() {
        for (;;) {
            const news = await this.inbox.take(Math.max(this.#deadline + GRACE - Date.now(), 1));
            if (news === undefined)
                throw new TimedOut("the bridge did not answer in time");
            if ("answer" in news)
                return news.answer;
            if ("event" in news)
                this.#options.onEvent?.(news.event);
            else if ("lost" in news)
                throw new Lost("no answer before the connection was lost");
            else
                throw news.ended;
        }
    }
    /** Wait before another attempt, if that leaves time for it. */
    async #pause(ms) {
        if (Date.now() + ms >= this.#deadline)
            return false;
        const { signal } = this.#options;
        const ends = signal ? AbortSignal.any([signal, this.#client.closing]) : this.#client.closing;
        const whole = await pause(ms, ends);
        if (signal?.aborted)
            throw reasonOf(signal);
        return whole;
    }
    /** The error after the last attempt: where the bridge may have the request, an error
     * of the connection says nothing about what became of it. */
    #gaveUp(why) {
        if (this.#sent)
            return new OutcomeUnknown(`the connection to the bridge was lost before it answered: ${why}`);
        return new TargetUnavailable(why);
    }
}
/** The error that an aborted call ends with. */
export function reasonOf(signal) {
    return signal.reason instanceof BridgeError ? signal.reason : new Cancelled("cancelled by the caller");
}
/** The pause before the request is sent again, undefined if that is of no use. */
function repeatAfter(error, attempt) {
    if (/^[12]/.test(String(error.details["agent_code"] ?? "")))
        return undefined; // the agent has said no, in a code that is the bridge's own
    if (error.retry === "after retry_after_ms")
        return (error.retryAfter ?? DEFAULT_PAUSE) * (1 + Math.random() / 10);
    if (error.retry === "with backoff" && attempt <= MAX_REPEATS)
        return backoff(attempt, LONGEST_PAUSE);
    return undefined;
}
