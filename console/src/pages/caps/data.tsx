// The values that a group shares, as they change, with what they were.
import {
  Ago, Answer, AsOf, Button, bytes, call, Code, Empty, Failure, Fragment, h, Json, JsonInput, may, number, offNow, Panel, query, Said, setQuery, Spark, Table, Time, time, unreadable,
  useLive, useRows, useState, type Commands,
} from "../../core";
import type { Group } from "./group";

type Value = Commands["group.data.list"]["result"]["values"][number];

const types = ["string", "number", "integer", "float", "boolean", "object", "array", "json", "binary"] as const;

const short = (v: unknown) => {
  const text = JSON.stringify(v) ?? "";
  return text.length > 80 ? text.slice(0, 79) + "…" : text;
};

const linkTo = (key: string) => {
  const params = new URLSearchParams(location.search);
  key ? params.set("value", key) : params.delete("value");
  return location.pathname + (params.size ? `?${params}` : "");
};

const numbersOf = (v: Value) => {
  const points = (v.history ?? []).map((c) => c.data_value);
  return points.length > 1 && points.every((p) => typeof p === "number") ? (points as number[]) : [];
};

export function Data({ g }: { g: Group }) {
  const params = { cap_id: g.cap_id, group_id: g.group_id, history: true, sort: query("sort") || undefined };
  const rows = useRows<Value>("group.data.list", params, "values", { on: ["cap"], when: (e) => e.data?.cap_id === g.cap_id && e.data.group_id === g.group_id && e.name.startsWith("group.data") });
  const set = may("group:data.set");
  const making = query("value") === "" && query("set") !== "";
  const chosen = rows.rows.find((v) => v.data_key === query("value"));
  return (
    <Panel title="Values" tight more={<><AsOf />{set && <Button quiet onClick={() => setQuery({ set: making ? "" : "1", value: "" })}>Set a new one</Button>}</>}>
      {making && <SetValue g={g} onDone={() => (setQuery({ set: "" }), rows.reload())} />}
      <Table
        of={rows}
        id={(v) => v.data_key}
        chosen={chosen?.data_key}
        href={(v) => linkTo(v.data_key)}
        label="Values"
        words={{ loading: "Its values", failed: "The values could not be read", action: "group:data.list" }}
        columns={[
          { head: "Name", sort: "id", cell: (v) => <a href={linkTo(v.data_key)}>{v.data_key}</a> },
          { head: "Value", cell: (v) => (v.data_value === undefined ? <span class="dim">{bytes(v.size)}</span> : <code class="cut value">{short(v.data_value)}</code>) },
          { head: "Course", cell: (v) => <Course of={v} />, small: "hide" },
          { head: "Set", sort: "updated_at", cell: (v) => <span class="nowrap"><Ago at={v.updated_at} /> ago</span> },
          { head: "By", sort: "updated_by", cell: (v) => v.updated_by, small: "hide" },
        ]}
        empty={<Empty title="Nothing is shared yet" step={<Code>{`aibridge call group.data.set cap_id=${g.cap_id} group_id=${g.group_id} data_key=level data_type=number data_value=1`}</Code>}>Members set values; all others are told.</Empty>}
      />
      {chosen && <OneValue key={chosen.data_key} g={g} v={chosen} reload={rows.reload} />}
    </Panel>
  );
}

/** How a number went, or how often anything else was set. */
function Course({ of }: { of: Value }) {
  const points = numbersOf(of);
  if (points.length) return <span class="course"><Spark points={lifted(points)} label={`From ${points[0]} to ${points.at(-1)} in ${points.length} steps`} /></span>;
  return <span class="dim">{of.history ? `${number(of.history.length)} values` : "not replaced"}</span>;
}

/** A line from its lowest point, so that a small change is seen. */
const lifted = (points: number[]) => {
  const low = Math.min(...points), high = Math.max(...points);
  return high === low ? points.map(() => 1) : points.map((p) => p - low);
};

function OneValue({ g, v, reload }: { g: Group; v: Value; reload: () => void }) {
  const whole = useLive(v.data_value === undefined ? "group.data.get" : undefined, { cap_id: g.cap_id, group_id: g.group_id, data_key: v.data_key }, { on: ["cap"], when: (e) => e.data?.data_key === v.data_key });
  const [editing, setEditing] = useState(false);
  const points = numbersOf(v);
  const from = v.history?.[0]?.updated_at;
  return (
    <section class="body stack part" aria-label={v.data_key}>
      <div class="line apart">
        <h3>{v.data_key} <span class="dim">{v.data_type}, revision {number(v.revision)}</span></h3>
        <span class="line">
          {may("group:data.set") && <Button onClick={() => setEditing(!editing)}>{editing ? "Leave it" : "Change it"}</Button>}
          <a class="btn quiet" href={linkTo("")}>Close</a>
        </span>
      </div>
      {editing && <SetValue g={g} v={v} now_={v.data_value ?? whole.value.data?.data_value} onDone={() => (setEditing(false), reload())} />}
      <div class={v.history ? "cols c-2" : "stack"}>
        {v.data_value === undefined ? (
          <Answer of={whole} action="group:data.get" loading={v.data_key} failed="The value could not be read">{(d) => <Json value={d.data_value} />}</Answer>
        ) : (
          <Json value={v.data_value} />
        )}
        {v.history && (
          <div class="stack">
            {points.length > 0 && (
              <>
                <Spark points={lifted(points)} label={`From ${points[0]} to ${points.at(-1)}`} />
                <div class="scale small dim"><span>{time(from)}</span><span>{number(Math.min(...points))} to {number(Math.max(...points))}</span><span>{time(v.updated_at)}</span></div>
              </>
            )}
            <ol class="timeline past" aria-label="What it was, the latest first" tabIndex={0}>
              {[...v.history].reverse().map((c) => (
                <li>
                  <Time at={c.updated_at} />
                  <span class="grow cut">{c.data_value === undefined ? <span class="dim">too large to be kept</span> : <code>{short(c.data_value)}</code>}</span>
                  <span class="dim">{c.updated_by}</span>
                </li>
              ))}
            </ol>
            <p class="small dim">The latest {number(v.history.length)}; the bridge keeps them in memory since it started.</p>
          </div>
        )}
      </div>
    </section>
  );
}

/** Sets a value, if it is still the one that is shown; or a new one. */
function SetValue({ g, v, now_, onDone }: { g: Group; v?: Value; now_?: unknown; onDone: () => void }) {
  const [key, setKey] = useState(v?.data_key ?? "");
  const [type, setType] = useState<string>(v?.data_type ?? "json");
  const [value, setValue] = useState<unknown>(now_);
  const [revision] = useState(v?.revision ?? 0);
  const [error, setError] = useState<Failure>();
  const good = key !== "" && value !== undefined && !unreadable(value);
  const params = { cap_id: g.cap_id, group_id: g.group_id, data_key: key, data_type: type as "json", data_value: value, revision };
  const set = () => good && !offNow() && void call("group.data.set", params).then(onDone, setError);
  return (
    <form class={v ? "stack" : "body stack part"} onSubmit={(e) => (e.preventDefault(), set())}>
      <div class="fields">
        {!v && (
          <div class="field">
            <label class="lab" for="set-key">Name</label>
            <input class="in" id="set-key" maxLength={64} value={key} onInput={(e) => setKey(e.currentTarget.value)} />
          </div>
        )}
        <div class="field">
          <label class="lab" for="set-type">Type</label>
          <select class="in" id="set-type" value={type} onChange={(e) => setType(e.currentTarget.value)}>
            {types.map((t) => <option>{t}</option>)}
          </select>
        </div>
        <div class="field wide">
          <label class="lab" for="set-value">Value, as JSON</label>
          <JsonInput input={{ id: "set-value", class: "in" }} value={value} onChange={setValue} />
        </div>
      </div>
      <div class="line wrap">
        <Button main type="submit" not={offNow() || (!good && "It needs a name and JSON")}>Set {key || "it"}</Button>
        {error && (
          <span class="failed small" role="alert">
            {error.code === "3003" ? "Somebody set it meanwhile. Look at it, and change it again." : <Said error={error} />}
          </span>
        )}
      </div>
    </form>
  );
}
