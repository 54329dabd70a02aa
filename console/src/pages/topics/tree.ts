// What was heard, as a tree of topics. Everything of it is bounded: topics,
// the bytes of their values, the history of the one that is looked at.
import { decodeCBOR, hex, shown } from "./cbor";

const maxTopics = 50_000;
const maxBytes = 64 << 20; // of all values together
const maxHistory = 300; // values of one topic
const cutTo = 1024; // bytes that are kept of a value once there is no room

export interface Message {
  at: number;
  payload: Uint8Array;
  size: number; // of the payload as it came
  qos: number;
  retain: boolean;
  properties: Properties;
}

export interface Properties {
  contentType?: string;
  messageExpiryInterval?: number;
  responseTopic?: string;
  correlationData?: Uint8Array;
  payloadFormatIndicator?: boolean;
  userProperties?: Record<string, string | string[]>;
}

// One collator for all: localeCompare makes one for each comparison, which took
// seconds for 50 000 topics.
const names = new Intl.Collator("en", { numeric: true });

export class Node {
  children = new Map<string, Node>();
  topics = 0; // that have a value, from here down
  rate = 0; // messages a second
  recent = 0; // since the last tick
  last?: Message;
  before?: Message;
  retained = false;
  private byName?: Node[];

  constructor(readonly name: string, readonly path: string, readonly depth: number, readonly parent?: Node) {}

  child(name: string): Node {
    let c = this.children.get(name);
    if (!c) {
      c = new Node(name, this.depth < 0 ? name : `${this.path}/${name}`, this.depth + 1, this);
      this.children.set(name, c);
      this.byName = undefined;
    }
    return c;
  }

  /** Children by name, or the busiest first. */
  sorted(busiest: boolean): Node[] {
    this.byName ??= [...this.children.values()].sort((a, b) => names.compare(a.name, b.name));
    return busiest ? [...this.byName].sort((a, b) => b.rate - a.rate) : this.byName;
  }
}

export class Tree {
  root = new Node("", "", -1);
  left = 0; // messages of topics there was no room for
  bytes = 0;
  history: Message[] = [];
  private looked = "";
  private busy = new Set<Node>();
  private found = { find: "", topics: 0, rows: [] as Node[] }; // by the last search

  /** Keeps a message. counted says whether it is news, for the rates. */
  take(topic: string, m: Message, counted: boolean) {
    const known = this.find(topic);
    if (!known?.last && this.root.topics >= maxTopics) return void this.left++;
    let node = this.root;
    for (const level of topic.split("/")) node = node.child(level);
    if (this.bytes + m.payload.length > maxBytes) m.payload = m.payload.slice(0, cutTo);
    this.bytes += m.payload.length - (node.before?.payload.length ?? 0);
    if (!node.last) for (let n: Node | undefined = node; n; n = n.parent) n.topics++;
    node.before = node.last;
    node.last = m;
    if (m.retain) node.retained = m.size > 0;
    if (topic === this.looked) {
      this.history.push(m);
      if (this.history.length > maxHistory) this.history.shift();
    }
    if (!counted) return;
    for (let n: Node | undefined = node; n; n = n.parent) n.recent++, this.busy.add(n);
  }

  /** Brings the rates up to date: a mean that forgets half in three seconds. */
  tick(seconds: number) {
    const keep = 0.5 ** (seconds / 3);
    for (const n of this.busy) {
      n.rate = n.rate * keep + (n.recent / seconds) * (1 - keep);
      n.recent = 0;
      if (n.rate < 0.02) (n.rate = 0), this.busy.delete(n);
    }
  }

  find(topic: string): Node | undefined {
    let node: Node | undefined = this.root;
    for (const level of topic.split("/")) if (!(node = node.children.get(level))) return undefined;
    return node;
  }

  /** Keeps the history of one topic from now on. */
  look(topic: string) {
    if (topic === this.looked) return;
    this.looked = topic;
    const n = topic ? this.find(topic) : undefined;
    this.history = [n?.before, n?.last].filter((m): m is Message => !!m);
  }

  /** Nodes in sight, from top to bottom. */
  rows(opened: (n: Node) => boolean, find: string, busiest: boolean): Node[] {
    const wanted = find.toLowerCase();
    const { found, root } = this;
    // What was found stays so until there are more topics; busiest first is another order each time.
    if (wanted && !busiest && found.find === wanted && found.topics === root.topics) return found.rows;
    const rows: Node[] = [];
    const walk = (n: Node): boolean => {
      let any = false;
      for (const c of n.sorted(busiest)) {
        const at = rows.length;
        rows.push(c);
        const open = wanted ? true : opened(c);
        const below = open && c.children.size > 0 ? walk(c) : false;
        if (wanted && !below && !c.path.toLowerCase().includes(wanted)) rows.length = at;
        else any = true;
      }
      return any;
    };
    walk(root);
    if (wanted && !busiest) this.found = { find: wanted, topics: root.topics, rows };
    return rows;
  }
}

export interface Read {
  kind: "json" | "cbor" | "text" | "binary" | "empty";
  value?: unknown; // of JSON and CBOR
  text: string; // for people
}

const read = new WeakMap<Message, Read>();

/** What a payload is: JSON, CBOR, text or bytes. */
export function readOf(m: Message): Read {
  let r = read.get(m);
  if (!r) read.set(m, (r = judge(m)));
  return r;
}

function judge(m: Message): Read {
  const { payload } = m;
  if (payload.length === 0) return { kind: "empty", text: "" };
  if (m.properties.contentType?.includes("cbor")) return asCBOR(payload) ?? { kind: "binary", text: hex(payload.slice(0, 64)) };
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(payload);
  } catch {
    return asCBOR(payload) ?? { kind: "binary", text: hex(payload.slice(0, 64)) };
  }
  try {
    return { kind: "json", value: JSON.parse(text), text };
  } catch {
    // it is text, if it can be read
  }
  // eslint-disable-next-line no-control-regex
  if (/[\x00-\x08\x0e-\x1f]/.test(text)) return asCBOR(payload) ?? { kind: "binary", text: hex(payload.slice(0, 64)) };
  return { kind: "text", text };
}

function asCBOR(payload: Uint8Array): Read | undefined {
  try {
    const value = shown(decodeCBOR(payload));
    return { kind: "cbor", value, text: JSON.stringify(value) };
  } catch {
    return undefined;
  }
}

/** Paths of the numbers in a value, "" for the value itself. */
export function numbersOf(value: unknown, at = "", found: string[] = []): string[] {
  if (found.length >= 50) return found;
  if (typeof value === "number") found.push(at);
  else if (value && typeof value === "object") for (const [k, v] of Object.entries(value)) numbersOf(v, at ? `${at}.${k}` : k, found);
  return found;
}

export function numberAt(value: unknown, path: string): number | undefined {
  if (path === "") return typeof value === "number" ? value : undefined;
  if (!value || typeof value !== "object") return undefined;
  for (const [k, v] of Object.entries(value)) {
    if (path === k && typeof v === "number") return v;
    if (path.startsWith(k + ".")) {
      const n = numberAt(v, path.slice(k.length + 1));
      if (n !== undefined) return n;
    }
  }
  return undefined;
}

/** Lines of sixteen bytes: where, what, as characters. */
export function hexLines(bytes: Uint8Array, most = 4096): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(bytes.length, most); at += 16) {
    const part = bytes.slice(at, at + 16);
    const digits = [...part].map((b) => b.toString(16).padStart(2, "0")).join(" ");
    lines.push(`${at.toString(16).padStart(4, "0")}  ${digits.padEnd(47)}  ${[...part].map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : ".")).join("")}`);
  }
  if (bytes.length > most) lines.push(`and ${bytes.length - most} bytes more`);
  return lines.join("\n");
}
