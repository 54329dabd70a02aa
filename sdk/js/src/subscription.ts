// Subscriptions that last over reconnections.

import type { Client } from "./client.js";
import { Lost, type Connection, type Received } from "./connection.js";
import { isObject, type Fields } from "./envelope.js";
import { InvalidParameter, PermissionDenied } from "./errors.js";
import { Queue } from "./wait.js";

export const MAX_WAITING = 1024; // messages of a subscription; more are dropped
const PATIENCE = 30_000;

export type Handle = (m: Received) => void | Promise<void>;

/** A handler of messages that passes on the JSON objects in them; an empty message is an
 * empty object. */
export function onObject(handle: (value: Fields) => void | Promise<void>): Handle {
  return (m) => {
    const value: unknown = m.payload.length > 0 ? jsonOf(m) : {};
    return isObject(value) ? handle(value) : undefined;
  };
}

/** The JSON in a message. */
export const jsonOf = (m: Received): unknown => JSON.parse(new TextDecoder().decode(m.payload));

/** Whether a filter covers a topic, by the rules of MQTT. */
export function covers(filter: string, topic: string): boolean {
  const [wanted, levels] = [filter.split("/"), topic.split("/")];
  if (levels[0]!.startsWith("$") && /^[+#]$/.test(wanted[0]!)) return false;
  for (const [i, level] of wanted.entries()) {
    if (level === "#") return true;
    if (i >= levels.length || (level !== "+" && level !== levels[i])) return false;
  }
  return wanted.length === levels.length;
}

/** Messages on topics that a filter covers: for a handler, or by iteration. */
export class Subscription implements AsyncIterable<Received> {
  isClosed = false;
  #owner: Subscriptions;
  #waiting = new Queue<Received | undefined>();
  #pattern: string;

  constructor(owner: Subscriptions, readonly filter: string, readonly qos: 0 | 1, handle?: Handle) {
    this.#owner = owner;
    this.#pattern = filter.startsWith("$share/") ? filter.split("/").slice(2).join("/") : filter;
    if (handle) void this.#run(handle);
  }

  /** The next message; undefined when the milliseconds are over or the subscription has ended. */
  next(ms?: number): Promise<Received | undefined> {
    return this.isClosed && this.#waiting.length === 0 ? Promise.resolve(undefined) : this.#waiting.take(ms);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Received> {
    try {
      for (let m = await this.next(); m !== undefined; m = await this.next()) yield m;
    } finally {
      this.close();
    }
  }

  /** End the subscription. */
  close(): void {
    if (this.isClosed) return;
    this.#owner.remove(this);
    this.end();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** @internal */
  end(): void {
    this.isClosed = true;
    this.#waiting.put(undefined);
  }

  /** @internal */
  put(m: Received): void {
    if (!covers(this.#pattern, m.topic)) return;
    if (this.#waiting.length < MAX_WAITING) this.#waiting.put(m);
    else this.#owner.log.warn(`a message on ${m.topic} is dropped: ${MAX_WAITING} wait`);
  }

  async #run(handle: Handle): Promise<void> {
    for (let m = await this.next(); m !== undefined && !this.isClosed; m = await this.next()) {
      try {
        await handle(m);
      } catch (e) {
        this.#owner.log.error(`the handler of ${this.filter} failed:`, e);
      }
    }
  }
}

/** All subscriptions of a client. */
export class Subscriptions {
  #client: Client;
  #all = new Set<Subscription>();

  constructor(client: Client) {
    this.#client = client;
  }

  get log() {
    return this.#client.log;
  }

  async open(filter: string, handle: Handle | undefined, qos: 0 | 1): Promise<Subscription> {
    const s = new Subscription(this, filter, qos, handle);
    this.#all.add(s);
    let code: number;
    try {
      const link = await this.#client.online(Date.now() + PATIENCE);
      [code] = (await link.subscribe([[filter, qos]])) as [number];
    } catch (e) {
      if (e instanceof Lost) return s; // the next connection has it
      s.close();
      throw e;
    }
    if (code < 0x80) return s;
    s.close();
    throw new (code === 0x87 ? PermissionDenied : InvalidParameter)(`the bridge refuses the subscription to ${filter}: reason ${code}`);
  }

  /** Subscribe to everything on a new connection. What is refused now is logged. */
  async restore(link: Connection): Promise<void> {
    const wanted = new Map([...this.#all].map((s) => [s.filter, s.qos] as const));
    const filters = [...wanted.keys()];
    for (const [i, code] of (await link.subscribe(wanted)).entries()) {
      if (code >= 0x80) this.log.warn(`the bridge refuses the subscription to ${filters[i]}: reason ${code}`);
    }
  }

  deliver(m: Received): void {
    for (const s of this.#all) s.put(m);
  }

  remove(s: Subscription): void {
    this.#all.delete(s);
    if (![...this.#all].some((other) => other.filter === s.filter)) this.#client.readyLink?.unsubscribe(s.filter);
  }

  close(): void {
    for (const s of this.#all) s.end();
    this.#all.clear();
  }
}
