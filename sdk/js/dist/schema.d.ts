import { type Fields } from "./envelope.js";
export type JSONSchema = Fields;
/** A JSON Schema whose values are of type T. O says that the value may be left out. */
export declare class Schema<T, O extends boolean = false> {
    readonly json: JSONSchema;
    readonly isOptional: O;
    readonly __type: T;
    constructor(json: JSONSchema, isOptional?: O);
    /** The same, with words for people and models. */
    describe(description: string): Schema<T, O>;
    /** The same for a value that may be left out. */
    optional(): Schema<T, true>;
    /** The same for a value that has a default when it is left out. */
    default(value: T): Schema<T, true> & {
        readonly hasDefault: true;
    };
}
export type Shape = Record<string, Schema<any, boolean>>;
type Absent<S extends Shape> = {
    [K in keyof S]: S[K] extends {
        readonly hasDefault: true;
    } ? never : S[K] extends Schema<any, true> ? K : never;
}[keyof S];
/** The type of an object of a shape. */
export type Of<S extends Shape> = {
    [K in Exclude<keyof S, Absent<S>>]: S[K]["__type"];
} & {
    [K in Absent<S>]?: S[K]["__type"];
};
export interface Limits {
    min?: number;
    max?: number;
}
export declare const any: () => Schema<any>;
export declare const boolean: () => Schema<boolean, false>;
export declare const integer: (l?: Limits) => Schema<number, false>;
export declare const number: (l?: Limits) => Schema<number, false>;
/** A text; min and max limit its length. */
export declare const text: (l?: Limits & {
    pattern?: string;
}) => Schema<string, false>;
/** One of these values. */
export declare const oneOf: <const T extends string | number | boolean | null>(...values: T[]) => Schema<T, false>;
/** A list; min and max limit its length. */
export declare const list: <T>(item: Schema<T, boolean>, l?: Limits) => Schema<T[], false>;
/** An object with these fields and no others. */
export declare function object<S extends Shape>(shape: S): Schema<Of<S>>;
/** An object whose fields have any names. */
export declare const record: <T>(value: Schema<T, boolean>) => Schema<Record<string, T>, false>;
/**
 * Hold a value to a schema and return it with defaults filled in; InvalidParameter names
 * what does not fit. Of JSON Schema it knows what the builders make, const and anyOf;
 * other keywords are left to the bridge.
 */
export declare function check(schema: JSONSchema, value: unknown, path: string): unknown;
export {};
