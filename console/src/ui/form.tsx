// A form made of a JSON Schema: a field for each property, required ones
// first, the rest under "more"; what no field is made for is JSON.
import { h } from "preact";
import { useState } from "preact/hooks";
import { Mark } from "./marks";
import { Pick } from "./parts";

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minItems?: number;
  maxItems?: number;
  format?: string;
  unit?: string;
  "x-unit"?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
}

type Value = Record<string, unknown>;

const typeOf = (s: Schema) => (Array.isArray(s.type) ? s.type.find((t) => t !== "null") : (s.type ?? (s.properties ? "object" : undefined)));

/** "for_seconds" as "For seconds". */
export const titleOf = (name: string, s?: Schema) => s?.title ?? (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ");

export const unitOf = (s: Schema) => s.unit ?? s["x-unit"];

/** What the values must be, in a few words. */
export function limits(s: Schema): string {
  const { minimum: low, maximum: high } = s;
  const n = (x: number) => String(x).replace("-", "−");
  if (low !== undefined && high !== undefined) return `${n(low)} to ${n(high)}`;
  if (low !== undefined) return `${n(low)} or more`;
  if (high !== undefined) return `at most ${n(high)}`;
  if (s.maxLength !== undefined && s.maxLength < 1000) return `at most ${s.maxLength} characters`;
  return "";
}

/** What is wrong with a value, by the path of its field: {"params.celsius": "at most 30"}. */
export function problems(s: Schema, value: unknown, at = ""): Record<string, string> {
  const wrong = problem(s, value);
  if (wrong) return { [at]: wrong };
  if (typeOf(s) !== "object" || !value || typeof value !== "object") return {};
  const found: Record<string, string> = {};
  for (const [name, field] of Object.entries(s.properties ?? {})) {
    const path = at ? `${at}.${name}` : name;
    const inner = (value as Value)[name];
    if (inner === undefined || inner === "") {
      if (s.required?.includes(name) && !(inner === "" && field.minLength === 0)) found[path] = "is needed";
    } else Object.assign(found, problems(field, inner, path));
  }
  return found;
}

function problem(s: Schema, v: unknown): string {
  if (v === undefined) return "";
  if (v instanceof Unreadable) return "is not JSON";
  if (s.enum && !s.enum.some((e) => JSON.stringify(e) === JSON.stringify(v))) return "is none of those";
  switch (typeOf(s)) {
    case "integer":
    case "number":
      if (typeof v !== "number" || Number.isNaN(v)) return "must be a number";
      if (typeOf(s) === "integer" && !Number.isInteger(v)) return "must be a whole number";
      if (s.minimum !== undefined && v < s.minimum) return `at least ${s.minimum}`;
      if (s.maximum !== undefined && v > s.maximum) return `at most ${s.maximum}`;
      if (s.exclusiveMinimum !== undefined && v <= s.exclusiveMinimum) return `more than ${s.exclusiveMinimum}`;
      if (s.exclusiveMaximum !== undefined && v >= s.exclusiveMaximum) return `less than ${s.exclusiveMaximum}`;
      return "";
    case "string":
      if (typeof v !== "string") return "must be text";
      if (s.minLength !== undefined && [...v].length < s.minLength) return `at least ${s.minLength} characters`;
      if (s.maxLength !== undefined && [...v].length > s.maxLength) return `at most ${s.maxLength} characters`;
      if (s.pattern) {
        try {
          if (!new RegExp(s.pattern, "u").test(v)) return `must match ${s.pattern}`;
        } catch {
          return ""; // the bridge knows more of its pattern
        }
      }
      return "";
    case "boolean":
      return typeof v === "boolean" ? "" : "must be true or false";
    case "array":
      if (!Array.isArray(v)) return "must be a list";
      if (s.minItems !== undefined && v.length < s.minItems) return `at least ${s.minItems} of them`;
      if (s.maxItems !== undefined && v.length > s.maxItems) return `at most ${s.maxItems} of them`;
  }
  return "";
}

/** Text that was meant to be JSON. */
class Unreadable {
  constructor(readonly text: string) {}
}

/** Whether somebody has typed what is no JSON. */
export const unreadable = (v: unknown) => v instanceof Unreadable;

/** A form for the properties of a schema. wrong has what is wrong by the path
 * of the field; it is shown for fields that were left, or all if all is set. */
export function SchemaForm({ schema, value, onChange, wrong = {}, all, id = "f", at = "" }: { schema: Schema; value: Value; onChange: (v: Value) => void; wrong?: Record<string, string>; all?: boolean; id?: string; at?: string }) {
  const names = Object.keys(schema.properties ?? {});
  const needed = names.filter((n) => schema.required?.includes(n));
  const rest = names.filter((n) => !needed.includes(n));
  const few = needed.length === 0 || names.length <= 6;
  const first = few ? [...needed, ...rest] : needed;
  const field = (name: string) => {
    const path = at ? `${at}.${name}` : name;
    return (
      <Field
        key={name}
        name={name}
        path={path}
        id={`${id}-${path}`}
        schema={schema.properties![name]}
        needed={needed.includes(name)}
        value={value[name]}
        wrong={wrong}
        all={all}
        onChange={(v) => {
          const next = { ...value };
          if (v === undefined) delete next[name];
          else next[name] = v;
          onChange(next);
        }}
      />
    );
  };
  if (names.length === 0) return <p class="small dim">It takes no parameters.</p>;
  return (
    <div class="stack">
      <div class="fields">{first.map(field)}</div>
      {!few && rest.length > 0 && (
        <details>
          <summary class="small">More: {rest.map((n) => titleOf(n, schema.properties![n])).join(", ")}</summary>
          <div class="fields">{rest.map(field)}</div>
        </details>
      )}
    </div>
  );
}

interface FieldProps {
  name: string;
  path: string;
  id: string;
  schema: Schema;
  needed: boolean;
  value: unknown;
  wrong: Record<string, string>;
  all?: boolean;
  onChange: (v: unknown) => void;
}

function Field(p: FieldProps) {
  const [left, setLeft] = useState(false);
  const error = (left || p.all) && p.wrong[p.path];
  const type = typeOf(p.schema);
  const label = titleOf(p.name, p.schema);
  if (type === "object" && Object.keys(p.schema.properties ?? {}).length > 0)
    return (
      <fieldset class="field wide">
        <legend class="lab">{label}</legend>
        <SchemaForm schema={p.schema} value={(p.value as Value) ?? {}} onChange={p.onChange} wrong={p.wrong} all={p.all} id={p.id} at={p.path} />
      </fieldset>
    );
  const hint = [limits(p.schema), p.schema.description].filter(Boolean).join(" · ");
  const input = {
    id: p.id,
    "aria-invalid": error ? true : undefined,
    "aria-required": p.needed || undefined,
    "aria-describedby": error ? p.id + "-e" : hint ? p.id + "-h" : undefined,
    onBlur: () => setLeft(true),
    class: error ? "in bad" : "in",
  };
  return (
    <div class={wide(p.schema, type) ? "field wide" : "field"}>
      <label class="lab" for={p.id}>
        {label}{" "}
        {p.needed && (
          <span class="failed" aria-hidden="true">
            *
          </span>
        )}
      </label>
      <Input {...p} type={type} input={input} />
      {hint && (
        <span class="hint" id={p.id + "-h"}>
          {hint}
        </span>
      )}
      {error && (
        <span class="err" id={p.id + "-e"}>
          <Mark is="failed" />
          {error}
        </span>
      )}
    </div>
  );
}

const wide = (s: Schema, type?: string) => !type || type === "object" || type === "array" || (type === "string" && !s.enum && (s.maxLength ?? 0) > 200);

function Input({ schema, value, type, input, onChange }: FieldProps & { type?: string; input: Record<string, any> }) {
  if (schema.enum)
    return (
      <select {...input} value={value === undefined ? "" : JSON.stringify(value)} onChange={(e) => onChange(e.currentTarget.value ? JSON.parse(e.currentTarget.value) : undefined)}>
        <option value="">{schema.default === undefined ? "–" : `${String(schema.default)}, if left out`}</option>
        {schema.enum.map((v) => (
          <option value={JSON.stringify(v)}>{typeof v === "string" ? v : JSON.stringify(v)}</option>
        ))}
      </select>
    );
  switch (type) {
    case "boolean":
      return (
        <Pick
          label={String(input.id)}
          value={value === undefined ? "" : String(value)}
          onPick={(v) => onChange(v === "" ? undefined : v === "true")}
          of={[{ id: "true", word: "true" }, { id: "false", word: "false" }, ...(value === undefined ? [] : [{ id: "", word: "leave out" }])]}
        />
      );
    case "integer":
    case "number": {
      const unit = unitOf(schema);
      const field = <NumberInput input={input} value={value} onChange={onChange} placeholder={schema.default} />;
      return unit ? (
        <span class="unit">
          {field}
          <span>{unit}</span>
        </span>
      ) : (
        field
      );
    }
    case "string":
      if ((schema.maxLength ?? 0) > 200) return <textarea {...input} rows={3} value={(value as string) ?? ""} onInput={(e) => onChange(e.currentTarget.value || undefined)} />;
      return <input {...input} value={(value as string) ?? ""} placeholder={schema.default === undefined ? undefined : String(schema.default)} onInput={(e) => onChange(e.currentTarget.value || undefined)} />;
    case "array":
      if (typeOf(schema.items ?? {}) === "string" && !schema.items?.enum)
        return <textarea {...input} rows={2} placeholder="one a line" value={Array.isArray(value) ? value.join("\n") : ""} onInput={(e) => onChange(e.currentTarget.value ? e.currentTarget.value.split("\n") : undefined)} />;
  }
  return <JsonInput input={input} value={value} onChange={onChange} />;
}

function NumberInput({ input, value, placeholder, onChange }: { input: Record<string, any>; value: unknown; placeholder: unknown; onChange: (v: unknown) => void }) {
  const [text, setText] = useState(value === undefined ? "" : String(value));
  const shown = value === undefined || Number.isNaN(value) || Number(text) === value ? text : String(value);
  return (
    <input
      {...input}
      inputMode="decimal"
      value={shown}
      placeholder={placeholder === undefined ? undefined : String(placeholder)}
      onInput={(e) => {
        const typed = e.currentTarget.value.trim().replace("−", "-");
        setText(e.currentTarget.value);
        onChange(typed === "" ? undefined : Number(typed.replace(",", ".")));
      }}
    />
  );
}

/** Anything, as JSON. */
export function JsonInput({ input, value, onChange }: { input: Record<string, any>; value: unknown; onChange: (v: unknown) => void }) {
  const [text, setText] = useState(value === undefined ? "" : value instanceof Unreadable ? value.text : JSON.stringify(value, null, 2));
  return (
    <textarea
      {...input}
      class={input.class + " mono"}
      rows={Math.min(10, Math.max(2, text.split("\n").length))}
      spellcheck={false}
      value={text}
      onInput={(e) => {
        const typed = e.currentTarget.value;
        setText(typed);
        if (!typed.trim()) return onChange(undefined);
        try {
          onChange(JSON.parse(typed));
        } catch {
          onChange(new Unreadable(typed));
        }
      }}
    />
  );
}
