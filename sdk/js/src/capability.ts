// A capability: a function with a schema.

import { desired, type Desired, type DesiredHandler } from "./desired.js";
import type { Fields } from "./envelope.js";
import type { Invocation } from "./invocation.js";
import { check, object, type JSONSchema, type Of, type Schema, type Shape } from "./schema.js";

export type Handler<P> = (params: P, call: Invocation) => unknown;

export interface Description {
  /** For people and models. */
  description?: string;
  name?: string;
  /** "read" if it changes nothing: a model may run it beside others. */
  effect?: "read" | "act";
  /** Whether running it twice is as good as once. */
  idempotent?: boolean;
  /** "high": a person has to agree before a model runs it. */
  risk?: "low" | "medium" | "high";
  /** Which calls are the same deed, by their params: "door:{door}:unlock". It is done once. */
  effectKey?: string;
  /** For how long after it a call is the same deed; a minute if absent. */
  effectWindowMs?: number;
  /** How to find out whether a call of unknown outcome was done. */
  reconcile?: Reconcile;
  /** What it returns. */
  result?: Schema<unknown, boolean> | JSONSchema;
}

/** The read that tells whether a call was done. */
export interface Reconcile {
  /** A capability of the same skill, with the effect "read". */
  capability: string;
  /** Its params; "{door}" stands for that param of the call. */
  params?: Record<string, string | number | boolean>;
  /** What its result has when the call was done. */
  doneWhen: Record<string, string | number | boolean>;
  /** What its result has when it was not. */
  notDoneWhen?: Record<string, string | number | boolean>;
}

export interface Shaped<S extends Shape> extends Description {
  /** The fields of the params, by the builders. */
  params: S;
}

export interface Plain extends Description {
  /** The params as JSON Schema; without one there are none. */
  paramsSchema?: JSONSchema;
}

const jsonOf = (schema: { json?: unknown } | JSONSchema): JSONSchema => ("json" in schema ? (schema.json as JSONSchema) : schema);

/** One thing that a skill can do. */
export class Capability {
  readonly paramsSchema: JSONSchema;
  #about: Description;

  constructor(readonly id: string, about: Description & { params?: Shape; paramsSchema?: JSONSchema }, readonly run: Handler<any>) {
    const { params, paramsSchema, ...others } = about;
    this.paramsSchema = paramsSchema ?? object(params ?? {}).json;
    this.#about = others;
  }

  /** Whether it may run again, so that it needs no memory that lasts. */
  get isRepeatable(): boolean {
    return this.#about.idempotent === true || this.#about.effect === "read";
  }

  /** The capability as agent.register takes it. */
  describe(): Fields {
    const { result, effectKey, effectWindowMs, reconcile: r, ...about } = this.#about;
    return {
      capability_id: this.id,
      params_schema: this.paramsSchema,
      ...(result && { result_schema: jsonOf(result) }),
      ...(effectKey && { effect_key: effectKey }),
      ...(effectWindowMs && { effect_window_ms: effectWindowMs }),
      ...(r && { reconcile: { capability_id: r.capability, params: r.params, done_when: r.doneWhen, not_done_when: r.notDoneWhen } }),
      ...about,
    };
  }

  /** The params of a call as the handler gets them; InvalidParameter if they do not fit. */
  arguments(params: unknown): unknown {
    return check({ type: "object", ...this.paramsSchema }, params, "params");
  }
}

/** A named set of capabilities. */
export class Skill {
  readonly capabilities = new Map<string, Capability>();
  /** @internal */
  takes: Desired | undefined;

  constructor(readonly id: string, readonly about: { name?: string; description?: string; version?: string } = {}) {}

  /** Make a function a capability. It gets the params and the Invocation, and returns the
   * result or a promise of it. */
  capability(id: string, run: Handler<Record<string, never>>): this;
  capability<S extends Shape>(id: string, about: Shaped<S>, run: Handler<Of<S>>): this;
  capability<P = any>(id: string, about: Plain, run: Handler<P>): this;
  capability(id: string, about: Description | Handler<any>, run?: Handler<any>): this {
    if (this.capabilities.has(id)) throw new TypeError(`the skill ${this.id} has the capability ${id} already`);
    const made = typeof about === "function" ? new Capability(id, {}, about) : new Capability(id, about, run!);
    this.capabilities.set(id, made);
    return this;
  }

  /** Have a function take over the desired state of the skill. The bridge checks states
   * against the shape. */
  desired<S extends Shape>(state: S, run: DesiredHandler<Partial<Of<S>>>): this;
  desired<D = any>(state: { schema: JSONSchema }, run: DesiredHandler<D>): this;
  desired(state: any, run: DesiredHandler): this {
    if (this.takes) throw new TypeError(`the skill ${this.id} has a function for its desired state already`);
    this.takes = desired(state, run);
    return this;
  }

  /** The skill as agent.register takes it. */
  describe(): Fields {
    const { name = this.id, version = "1.0.0", description } = this.about;
    const capabilities = [...this.capabilities.values()].map((c) => c.describe());
    return { skill_id: this.id, name, version, ...(description && { description }), ...(this.takes && { state_schema: this.takes.schema }), capabilities };
  }
}
