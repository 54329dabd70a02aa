import { type Desired, type DesiredHandler } from "./desired.js";
import type { Fields } from "./envelope.js";
import type { Invocation } from "./invocation.js";
import { type JSONSchema, type Of, type Schema, type Shape } from "./schema.js";
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
/** One thing that a skill can do. */
export declare class Capability {
    #private;
    readonly id: string;
    readonly run: Handler<any>;
    readonly paramsSchema: JSONSchema;
    constructor(id: string, about: Description & {
        params?: Shape;
        paramsSchema?: JSONSchema;
    }, run: Handler<any>);
    /** Whether it may run again, so that it needs no memory that lasts. */
    get isRepeatable(): boolean;
    /** The capability as agent.register takes it. */
    describe(): Fields;
    /** The params of a call as the handler gets them; InvalidParameter if they do not fit. */
    arguments(params: unknown): unknown;
}
/** A named set of capabilities. */
export declare class Skill {
    readonly id: string;
    readonly about: {
        name?: string;
        description?: string;
        version?: string;
    };
    readonly capabilities: Map<string, Capability>;
    /** @internal */
    takes: Desired | undefined;
    constructor(id: string, about?: {
        name?: string;
        description?: string;
        version?: string;
    });
    /** Make a function a capability. It gets the params and the Invocation, and returns the
     * result or a promise of it. */
    capability(id: string, run: Handler<Record<string, never>>): this;
    capability<S extends Shape>(id: string, about: Shaped<S>, run: Handler<Of<S>>): this;
    capability<P = any>(id: string, about: Plain, run: Handler<P>): this;
    /** Have a function take over the desired state of the skill. The bridge checks states
     * against the shape. */
    desired<S extends Shape>(state: S, run: DesiredHandler<Partial<Of<S>>>): this;
    desired<D = any>(state: {
        schema: JSONSchema;
    }, run: DesiredHandler<D>): this;
    /** The skill as agent.register takes it. */
    describe(): Fields;
}
