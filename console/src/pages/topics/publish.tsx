// Publishing under one's own rights, with what MQTT 5 lets a message have.
import { Button, call, Code, Failure, Fragment, h, link, Mark, may, offNow, Panel, Pick, time, useEffect, useKeys, useState, type Commands } from "../../core";
import { encodeCBOR } from "./cbor";
import type { Hearer, Sent } from "./hear";
import type { Properties } from "./tree";

export interface Draft {
  topic: string;
  payload: string;
  as: "text" | "json" | "cbor" | "hex";
  qos: 0 | 1 | 2;
  retain: boolean;
  properties: Properties;
}

interface Past {
  at: number;
  topic: string;
  ok: boolean;
  word: string;
}

/** Why a topic cannot be published to, "" if it can. */
function topicWrong(topic: string) {
  if (!topic) return "name a topic";
  return /[+#]/.test(topic) ? "+ and # are for filters" : "";
}

function payloadOf(d: Draft): Uint8Array {
  if (d.as === "hex") {
    const digits = d.payload.replace(/\s+/g, "");
    if (!/^([0-9a-fA-F]{2})*$/.test(digits)) throw new Error("hex is pairs of 0–9 and a–f");
    return Uint8Array.from(digits.match(/../g) ?? [], (b) => parseInt(b, 16));
  }
  if (d.as === "text") return new TextEncoder().encode(d.payload);
  const value = JSON.parse(d.payload);
  return d.as === "cbor" ? encodeCBOR(value) : new TextEncoder().encode(d.payload);
}

export function Publish({ hearer, draft, onChange }: { hearer: Hearer; draft: Draft; onChange: (d: Draft) => void }) {
  const [past, setPast] = useState<Past[]>([]);
  const [wrong, setWrong] = useState("");
  const set = (change: Partial<Draft>) => (setWrong(""), onChange({ ...draft, ...change }));
  const live = hearer.hearing.value.state === "live" || hearer.hearing.value.state === "refused";
  const not = offNow() || (live ? topicWrong(draft.topic) : "Off until the bridge is heard");
  const send = () => {
    if (not) return;
    let p: Sent;
    try {
      p = { topic: draft.topic, payload: payloadOf(draft), qos: draft.qos, retain: draft.retain, properties: { ...draft.properties, contentType: draft.properties.contentType || { text: undefined, hex: undefined, json: "application/json", cbor: "application/cbor" }[draft.as] } };
    } catch (e) {
      return setWrong(draft.as === "hex" ? (e as Error).message : `This is not JSON: ${(e as Error).message}`);
    }
    const done = (ok: boolean, word: string) => setPast((before) => [{ at: Date.now(), topic: p.topic, ok, word }, ...before].slice(0, 8));
    hearer.publish(p).then((word) => done(true, p.qos === 0 ? "sent; QoS 0 has no answer" : word), (e: Error) => done(false, e.message));
  };
  useKeys({ "Ctrl+Enter": send });
  return (
    <div class="stack gap">
      <Panel title="Publish">
        <form class="stack" onSubmit={(e) => (e.preventDefault(), send())}>
          <div class="field">
            <label class="lab" for="publish-topic">Topic</label>
            <input id="publish-topic" class="in mono" value={draft.topic} spellcheck={false} autocomplete="off" onInput={(e) => set({ topic: e.currentTarget.value })} />
          </div>
          <div class="field">
            <label class="lab" for="publish-payload">Payload</label>
            <textarea id="publish-payload" class="in mono" rows={4} spellcheck={false} value={draft.payload} aria-invalid={wrong ? true : undefined} aria-describedby={wrong ? "publish-wrong" : undefined} onInput={(e) => set({ payload: e.currentTarget.value })} />
            {wrong && <span id="publish-wrong" class="small failed" role="alert">{wrong}</span>}
          </div>
          <Pick label="Payload as" value={draft.as} onPick={(as) => set({ as: as as Draft["as"] })} of={[{ id: "text", word: "Text" }, { id: "json", word: "JSON" }, { id: "cbor", word: "CBOR" }, { id: "hex", word: "Hex" }]} />
          <div class="line wrap">
            <Pick label="QoS" value={String(draft.qos)} onPick={(q) => set({ qos: Number(q) as 0 | 1 | 2 })} of={["0", "1", "2"].map((q) => ({ id: q, word: q === "0" ? "QoS 0" : q }))} />
            <label class="line small">
              <input type="checkbox" checked={draft.retain} onChange={(e) => set({ retain: e.currentTarget.checked })} /> retain
            </label>
          </div>
          <PropertyFields value={draft.properties} onChange={(properties) => set({ properties })} />
          <MayPublish topic={draft.topic} />
          <div class="line wrap">
            <Button main type="submit" not={not}>Publish</Button>
            <span class="small dim">{not}</span>
          </div>
        </form>
      </Panel>
      {past.length > 0 && (
        <Panel title="Published just now">
          <ul class="stack small published" aria-live="polite">
            {past.map((p) => (
              <li class="line">
                <Mark is={p.ok ? "ok" : "denied"} />
                <span class="grow">
                  {time(p.at)} <code class="whole">{p.topic}</code> <span class={p.ok ? "dim" : "failed"}>{p.word}</span>
                </span>
              </li>
            ))}
          </ul>
        </Panel>
      )}
    </div>
  );
}

function PropertyFields({ value, onChange }: { value: Properties; onChange: (p: Properties) => void }) {
  const [text, setText] = useState(Object.entries(value.userProperties ?? {}).map(([k, v]) => `${k}=${v}`).join("\n"));
  const users = (lines: string) => Object.fromEntries(lines.split("\n").filter((l) => l.indexOf("=") > 0).map((l) => [l.slice(0, l.indexOf("=")).trim(), l.slice(l.indexOf("=") + 1)]));
  const field = (id: string, word: string, is: string | number | undefined, set: (v: string) => void, digits = false) => (
    <div class="field">
      <label class="lab" for={id}>{word}</label>
      <input id={id} class="in mono" inputMode={digits ? "numeric" : undefined} value={is ?? ""} spellcheck={false} onInput={(e) => set(e.currentTarget.value)} />
    </div>
  );
  const n = Object.values(value).filter((v) => v !== undefined && v !== "").length;
  return (
    <details class="small">
      <summary>{n === 0 ? "Properties" : n === 1 ? "1 property" : `${n} properties`}</summary>
      <div class="stack">
        {field("p-type", "Content type", value.contentType, (v) => onChange({ ...value, contentType: v || undefined }))}
        {field("p-expiry", "Expires after, in seconds", value.messageExpiryInterval, (v) => onChange({ ...value, messageExpiryInterval: /^\d+$/.test(v) ? Number(v) : undefined }), true)}
        {field("p-response", "Response topic", value.responseTopic, (v) => onChange({ ...value, responseTopic: v || undefined }))}
        <div class="field">
          <label class="lab" for="p-user">User properties, a line each: name=value</label>
          <textarea
            id="p-user" class="in mono" rows={2} spellcheck={false} value={text}
            onInput={(e) => {
              setText(e.currentTarget.value);
              const all = users(e.currentTarget.value);
              onChange({ ...value, userProperties: Object.keys(all).length ? all : undefined });
            }}
          />
        </div>
      </div>
    </details>
  );
}

/** What policy says of the topic, once typing rests. */
function MayPublish({ topic }: { topic: string }) {
  const [said, setSaid] = useState<Commands["policy.explain"]["result"]>();
  useEffect(() => {
    setSaid(undefined);
    if (!may("policy:explain") || topicWrong(topic)) return;
    let over = false;
    const timer = setTimeout(() => {
      call("policy.explain", { action: "topic:publish", resource: { type: "topic", id: topic }, door: "mqtt" }).then((r) => over || setSaid(r), (e: Failure) => void e);
    }, 300);
    return () => ((over = true), clearTimeout(timer));
  }, [topic]);
  if (!said) return null;
  const allowed = said.decision === "allow";
  const by = said.policies[0];
  return (
    <p class="small line">
      <Mark is={allowed ? "ok" : "denied"} />
      <span>
        {allowed ? "Policy lets you publish here" : "Policy does not let you publish here"}
        {by && (
          <>
            : <a href={link("policies", by.id)}><Code>{by.id}</Code></a>
          </>
        )}
      </span>
    </p>
  );
}
