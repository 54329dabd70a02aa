// The side that serves: an agent with its skills.
import { Skill } from "./capability.js";
import { Client } from "./client.js";
import { followDesired } from "./desired.js";
import { decode, isObject } from "./envelope.js";
import { BridgeError, InvalidParameter, NotFound, TargetUnavailable, UnknownCommand } from "./errors.js";
import { Jobs } from "./jobs.js";
import { platform } from "./platform.js";
import { backoff, pause } from "./wait.js";
const CLOSE_PATIENCE = 5000;
const START_PATIENCE = 60_000;
const DEFAULT_TIMEOUT = 30_000;
const DEFAULT_HEARTBEAT = 30_000;
const SLOWEST = 30_000;
/**
 * A program that serves skills. capability adds to a skill with the agent's own id;
 * skill adds further skills.
 *
 *     const agent = new Agent("led-strip");
 *     agent.capability("set_brightness", { params: { percent: integer({ min: 0, max: 100 }) } },
 *       ({ percent }) => strip.brightness(percent / 100));
 *     await agent.run();
 */
export class Agent {
    id;
    client;
    #options;
    #skills = new Map();
    #memory;
    #jobs;
    #interval = DEFAULT_HEARTBEAT;
    #registered = false;
    #follows = false; // what is desired
    #announcing;
    #heard; // who waits for the registration
    #isStarted = false;
    #closing;
    #over = new AbortController();
    constructor(id, options = {}) {
        this.id = id;
        this.#options = options;
        this.client = new Client(options.url, { ...options, clientID: id });
        const { memory = platform.environment("AIBRIDGE_STATE") } = options;
        this.#memory = typeof memory === "string" ? platform.memory(memory, id) : memory;
        this.#jobs = new Jobs(this.client, id, options.calls ?? 128, this.#memory);
        this.client.ownFilters = () => (this.#isStarted ? [[this.#requestTopic, 1]] : []);
        this.client.intercept = (m) => this.#intercept(m);
        this.client.onReady = () => this.#connected();
    }
    capability(id, about, run) {
        this.#own().capability(id, about, run);
        return this;
    }
    desired(state, run) {
        this.#own().desired(state, run);
        return this;
    }
    /** Say what state a skill has, the agent's own unless told, by a merge patch (RFC 7386)
     * of what was reported before: fields are set, objects are merged, null removes. It
     * resolves when that is stored. */
    async report(state, skillID = this.id) {
        await this.client.call("state.report", this.#about({ skill_id: skillID, state }));
    }
    #own() {
        const { name, description, version } = this.#options;
        return this.#skills.get(this.id) ?? this.skill(this.id, { ...(name && { name }), ...(description && { description }), ...(version && { version }) });
    }
    /** A further skill of the agent. */
    skill(id, about = {}) {
        if (this.#skills.has(id))
            throw new TypeError(`the agent has the skill ${id} already`);
        const made = new Skill(id, about);
        this.#skills.set(id, made);
        return made;
    }
    /** Connect and register. From here on calls are served, and everything stands again
     * after a lost connection. Refusals are errors, as is time that runs out (ms). */
    async start(timeout = START_PATIENCE) {
        if (![...this.#skills.values()].some((s) => s.capabilities.size > 0))
            throw new TypeError("the agent has no capability");
        if (!this.#isStarted)
            await this.#jobs.recollect();
        this.#isStarted = true;
        const registered = new Promise((resolve, reject) => (this.#heard = { resolve, reject }));
        registered.catch(() => { }); // a failure to connect comes first
        await this.client.connect(timeout);
        if (!this.#registered)
            await Promise.race([registered, this.#unregistered(timeout)]);
        void this.#beat();
        return this;
    }
    async #unregistered(timeout) {
        await pause(timeout, this.#over.signal);
        throw this.client.ended ?? new TargetUnavailable("the bridge did not register the agent in time");
    }
    /** Serve until the program is asked to end (SIGTERM, Ctrl-C), then leave in order. It
     * throws an error of the bridge that will not pass. */
    async run() {
        const forget = platform.onEnd(() => void this.close());
        try {
            while (!this.#closing)
                await this.#tryToStart();
            await this.#closing;
        }
        catch (e) {
            await this.close();
            throw e;
        }
        finally {
            forget();
        }
    }
    /** Start and serve to the end; come back if the bridge is not there. */
    async #tryToStart() {
        try {
            await this.start();
            console.log(`serving ${this.id}`);
        }
        catch (e) {
            if (this.#closing)
                return;
            if (!(e instanceof TargetUnavailable) || this.client.ended)
                throw e;
            this.client.log.warn(e.message);
            return;
        }
        const ends = AbortSignal.any([this.#over.signal, this.client.closing]);
        if (!ends.aborted)
            await new Promise((resolve) => ends.addEventListener("abort", resolve));
        if (!this.#closing)
            throw this.client.ended;
    }
    /** Stop serving: calls at work are stopped and answered with 5002. The agent stays
     * registered and goes offline. */
    close() {
        this.#closing ??= this.#leave();
        return this.#closing;
    }
    async #leave() {
        this.#over.abort();
        await this.#jobs.close(CLOSE_PATIENCE);
        await this.client.close();
        await this.#memory?.close();
    }
    [Symbol.asyncDispose]() {
        return this.close();
    }
    // Registration and presence.
    get #requestTopic() {
        return `${this.client.root}/agent/${this.id}/request`;
    }
    #connected() {
        if (!this.#isStarted)
            return;
        this.#jobs.resend();
        void this.#announce();
    }
    /** Register the agent and its skills, until it is done or refused: the bridge may not
     * be the one it was. One registration runs at a time. */
    async #announce() {
        await this.#announcing;
        this.#announcing = this.#register();
        await this.#announcing;
    }
    async #register() {
        const link = this.client.readyLink;
        for (let attempt = 1; link && !link.isLost && !this.#over.signal.aborted; attempt++) {
            try {
                this.#takeInterval(await this.client.call("agent.register", this.#card()));
                await this.#followDesired();
                this.#registered = true;
                return this.#heard?.resolve();
            }
            catch (e) {
                const isRefused = e instanceof BridgeError && e.code < "4";
                if (isRefused && !this.#registered)
                    return this.#heard?.reject(e);
                if (!this.#over.signal.aborted)
                    this.client.log.warn("the agent is not registered:", String(e));
                if (isRefused)
                    return;
            }
            await pause(backoff(attempt, SLOWEST), this.#over.signal);
        }
    }
    /** Listen for what is desired, from now on, if a skill takes it. */
    async #followDesired() {
        if (this.#follows || ![...this.#skills.values()].some((s) => s.takes))
            return;
        await followDesired(this.client, this.id, this.#skills, (state, skill) => this.report(state, skill));
        this.#follows = true;
    }
    #card() {
        const skills = [...this.#skills.values()].filter((s) => s.capabilities.size > 0).map((s) => s.describe());
        const { name } = this.#options;
        return this.#about({ type: "end_agent", skills, ...(name && { name }) });
    }
    #about(params) {
        const { space } = this.#options;
        return { ...params, agent_id: this.id, ...(space && { space_id: space }) };
    }
    #takeInterval(answer) {
        const seconds = answer?.["heartbeat_interval"];
        if (typeof seconds === "number" && seconds > 0)
            this.#interval = Math.min(seconds, 3600) * 1000;
    }
    /** Tell the bridge that the agent is alive. One that the bridge has forgotten is
     * registered anew. */
    async #beat() {
        while (await pause(this.#interval, this.#over.signal)) {
            try {
                await this.client.call("agent.heartbeat", this.#about({}), { timeout: Math.max(this.#interval, 1000) });
            }
            catch (e) {
                if (e instanceof NotFound)
                    await this.#announce();
                else if (!this.#over.signal.aborted)
                    this.client.log.warn("the heartbeat failed:", String(e));
            }
        }
    }
    // Requests.
    #intercept(m) {
        if (m.topic !== this.#requestTopic)
            return false;
        const request = decode(m.payload);
        const id = request?.["id"];
        if (!request || (request["type"] ?? "request") !== "request" || typeof id !== "string" || id === "" || id.length > 256)
            return true;
        const metadata = isObject(request["metadata"]) ? request["metadata"] : {};
        const trace = typeof metadata["trace_id"] === "string" ? metadata["trace_id"] : undefined;
        try {
            this.#dispatch(request, id, trace, metadata, m);
        }
        catch (e) {
            if (!(e instanceof BridgeError))
                throw e;
            this.#jobs.refuse(id, trace, m.correlation, e);
        }
        return true;
    }
    #dispatch(request, id, trace, metadata, m) {
        const { command, params } = request;
        if (command !== "skill.invoke" && command !== "task.cancel" && command !== "task.get") {
            throw new UnknownCommand(`this agent does not know the command ${String(command)}`);
        }
        if (!isObject(params))
            throw InvalidParameter.at("params", "must be an object");
        const task = params["task_id"];
        if (command === "skill.invoke")
            return this.#invoke(id, trace, metadata, params, m);
        if (command === "task.cancel") {
            if (typeof task === "string")
                this.#jobs.cancel(task, String(params["reason"] ?? ""));
            return;
        }
        if (typeof task !== "string" || task === "")
            throw InvalidParameter.at("task_id", "must be the id of a call");
        this.#jobs.recall(task, id, trace, m.correlation);
    }
    #invoke(id, trace, metadata, params, m) {
        const { skill_id, capability_id } = params;
        const skill = this.#skills.get(skill_id);
        if (!skill)
            throw new NotFound(`this agent does not serve the skill ${String(skill_id)}`);
        const capability = skill.capabilities.get(capability_id);
        if (!capability)
            throw new NotFound(`the skill ${skill.id} has no capability ${String(capability_id)}`);
        const { priority, timeout } = metadata;
        const ms = typeof timeout === "number" && timeout > 0 ? timeout : DEFAULT_TIMEOUT;
        const about = {
            id,
            trace,
            skill: skill.id,
            capability: capability.id,
            caller: String(m.properties?.["caller"] ?? ""),
            priority: typeof priority === "string" ? priority : "medium",
            deadline: Date.now() + ms,
        };
        this.#jobs.start(capability, params["params"] ?? {}, about, m.correlation);
    }
}
