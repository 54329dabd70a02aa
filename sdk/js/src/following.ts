// Following a task to its end.

import type { Client } from "./client.js";
import { isObject, type Fields } from "./envelope.js";
import { TimedOut } from "./errors.js";
import { jsonOf } from "./subscription.js";

const ended = new Set<unknown>(["succeeded", "complete", "partial", "failed", "cancelled"]);
const LOOK = 5000; // ms of silence after which the task is looked at

/**
 * Yield the events of a task, and at the end what task.get says of it. Events may be lost
 * with a connection; the task's state is not: it is looked at before the first event,
 * after every silence and at the end.
 */
export async function* follow(client: Client, taskID: string, timeout: number): AsyncGenerator<Fields, void> {
  const deadline = Date.now() + timeout;
  await client.connect(timeout); // the first level of the topics is known from here on
  const events = await client.subscribe(`${client.root}/task/${taskID}/event`);
  try {
    for (;;) {
      const task = (await client.call("task.get" as string, { task_id: taskID })) as Fields;
      if (ended.has(task["state"])) return yield task;
      for (let over = false; !over; ) {
        const left = deadline - Date.now();
        if (left <= 0) throw new TimedOut(`the task ${taskID} has not ended`);
        const m = await events.next(Math.min(left, LOOK));
        if (m === undefined) break;
        const event = jsonOf(m);
        if (!isObject(event)) continue;
        yield event;
        over = ended.has(String(event["event"]).split(".").pop());
      }
    }
  } finally {
    events.close();
  }
}
