// Envelopes: the JSON objects on the wire (docs/protocol.md#envelopes).

export const VERSION = "0.6.3";
export const MAX_BYTES = 1 << 20; // of a message
const MAX_DEPTH = 64;

export type Fields = Record<string, unknown>;

/** An event about a call or a task. */
export interface BridgeEvent extends Fields {
  event: string;
  seq?: number;
  data?: Fields;
}

export const newID = (): string => crypto.randomUUID();

export const isObject = (v: unknown): v is Fields => typeof v === "object" && v !== null && !Array.isArray(v);

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The bytes of a text in UTF-8. */
export const bytesOf = (text: string): Uint8Array => encoder.encode(text);
export const sizeOf = (text: string): number => (text.length * 3 <= MAX_BYTES ? text.length : bytesOf(text).length);

/** The envelope in a payload, undefined if there is none. */
export function decode(payload: Uint8Array): Fields | undefined {
  if (payload.length > 2 * MAX_BYTES) return undefined;
  try {
    const value: unknown = JSON.parse(decoder.decode(payload));
    return isObject(value) && isSound(value) ? value : undefined;
  } catch {
    return undefined; // not UTF-8, not JSON, or nested beyond what the parser takes
  }
}

/** Whether a value is nested within bounds and can be told on: a lone surrogate cannot. */
function isSound(value: unknown, depth = 0): boolean {
  if (typeof value === "string") return !/\p{Surrogate}/u.test(value);
  if (typeof value !== "object" || value === null) return true;
  if (depth >= MAX_DEPTH) return false;
  return Object.entries(value).every(([key, inner]) => isSound(key) && isSound(inner, depth + 1));
}

export function request(command: string, params: unknown, metadata: Fields, id: string): string {
  return JSON.stringify({ version: VERSION, id, timestamp: Date.now(), type: "request", command, params, metadata });
}

/** Whom an answer is from and what it answers. */
export interface Origin {
  id: string;
  sender: string;
  trace: string | undefined;
}

export function response(origin: Origin, result: unknown, error: unknown = null): string {
  const outcome = { status: error === null ? "success" : "failed", result: result ?? {}, error };
  return wire(origin, "response", outcome);
}

export function event(origin: Origin, name: string, seq: number, data: Fields): string {
  return wire(origin, "event", { event: name, seq, data });
}

function wire({ id, sender, trace }: Origin, type: string, fields: Fields): string {
  const metadata = { sender_id: sender, ...(trace && { trace_id: trace }) };
  return JSON.stringify({ version: VERSION, id, timestamp: Date.now(), type, ...fields, metadata });
}
