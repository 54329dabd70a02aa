// What an agent sends, and sends again until the bridge has it.

import type { Client } from "./client.js";
import { Lost, type Message } from "./connection.js";
import { VERSION } from "./envelope.js";
import { pause } from "./wait.js";

const MAX_WAITING = 1024; // answers on their way; the oldest is dropped for another
const WORTH = 300_000; // ms that an answer is worth sending
const LOOK = 5;

export type Correlation = Uint8Array | string | undefined;

/**
 * Answers leave at once if there is a connection, else over the next one. Nobody waits
 * for them. An answer that was lost with a connection is sent again; the bridge takes
 * the first one.
 */
export class Outbox {
  #client: Client;
  #agentID: string;
  #waiting = new Map<Message, number>(); // until when, in Unix milliseconds

  constructor(client: Client, agentID: string) {
    this.#client = client;
    this.#agentID = agentID;
  }

  /** Send an answer, over the next connection if need be. */
  send(payload: string, correlation: Correlation): void {
    const m = this.#message(payload, correlation);
    if (this.#waiting.size >= MAX_WAITING) this.#waiting.delete(this.#waiting.keys().next().value!);
    this.#waiting.set(m, Date.now() + WORTH);
    void this.#try(m);
  }

  /** Send an event, if there is a connection with room for it. */
  sendOnce(payload: string, correlation: Correlation): void {
    const link = this.#client.readyLink;
    if (link && !link.crowded) link.publish(this.#message(payload, correlation)).catch(() => {});
  }

  /** Hold up a stream that is faster than the connection, unless it is to end. */
  async waitForRoom(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.#client.readyLink?.crowded) await pause(LOOK, signal);
  }

  /** Send again, over a new connection, what the last one took with it. */
  resend(): void {
    for (const [m, until] of [...this.#waiting]) {
      if (until > Date.now()) void this.#try(m);
      else this.#waiting.delete(m);
    }
  }

  /** Wait until everything has left, if there is a connection. */
  async flush(ms: number): Promise<void> {
    const deadline = Date.now() + ms;
    while (this.#waiting.size > 0 && this.#client.readyLink && Date.now() < deadline) await pause(LOOK);
  }

  async #try(m: Message): Promise<void> {
    try {
      // The first level of the topics may be another one than when it was made.
      await this.#client.readyLink?.publish({ ...m, topic: this.#topic }).then(() => this.#waiting.delete(m));
    } catch (e) {
      if (!(e instanceof Lost)) this.#waiting.delete(m); // else the next connection has it
    }
  }

  get #topic(): string {
    return `${this.#client.root}/agent/${this.#agentID}/response`;
  }

  #message(payload: string, correlation: Correlation): Message {
    const m = { topic: this.#topic, payload, qos: 1 as const, contentType: "application/json", properties: { version: VERSION } };
    return correlation === undefined ? m : { ...m, correlation };
  }
}
