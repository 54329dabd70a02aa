// Schemas: what a capability takes, as JSON Schema, with its TypeScript type.

import { InvalidParameter } from "./errors.js";
import { isObject, type Fields } from "./envelope.js";

export type JSONSchema = Fields;

/** A JSON Schema whose values are of type T. O says that the value may be left out. */
export class Schema<T, O extends boolean = false> {
  declare readonly __type: T; // for the compiler alone

  constructor(readonly json: JSONSchema, readonly isOptional: O = false as O) {}

  /** The same, with words for people and models. */
  describe(description: string): Schema<T, O> {
    return new Schema<T, O>({ ...this.json, description }, this.isOptional);
  }

  /** The same for a value that may be left out. */
  optional(): Schema<T, true> {
    return new Schema<T, true>(this.json, true);
  }

  /** The same for a value that has a default when it is left out. */
  default(value: T): Schema<T, true> & { readonly hasDefault: true } {
    return new Schema<T, true>({ ...this.json, default: value }, true) as Schema<T, true> & { readonly hasDefault: true };
  }
}

export type Shape = Record<string, Schema<any, boolean>>;

type Absent<S extends Shape> = {
  [K in keyof S]: S[K] extends { readonly hasDefault: true } ? never : S[K] extends Schema<any, true> ? K : never;
}[keyof S];

/** The type of an object of a shape. */
export type Of<S extends Shape> = { [K in Exclude<keyof S, Absent<S>>]: S[K]["__type"] } & { [K in Absent<S>]?: S[K]["__type"] };

export interface Limits {
  min?: number;
  max?: number;
}

const limits = (names: [string, string], { min, max }: Limits): JSONSchema => ({
  ...(min !== undefined && { [names[0]]: min }),
  ...(max !== undefined && { [names[1]]: max }),
});

export const any = (): Schema<any> => new Schema({});
export const boolean = () => new Schema<boolean>({ type: "boolean" });
export const integer = (l: Limits = {}) => new Schema<number>({ type: "integer", ...limits(["minimum", "maximum"], l) });
export const number = (l: Limits = {}) => new Schema<number>({ type: "number", ...limits(["minimum", "maximum"], l) });

/** A text; min and max limit its length. */
export const text = (l: Limits & { pattern?: string } = {}) =>
  new Schema<string>({ type: "string", ...limits(["minLength", "maxLength"], l), ...(l.pattern !== undefined && { pattern: l.pattern }) });

/** One of these values. */
export const oneOf = <const T extends string | number | boolean | null>(...values: T[]) => new Schema<T>({ enum: values });

/** A list; min and max limit its length. */
export const list = <T>(item: Schema<T, boolean>, l: Limits = {}) =>
  new Schema<T[]>({ type: "array", items: item.json, ...limits(["minItems", "maxItems"], l) });

/** An object with these fields and no others. */
export function object<S extends Shape>(shape: S): Schema<Of<S>> {
  const fields = Object.entries(shape);
  const required = fields.filter(([, s]) => !s.isOptional).map(([name]) => name);
  return new Schema<Of<S>>({
    type: "object",
    properties: Object.fromEntries(fields.map(([name, s]) => [name, s.json])),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  });
}

/** An object whose fields have any names. */
export const record = <T>(value: Schema<T, boolean>) => new Schema<Record<string, T>>({ type: "object", additionalProperties: value.json });

/**
 * Hold a value to a schema and return it with defaults filled in; InvalidParameter names
 * what does not fit. Of JSON Schema it knows what the builders make, const and anyOf;
 * other keywords are left to the bridge.
 */
export function check(schema: JSONSchema, value: unknown, path: string): unknown {
  const fail = (reason: string): never => {
    throw InvalidParameter.at(path, reason);
  };
  const wrong = mismatch(schema, value);
  if (wrong) fail(wrong);
  if (Array.isArray(schema["anyOf"])) checkAny(schema["anyOf"] as JSONSchema[], value, path);
  if (Array.isArray(value)) {
    const items = schema["items"];
    return isObject(items) ? value.map((item, i) => check(items, item, `${path}[${i}]`)) : value;
  }
  return isObject(value) ? checkFields(schema, value, path) : value;
}

function checkAny(choices: JSONSchema[], value: unknown, path: string): void {
  for (const choice of choices) {
    try {
      check(choice, value, path);
      return;
    } catch (e) {
      if (!(e instanceof InvalidParameter)) throw e;
    }
  }
  throw InvalidParameter.at(path, "fits none of the possible schemas");
}

function checkFields(schema: JSONSchema, value: Fields, path: string): Fields {
  const properties = (schema["properties"] ?? {}) as Record<string, JSONSchema>;
  for (const name of (schema["required"] ?? []) as string[]) {
    if (!Object.hasOwn(value, name)) throw InvalidParameter.at(`${path}.${name}`, "is required");
  }
  const entries = Object.entries(value).map(([name, inner]) => {
    const known = Object.hasOwn(properties, name) ? properties[name] : schema["additionalProperties"];
    if (known === false) throw InvalidParameter.at(`${path}.${name}`, "is not known");
    return [name, isObject(known) ? check(known, inner, `${path}.${name}`) : inner];
  });
  const defaults = Object.entries(properties).filter(([name, s]) => "default" in s && !Object.hasOwn(value, name));
  return Object.fromEntries([...entries, ...defaults.map(([name, s]) => [name, structuredClone(s["default"])])]) as Fields;
}

/** What is wrong with a value itself, undefined if nothing is. */
function mismatch(schema: JSONSchema, value: unknown): string | undefined {
  const types = [schema["type"] ?? []].flat() as string[];
  if (types.length > 0 && !types.some((type) => isOf(type, value))) return `must be ${types.map(article).join(" or ")}`;
  const choices = "const" in schema ? [schema["const"]] : schema["enum"];
  if (Array.isArray(choices) && !choices.some((c) => same(c, value))) return `must be one of ${choices.map((c) => JSON.stringify(c)).join(", ")}`;
  if (typeof value === "number") return outside(schema, ["minimum", "maximum"], value, "");
  if (Array.isArray(value)) return outside(schema, ["minItems", "maxItems"], value.length, " items");
  if (typeof value !== "string") return undefined;
  const pattern = schema["pattern"];
  if (typeof pattern === "string" && !new RegExp(pattern, "u").test(value)) return `must match ${pattern}`;
  return outside(schema, ["minLength", "maxLength"], [...value].length, " characters");
}

const same = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b);

const article = (type: string): string => (type === "null" ? "null" : /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`);

function isOf(type: string, value: unknown): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

function outside(schema: JSONSchema, [low, high]: [string, string], n: number, unit: string): string | undefined {
  const [min, max] = [schema[low], schema[high]];
  if (typeof min === "number" && n < min) return `must be at least ${min}${unit}, is ${n}`;
  if (typeof max === "number" && n > max) return `must be at most ${max}${unit}, is ${n}`;
  return undefined;
}
