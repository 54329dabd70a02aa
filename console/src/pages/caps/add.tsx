// Adding a member to a group; the first one makes the group.
import { Button, call, Failure, h, offNow, Said, SchemaForm, problems, useState, type Commands, type Schema } from "../../core";

const schema: Schema = {
  type: "object",
  required: ["skill_id", "group_id", "role"],
  properties: {
    skill_id: { type: "string", title: "Skill", maxLength: 64, description: "it need not be registered yet" },
    group_id: { type: "string", title: "Group", maxLength: 64, description: "made by its first member" },
    role: { type: "string", title: "Role", maxLength: 64, description: "what it is in the group" },
  },
};

/** The form for a new member, of a group if it is known. */
export function AddMember({ cap, group, onDone }: { cap: string; group?: string; onDone: () => void }) {
  const [value, setValue] = useState<Record<string, unknown>>(group ? { group_id: group } : {});
  const [tried, setTried] = useState(false);
  const [error, setError] = useState<Failure>();
  const wrong = problems(schema, value);
  if (error?.param) wrong[error.param] ??= String(error.details.reason ?? error.message);
  const { [group ? "group_id" : "none"]: _, ...properties } = schema.properties!;
  const add = async () => {
    setTried(true);
    if (Object.keys(problems(schema, value)).length || offNow()) return;
    try {
      await call("group.member.add", { cap_id: cap, ...value } as Commands["group.member.add"]["params"]);
      onDone();
    } catch (e) {
      setError(e as Failure);
    }
  };
  return (
    <form class="body stack part" onSubmit={(e) => (e.preventDefault(), void add())}>
      <SchemaForm schema={{ ...schema, properties }} value={value} onChange={(v) => (setValue(v), setError(undefined))} wrong={wrong} all={tried} id="add" />
      <div class="line wrap">
        <Button main type="submit" not={offNow()}>Add the member</Button>
        <Button quiet onClick={onDone}>Close</Button>
        {error && !error.param && <span class="failed small" role="alert"><Said error={error} /></span>}
      </div>
    </form>
  );
}
