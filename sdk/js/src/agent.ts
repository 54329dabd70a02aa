// The side that serves: an agent with its skills.

import { Skill, type Handler, type Plain, type Shaped } from "./capability.js";
import { Client, type ClientOptions } from "./client.js";
import { followDesired, type DesiredHandler } from "./desired.js";
import type { Received } from "./connection.js";
import { decode, isObject, type Fields } from "./envelope.js";
import { BridgeError, InvalidParameter, NotFound, TargetUnavailable, UnknownCommand } from "./errors.js";
import { Jobs } from "./jobs.js";
import type { Memory } from "./memory.js";
import { platform } from "./platform.js";
import type { JSONSchema, Of, Shape } from "./schema.js";
import { backoff, pause } from "./wait.js";

const CLOSE_PATIENCE = 5000;
const START_PATIENCE = 60_000;
const DEFAULT_TIMEOUT = 30_000;
const DEFAULT_HEARTBEAT = 30_000;
const SLOWEST = 30_000;

export interface AgentOptions extends Omit<ClientOptions, "clientID"> {
  /** Where the bridge is, as Client has it. */
  url?: string;
  name?: string;
  description?: string;
  version?: string;
  /** How many calls run at a time; others are refused with 4008. 128 unless told. */
  calls?: number;
  /** Where calls are remembered over restarts, so that none runs twice: a folder (Node)
   * or a Memory. By default AIBRIDGE_STATE, and without it calls are remembered as long
   * as the program runs. */
  memory?: string | Memory;
  space?: string;
}

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
  readonly client: Client;
  #options: AgentOptions;
  #skills = new Map<string, Skill>();
  #memory: Memory | undefined;
  #jobs: Jobs;
  #interval = DEFAULT_HEARTBEAT;
  #registered = false;
  #follows = false; // what is desired
  #announcing: Promise<void> | undefined;
  #heard: { resolve: () => void; reject: (why: Error) => void } | undefined; // who waits for the registration
  #isStarted = false;
  #closing: Promise<void> | undefined;
  #over = new AbortController();

  constructor(readonly id: string, options: AgentOptions = {}) {
    this.#options = options;
    this.client = new Client(options.url, { ...options, clientID: id });
    const { memory = platform.environment("AIBRIDGE_STATE") } = options;
    this.#memory = typeof memory === "string" ? platform.memory(memory, id) : memory;
    this.#jobs = new Jobs(this.client, id, options.calls ?? 128, this.#memory);
    this.client.ownFilters = () => (this.#isStarted ? [[this.#requestTopic, 1]] : []);
    this.client.intercept = (m) => this.#intercept(m);
    this.client.onReady = () => this.#connected();
  }

  /** Make a function a capability of the agent's own skill; see Skill.capability. */
  capability(id: string, run: Handler<Record<string, never>>): this;
  capability<S extends Shape>(id: string, about: Shaped<S>, run: Handler<Of<S>>): this;
  capability<P = any>(id: string, about: Plain, run: Handler<P>): this;
  capability(id: string, about: any, run?: any): this {
    this.#own().capability(id, about, run);
    return this;
  }

  /** Have a function take over the desired state of the agent's own skill; see
   * Skill.desired. */
  desired<S extends Shape>(state: S, run: DesiredHandler<Partial<Of<S>>>): this;
  desired<D = any>(state: { schema: JSONSchema }, run: DesiredHandler<D>): this;
  desired(state: any, run: DesiredHandler): this {
    this.#own().desired(state, run);
    return this;
  }

  /** Say what state a skill has, the agent's own unless told, by a merge patch (RFC 7386)
   * of what was reported before: fields are set, objects are merged, null removes. It
   * resolves when that is stored. */
  async report(state: Fields, skillID: string = this.id): Promise<void> {
    await this.client.call("state.report" as string, this.#about({ skill_id: skillID, state }));
  }

  #own(): Skill {
    const { name, description, version } = this.#options;
    return this.#skills.get(this.id) ?? this.skill(this.id, { ...(name && { name }), ...(description && { description }), ...(version && { version }) });
  }

  /** A further skill of the agent. */
  skill(id: string, about: { name?: string; description?: string; version?: string } = {}): Skill {
    if (this.#skills.has(id)) throw new TypeError(`the agent has the skill ${id} already`);
    const made = new Skill(id, about);
    this.#skills.set(id, made);
    return made;
  }

  /** Connect and register. From here on calls are served, and everything stands again
   * after a lost connection. Refusals are errors, as is time that runs out (ms). */
  async start(timeout: number = START_PATIENCE): Promise<this> {
    if (![...this.#skills.values()].some((s) => s.capabilities.size > 0)) throw new TypeError("the agent has no capability");
    if (!this.#isStarted) await this.#jobs.recollect();
    this.#isStarted = true;
    const registered = new Promise<void>((resolve, reject) => (this.#heard = { resolve, reject }));
    registered.catch(() => {}); // a failure to connect comes first
    await this.client.connect(timeout);
    if (!this.#registered) await Promise.race([registered, this.#unregistered(timeout)]);
    void this.#beat();
    return this;
  }

  async #unregistered(timeout: number): Promise<never> {
    await pause(timeout, this.#over.signal);
    throw this.client.ended ?? new TargetUnavailable("the bridge did not register the agent in time");
  }

  /** Serve until the program is asked to end (SIGTERM, Ctrl-C), then leave in order. It
   * throws an error of the bridge that will not pass. */
  async run(): Promise<void> {
    const forget = platform.onEnd(() => void this.close());
    try {
      while (!this.#closing) await this.#tryToStart();
      await this.#closing;
    } catch (e) {
      await this.close();
      throw e;
    } finally {
      forget();
    }
  }

  /** Start and serve to the end; come back if the bridge is not there. */
  async #tryToStart(): Promise<void> {
    try {
      await this.start();
      console.log(`serving ${this.id}`);
    } catch (e) {
      if (this.#closing) return;
      if (!(e instanceof TargetUnavailable) || this.client.ended) throw e;
      this.client.log.warn(e.message);
      return;
    }
    const ends = AbortSignal.any([this.#over.signal, this.client.closing]);
    if (!ends.aborted) await new Promise((resolve) => ends.addEventListener("abort", resolve));
    if (!this.#closing) throw this.client.ended;
  }

  /** Stop serving: calls at work are stopped and answered with 5002. The agent stays
   * registered and goes offline. */
  close(): Promise<void> {
    this.#closing ??= this.#leave();
    return this.#closing;
  }

  async #leave(): Promise<void> {
    this.#over.abort();
    await this.#jobs.close(CLOSE_PATIENCE);
    await this.client.close();
    await this.#memory?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // Registration and presence.

  get #requestTopic(): string {
    return `${this.client.root}/agent/${this.id}/request`;
  }

  #connected(): void {
    if (!this.#isStarted) return;
    this.#jobs.resend();
    void this.#announce();
  }

  /** Register the agent and its skills, until it is done or refused: the bridge may not
   * be the one it was. One registration runs at a time. */
  async #announce(): Promise<void> {
    await this.#announcing;
    this.#announcing = this.#register();
    await this.#announcing;
  }

  async #register(): Promise<void> {
    const link = this.client.readyLink;
    for (let attempt = 1; link && !link.isLost && !this.#over.signal.aborted; attempt++) {
      try {
        this.#takeInterval(await this.client.call("agent.register" as string, this.#card()));
        await this.#followDesired();
        this.#registered = true;
        return this.#heard?.resolve();
      } catch (e) {
        const isRefused = e instanceof BridgeError && e.code < "4";
        if (isRefused && !this.#registered) return this.#heard?.reject(e);
        if (!this.#over.signal.aborted) this.client.log.warn("the agent is not registered:", String(e));
        if (isRefused) return;
      }
      await pause(backoff(attempt, SLOWEST), this.#over.signal);
    }
  }

  /** Listen for what is desired, from now on, if a skill takes it. */
  async #followDesired(): Promise<void> {
    if (this.#follows || ![...this.#skills.values()].some((s) => s.takes)) return;
    await followDesired(this.client, this.id, this.#skills, (state, skill) => this.report(state, skill));
    this.#follows = true;
  }

  #card(): Fields {
    const skills = [...this.#skills.values()].filter((s) => s.capabilities.size > 0).map((s) => s.describe());
    const { name } = this.#options;
    return this.#about({ type: "end_agent", skills, ...(name && { name }) });
  }

  #about(params: Fields): Fields {
    const { space } = this.#options;
    return { ...params, agent_id: this.id, ...(space && { space_id: space }) };
  }

  #takeInterval(answer: Fields): void {
    const seconds = answer?.["heartbeat_interval"];
    if (typeof seconds === "number" && seconds > 0) this.#interval = Math.min(seconds, 3600) * 1000;
  }

  /** Tell the bridge that the agent is alive. One that the bridge has forgotten is
   * registered anew. */
  async #beat(): Promise<void> {
    while (await pause(this.#interval, this.#over.signal)) {
      try {
        await this.client.call("agent.heartbeat" as string, this.#about({}), { timeout: Math.max(this.#interval, 1000) });
      } catch (e) {
        if (e instanceof NotFound) await this.#announce();
        else if (!this.#over.signal.aborted) this.client.log.warn("the heartbeat failed:", String(e));
      }
    }
  }

  // Requests.

  #intercept(m: Received): boolean {
    if (m.topic !== this.#requestTopic) return false;
    const request = decode(m.payload);
    const id = request?.["id"];
    if (!request || (request["type"] ?? "request") !== "request" || typeof id !== "string" || id === "" || id.length > 256) return true;
    const metadata = isObject(request["metadata"]) ? request["metadata"] : {};
    const trace = typeof metadata["trace_id"] === "string" ? metadata["trace_id"] : undefined;
    try {
      this.#dispatch(request, id, trace, metadata, m);
    } catch (e) {
      if (!(e instanceof BridgeError)) throw e;
      this.#jobs.refuse(id, trace, m.correlation, e);
    }
    return true;
  }

  #dispatch(request: Fields, id: string, trace: string | undefined, metadata: Fields, m: Received): void {
    const { command, params } = request;
    if (command !== "skill.invoke" && command !== "task.cancel" && command !== "task.get") {
      throw new UnknownCommand(`this agent does not know the command ${String(command)}`);
    }
    if (!isObject(params)) throw InvalidParameter.at("params", "must be an object");
    const task = params["task_id"];
    if (command === "skill.invoke") return this.#invoke(id, trace, metadata, params, m);
    if (command === "task.cancel") {
      if (typeof task === "string") this.#jobs.cancel(task, String(params["reason"] ?? ""));
      return;
    }
    if (typeof task !== "string" || task === "") throw InvalidParameter.at("task_id", "must be the id of a call");
    this.#jobs.recall(task, id, trace, m.correlation);
  }

  #invoke(id: string, trace: string | undefined, metadata: Fields, params: Fields, m: Received): void {
    const { skill_id, capability_id } = params;
    const skill = this.#skills.get(skill_id as string);
    if (!skill) throw new NotFound(`this agent does not serve the skill ${String(skill_id)}`);
    const capability = skill.capabilities.get(capability_id as string);
    if (!capability) throw new NotFound(`the skill ${skill.id} has no capability ${String(capability_id)}`);
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
