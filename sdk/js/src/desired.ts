// Desired and reported state: what a device shall be, and what it is.

import type { Client } from "./client.js";
import { isObject, type Fields } from "./envelope.js";
import type { Skill } from "./capability.js";
import { object, type JSONSchema, type Shape } from "./schema.js";
import { onObject } from "./subscription.js";

/** Makes a device what it shall be. delta is the part of the desired state that the
 * reported one lacks, also what was set while the device was away. What it returns is
 * reported, as a merge patch; undefined reports nothing. Of an error the bridge learns
 * nothing: the delta stays. */
export type DesiredHandler<D = any> = (delta: D) => Fields | void | Promise<Fields | void>;

export interface Desired {
  readonly schema: JSONSchema;
  readonly run: DesiredHandler;
}

/** The declaration of a state, whose fields may be set one by one. */
export function desired(state: Shape | { schema: JSONSchema }, run: DesiredHandler): Desired {
  if (isObject(state["schema"]) && !("json" in (state["schema"] as object))) return { schema: state["schema"] as JSONSchema, run };
  const { required: _, ...schema } = object(state as Shape).json as Fields;
  return { schema: schema as JSONSchema, run };
}

/** Has skills made what they shall be, one message after the other. */
export async function followDesired(client: Client, agent: string, skills: Map<string, Skill>, report: (state: Fields, skill: string) => Promise<void>): Promise<void> {
  await client.subscribe(
    `${client.root}/agent/${agent}/state/delta`,
    onObject(async (delta) => {
      for (const [id, wanted] of Object.entries(delta)) {
        const takes = skills.get(id)?.takes;
        if (!takes || !isObject(wanted)) continue;
        try {
          const reported = await takes.run(wanted);
          if (reported) await report(reported, id);
        } catch (e) {
          client.log.error(`the desired state of ${id} is not taken over:`, e);
        }
      }
    }),
  );
}
