import type { Client } from "./client.js";
import { type Fields } from "./envelope.js";
/**
 * Yield the events of a task, and at the end what task.get says of it. Events may be lost
 * with a connection; the task's state is not: it is looked at before the first event,
 * after every silence and at the end.
 */
export declare function follow(client: Client, taskID: string, timeout: number): AsyncGenerator<Fields, void>;
