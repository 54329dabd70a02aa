// One call of a capability, as its handler sees it.
import { pause } from "./wait.js";
/** One call of a capability: the second argument of its handler. */
export class Invocation {
    id;
    skill;
    capability;
    trace;
    caller;
    priority;
    deadline;
    /** Calls that are made for this one: they carry on its trace and its deadline, and end
     * with it. */
    bridge;
    #end = new AbortController();
    #emit;
    constructor(about, client, emit) {
        this.id = about.id;
        this.skill = about.skill;
        this.capability = about.capability;
        this.trace = about.trace;
        this.caller = about.caller;
        this.priority = about.priority;
        this.deadline = about.deadline;
        this.#emit = emit;
        this.bridge = this.#caller(client);
    }
    #caller(client) {
        const inherited = (options = {}) => {
            const { timeout = Infinity, trace = this.trace, signal } = options;
            const ends = signal ? AbortSignal.any([signal, this.signal]) : this.signal;
            return { ...options, timeout: Math.min(timeout, this.msLeft), signal: ends, ...(trace && { trace }) };
        };
        return {
            call: (command, params, options) => client.call(command, params, inherited(options)),
            invoke: (skill, capability, params, options) => client.invoke(skill, capability, params, inherited(options)),
        };
    }
    /** Aborted when the work is to end: it was cancelled, its time is up, or the agent
     * leaves. The reason is the error that the caller gets. */
    get signal() {
        return this.#end.signal;
    }
    get msLeft() {
        return Math.max(this.deadline - Date.now(), 0);
    }
    /** Pause for milliseconds. It throws as soon as the work is to end. */
    async sleep(ms) {
        await pause(ms, this.signal);
        this.signal.throwIfAborted();
    }
    /** Tell the caller how far the work is, from 0 to 100. It does not wait; progress may be lost. */
    progress(percent, message = "", data) {
        void this.#emit("task.progress", { percent, ...(message && { message }), ...(data && { data }) });
    }
    /** Send a piece of the result ahead, for streams. Await it: it holds up a stream that
     * is faster than the connection. */
    async delta(data) {
        await this.#emit("task.delta", data);
    }
    /** @internal Have the work end for a reason; the first one counts. */
    end(why) {
        if (!this.signal.aborted)
            this.#end.abort(why);
    }
}
