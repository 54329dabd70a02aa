// One call of a capability, as its handler sees it.

import type { Caller, Client } from "./client.js";
import type { Fields } from "./envelope.js";
import type { BridgeError } from "./errors.js";
import { pause } from "./wait.js";

export interface About {
  id: string;
  skill: string;
  capability: string;
  trace: string | undefined;
  /** Tells callers apart as long as the bridge runs; "" for administrators. */
  caller: string;
  priority: string;
  /** Unix milliseconds. */
  deadline: number;
}

export type Emit = (name: string, data: Fields) => void | Promise<void>;

/** One call of a capability: the second argument of its handler. */
export class Invocation {
  readonly id: string;
  readonly skill: string;
  readonly capability: string;
  readonly trace: string | undefined;
  readonly caller: string;
  readonly priority: string;
  readonly deadline: number;
  /** Calls that are made for this one: they carry on its trace and its deadline, and end
   * with it. */
  readonly bridge: Caller;
  #end = new AbortController();
  #emit: Emit;

  constructor(about: About, client: Client, emit: Emit) {
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

  #caller(client: Client): Caller {
    const inherited = (options: object = {}) => {
      const { timeout = Infinity, trace = this.trace, signal } = options as { timeout?: number; trace?: string; signal?: AbortSignal };
      const ends = signal ? AbortSignal.any([signal, this.signal]) : this.signal;
      return { ...options, timeout: Math.min(timeout, this.msLeft), signal: ends, ...(trace && { trace }) };
    };
    return {
      call: (command: string, params?: object, options?: object) => client.call(command, params, inherited(options)) as Promise<any>,
      invoke: (skill, capability, params, options) => client.invoke(skill, capability, params, inherited(options)),
    };
  }

  /** Aborted when the work is to end: it was cancelled, its time is up, or the agent
   * leaves. The reason is the error that the caller gets. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  get msLeft(): number {
    return Math.max(this.deadline - Date.now(), 0);
  }

  /** Pause for milliseconds. It throws as soon as the work is to end. */
  async sleep(ms: number): Promise<void> {
    await pause(ms, this.signal);
    this.signal.throwIfAborted();
  }

  /** Tell the caller how far the work is, from 0 to 100. It does not wait; progress may be lost. */
  progress(percent: number, message = "", data?: Fields): void {
    void this.#emit("task.progress", { percent, ...(message && { message }), ...(data && { data }) });
  }

  /** Send a piece of the result ahead, for streams. Await it: it holds up a stream that
   * is faster than the connection. */
  async delta(data: Fields): Promise<void> {
    await this.#emit("task.delta", data);
  }

  /** @internal Have the work end for a reason; the first one counts. */
  end(why: BridgeError): void {
    if (!this.signal.aborted) this.#end.abort(why);
  }
}
