// Desired and reported state: what a device shall be, and what it is.
import { isObject } from "./envelope.js";
import { object } from "./schema.js";
import { onObject } from "./subscription.js";
/** The declaration of a state, whose fields may be set one by one. */
export function desired(state, run) {
    if (isObject(state["schema"]) && !("json" in state["schema"]))
        return { schema: state["schema"], run };
    const { required: _, ...schema } = object(state).json;
    return { schema: schema, run };
}
/** Has skills made what they shall be, one message after the other. */
export async function followDesired(client, agent, skills, report) {
    await client.subscribe(`${client.root}/agent/${agent}/state/delta`, onObject(async (delta) => {
        for (const [id, wanted] of Object.entries(delta)) {
            const takes = skills.get(id)?.takes;
            if (!takes || !isObject(wanted))
                continue;
            try {
                const reported = await takes.run(wanted);
                if (reported)
                    await report(reported, id);
            }
            catch (e) {
                client.log.error(`the desired state of ${id} is not taken over:`, e);
            }
        }
    }));
}
