// The calls that an agent runs and has run. Each id is run once.
import { MAX_BYTES, event, response, sizeOf } from "./envelope.js";
import { BridgeError, Busy, Cancelled, Internal, NotFound, OutcomeUnknown, Rejected, ShuttingDown, TimedOut } from "./errors.js";
import { Invocation } from "./invocation.js";
import { Outbox } from "./outbox.js";
import { Places } from "./places.js";
import { after, pause } from "./wait.js";
const MAX_REMEMBERED = 1024; // answers kept for repeats, the oldest going first
const ACCEPT_AFTER = 200; // ms; an answer that follows at once says that work has begun as well
const GRACE = 1000; // ms that a handler has to end by itself once it is told to
const LOOK = 5;
export class Jobs {
    #client;
    #agentID;
    #memory;
    #outbox;
    #places;
    #jobs = new Map();
    #atWork = new Set();
    #since = Date.now(); // no call that came later is forgotten
    #isClosed = false;
    constructor(client, agentID, most, memory) {
        this.#client = client;
        this.#agentID = agentID;
        this.#memory = memory;
        this.#outbox = new Outbox(client, agentID);
        this.#places = new Places(most);
    }
    /** Take over what an earlier run of the program remembers. */
    async recollect() {
        for (const { id, trace, answer } of (await this.#memory?.load()) ?? []) {
            const origin = { id, sender: this.#agentID, trace };
            const lost = new OutcomeUnknown("the device stopped while it was at work on this call");
            const known = answer ?? response(origin, undefined, lost.toWire());
            this.#jobs.set(id, { origin, correlation: undefined, answer: known, isDone: true, isAccepted: true, seq: 0 });
        }
    }
    /** Send again, over a new connection, what the last one took with it. */
    resend() {
        this.#outbox.resend();
    }
    /** Run a call, unless its id was seen before: then its answer is sent again, or will be
     * when there is one. */
    start(capability, params, about, correlation) {
        const known = this.#jobs.get(about.id);
        if (known) {
            if (known.answer !== undefined)
                this.#outbox.send(known.answer, correlation);
            return;
        }
        const refuse = (why) => this.refuse(about.id, about.trace, correlation, why);
        if (this.#isClosed)
            return refuse(new ShuttingDown("the agent is shutting down"));
        const leave = this.#places.take(about.caller);
        if (!leave)
            return refuse(new Busy("the agent has too much to do", { retry_after_ms: 1000 }));
        const origin = { id: about.id, sender: this.#agentID, trace: about.trace };
        const job = { origin, correlation, isDone: false, isAccepted: false, seq: 0 };
        job.invocation = new Invocation(about, this.#client, (name, data) => this.#emit(job, name, data));
        this.#jobs.set(about.id, job);
        this.#atWork.add(job);
        this.#forget();
        void this.#attend(job, job.invocation, capability, params, leave);
    }
    /** Forget the oldest answers. */
    #forget() {
        let excess = this.#jobs.size - MAX_REMEMBERED - this.#atWork.size;
        for (const [id, job] of this.#jobs) {
            if (excess <= 0)
                return;
            if (!job.isDone)
                continue;
            this.#jobs.delete(id);
            this.#since = Date.now();
            excess--;
        }
    }
    /** Run the handler and answer: when it ends, or a while after it was told to. */
    async #attend(job, call, capability, params, leave) {
        const forgetDeadline = after(call.msLeft, () => call.end(new TimedOut("the time for the call is up")));
        const forgetAcceptance = after(ACCEPT_AFTER, () => this.#emit(job, "task.accepted", {}));
        const work = this.#outcome(call, capability, params).finally(leave); // the place is taken as long as it works
        const given = new AbortController();
        const stopped = new Promise((resolve) => {
            const stop = () => void pause(GRACE, given.signal).then(() => resolve({ failure: call.signal.reason }));
            if (call.signal.aborted)
                stop();
            else
                call.signal.addEventListener("abort", stop, { once: true });
        });
        const outcome = await Promise.race([work, stopped]);
        given.abort();
        forgetDeadline();
        forgetAcceptance();
        await this.#settle(job, outcome);
        this.#atWork.delete(job);
    }
    /** What the handler comes to. */
    async #outcome(call, capability, params) {
        try {
            const fitting = capability.arguments(params);
            if (!capability.isRepeatable)
                await this.#memory?.begin(call.id, call.trace);
            call.signal.throwIfAborted();
            return { result: await capability.run(fitting, call) };
        }
        catch (e) {
            if (e instanceof Rejected)
                return { rejected: e };
            return { failure: this.#failure(call, e) };
        }
    }
    /** The error that the caller gets for what a handler has thrown. */
    #failure(call, e) {
        const isError = e instanceof BridgeError;
        if (call.signal.aborted && (!isError || e instanceof Cancelled))
            return call.signal.reason; // why it was made to stop, not how it took it
        if (isError)
            return e;
        this.#client.log.error(`${call.skill}.${call.capability} failed:`, e);
        return new Internal("the skill failed");
    }
    async #settle(job, outcome) {
        if ("rejected" in outcome)
            return this.#reject(job, outcome.rejected.reason);
        const payload = this.#response(job, outcome);
        job.isDone = true;
        job.answer = payload;
        await this.#keep(() => this.#memory?.answer(job.origin.id, payload));
        this.#outbox.send(payload, job.correlation);
    }
    /** The response envelope, which the bridge takes for sure. */
    #response(job, outcome) {
        const fail = (why) => response(job.origin, undefined, why.toWire());
        try {
            const payload = "failure" in outcome ? fail(outcome.failure) : response(job.origin, outcome.result);
            const size = sizeOf(payload);
            if (size <= MAX_BYTES)
                return payload;
            return fail(new Internal(`the skill's answer is too large: ${size} bytes, ${MAX_BYTES} are possible`));
        }
        catch (e) {
            this.#client.log.error(`the result of ${job.invocation?.skill}.${job.invocation?.capability} is not JSON:`, e);
            return fail(new Internal("the skill failed: its result is not JSON"));
        }
    }
    async #reject(job, reason) {
        void this.#emit(job, "task.rejected", { reason });
        job.isDone = true;
        await this.#keep(() => this.#memory?.forget(job.origin.id));
        this.#jobs.delete(job.origin.id); // nothing has happened: it may come again
    }
    /** A memory that fails must not take the answer with it. */
    async #keep(remember) {
        try {
            await remember();
        }
        catch (e) {
            this.#client.log.error("a call could not be kept:", e);
        }
    }
    /** Send an event about a call at work, its acceptance first. */
    async #emit(job, name, data) {
        if (name === "task.delta")
            await this.#outbox.waitForRoom(job.invocation.signal);
        if (job.isDone || (job.isAccepted && name === "task.accepted"))
            return;
        if (!job.isAccepted && name !== "task.rejected")
            this.#tell(job, "task.accepted", {});
        if (name !== "task.accepted")
            this.#tell(job, name, data);
    }
    #tell(job, name, data) {
        job.isAccepted = true;
        const payload = event(job.origin, name, ++job.seq, data);
        if (sizeOf(payload) <= MAX_BYTES)
            this.#outbox.sendOnce(payload, job.correlation);
        else
            this.#client.log.warn(`an event ${name} is dropped: it is larger than ${MAX_BYTES} bytes`);
    }
    cancel(id, reason) {
        this.#jobs.get(id)?.invocation?.end(new Cancelled(reason ? `cancelled: ${reason}` : "cancelled"));
    }
    /** Answer the question what became of a call; an answer that is known is sent again. */
    recall(id, asked, trace, correlation) {
        const job = this.#jobs.get(id);
        if (!job) {
            const details = { task_id: id, listening_ms: Date.now() - this.#since };
            return this.refuse(asked, trace, correlation, new NotFound("this agent does not know the call", details));
        }
        if (job.answer !== undefined)
            this.#outbox.send(job.answer, id);
        const state = job.answer === undefined ? "running" : "done";
        this.#outbox.send(response({ id: asked, sender: this.#agentID, trace }, { state }), correlation);
    }
    /** Answer a request that is no call. */
    refuse(id, trace, correlation, why) {
        this.#outbox.send(response({ id, sender: this.#agentID, trace }, undefined, why.toWire()), correlation);
    }
    /** Stop what is at work and wait for its answers to leave. */
    async close(ms) {
        this.#isClosed = true;
        for (const job of this.#atWork)
            job.invocation?.end(new ShuttingDown("the agent is shutting down"));
        const deadline = Date.now() + ms;
        while (this.#atWork.size > 0 && Date.now() < deadline)
            await pause(LOOK);
        await this.#outbox.flush(Math.max(deadline - Date.now(), 100));
    }
}
