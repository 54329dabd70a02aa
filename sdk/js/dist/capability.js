// A capability: a function with a schema.
import { desired } from "./desired.js";
import { check, object } from "./schema.js";
const jsonOf = (schema) => ("json" in schema ? schema.json : schema);
/** One thing that a skill can do. */
export class Capability {
    id;
    run;
    paramsSchema;
    #about;
    constructor(id, about, run) {
        this.id = id;
        this.run = run;
        const { params, paramsSchema, ...others } = about;
        this.paramsSchema = paramsSchema ?? object(params ?? {}).json;
        this.#about = others;
    }
    /** Whether it may run again, so that it needs no memory that lasts. */
    get isRepeatable() {
        return this.#about.idempotent === true || this.#about.effect === "read";
    }
    /** The capability as agent.register takes it. */
    describe() {
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
    arguments(params) {
        return check({ type: "object", ...this.paramsSchema }, params, "params");
    }
}
/** A named set of capabilities. */
export class Skill {
    id;
    about;
    capabilities = new Map();
    /** @internal */
    takes;
    constructor(id, about = {}) {
        this.id = id;
        this.about = about;
    }
    capability(id, about, run) {
        if (this.capabilities.has(id))
            throw new TypeError(`the skill ${this.id} has the capability ${id} already`);
        const made = typeof about === "function" ? new Capability(id, {}, about) : new Capability(id, about, run);
        this.capabilities.set(id, made);
        return this;
    }
    desired(state, run) {
        if (this.takes)
            throw new TypeError(`the skill ${this.id} has a function for its desired state already`);
        this.takes = desired(state, run);
        return this;
    }
    /** The skill as agent.register takes it. */
    describe() {
        const { name = this.id, version = "1.0.0", description } = this.about;
        const capabilities = [...this.capabilities.values()].map((c) => c.describe());
        return { skill_id: this.id, name, version, ...(description && { description }), ...(this.takes && { state_schema: this.takes.schema }), capabilities };
    }
}
