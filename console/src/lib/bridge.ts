// The one connection to the bridge. Commands and their answers go over it, and
// the feed of events. When it breaks, the state of the page says so; when it
// stands again, what was asked is asked again with the same id, which the
// bridge runs once, and the feed goes on where it ended.
import { signal } from "@preact/signals";
import type { Commands, CommandName } from "../types";
import { base } from "./router";
import { endSession, may, refresh, session } from "./session";

export type LinkState = "connecting" | "live" | "lost";

export const linkState = signal<LinkState>("connecting");
/** When the connection broke, and when the next try is; Unix ms. */
export const lostAt = signal(0);
export const nextTry = signal(0);

/** What the bridge says went wrong. */
export class Failure extends Error {
  constructor(readonly code: string, message: string, readonly details: Record<string, unknown> = {}, readonly result?: unknown) {
    super(message);
  }
  /** Whether policy refused it. */
  get denied() {
    return this.code === "2003";
  }
  get param() {
    return this.details.param_name as string | undefined;
  }
}

interface Pending {
  text: string;
  done: (result: any) => void;
  failed: (why: Failure) => void;
  event?: (name: string, data: any) => void;
  timer?: number;
  again: boolean; // ask again when the connection stands anew
}

export interface CallOptions {
  timeout?: number; // ms, 30 s by default
  onEvent?: (name: string, data: any) => void;
  id?: string;
  again?: boolean;
  live?: boolean; // the page keeps a value true; nobody acts
}

let socket: WebSocket | undefined;
let failures = 0;
let heardAt = 0;
let retry = 0;
const pending = new Map<string, Pending>();

export const newID = () => crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

/** Request envelope of a command. */
export function envelope(command: string, params: object, id: string, timeout = 30000, events = false) {
  const metadata: Record<string, unknown> = { timeout };
  if (events) metadata.events = true;
  return { version: session.value?.bridge?.protocol ?? "0.6.3", id, timestamp: Date.now(), type: "request", command, params, metadata };
}

/** Runs a command and returns its result, or throws a Failure. */
export function call<N extends CommandName>(command: N, params: Commands[N]["params"], o: CallOptions = {}): Promise<Commands[N]["result"]> {
  return new Promise((done, failed) => {
    const id = o.id ?? newID();
    const timeout = o.timeout ?? 30000;
    const text = JSON.stringify(envelope(command, params, id, timeout, !!o.onEvent));
    const finished = (result: Commands[N]["result"]) => {
      done(result);
      if (!o.live) for (const f of actors) f();
    };
    const p: Pending = { text, done: finished, failed, event: o.onEvent, again: o.again ?? true };
    p.timer = window.setTimeout(() => settle(id, (p) => p.failed(new Failure("4007", "no answer in time"))), timeout + 5000);
    pending.set(id, p);
    if (socket?.readyState === WebSocket.OPEN) socket.send(text);
  });
}

function settle(id: string, how: (p: Pending) => void) {
  const p = pending.get(id);
  if (!p) return;
  pending.delete(id);
  clearTimeout(p.timer);
  how(p);
}

function receive(message: any) {
  heardAt = Date.now();
  const p = pending.get(message.id);
  if (message.type === "event") return p?.event?.(message.event, message.data);
  if (!p) return;
  const e = message.error;
  settle(message.id, (p) => (e ? p.failed(new Failure(e.code, e.message, e.details, message.result)) : p.done(message.result ?? {})));
}

/** Opens the connection, and keeps it open while somebody is signed in. */
export function connect() {
  clearTimeout(retry);
  if (!session.value?.signed_in) return;
  const url = new URL(base + "ws", location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const mine = new WebSocket(url);
  socket?.close(); // another try was begun, too
  socket = mine;
  mine.onopen = () => {
    failures = 0;
    heardAt = Date.now();
    linkState.value = "live";
    const waiting = [...pending.values()];
    void follow();
    for (const p of waiting) mine.send(p.text);
    revive();
  };
  mine.onmessage = (e) => receive(JSON.parse(e.data));
  mine.onclose = (e) => {
    if (socket !== mine) return;
    socket = undefined;
    for (const [id, p] of [...pending]) if (!p.again) settle(id, (p) => p.failed(new Failure("lost", "the connection broke")));
    if (e.code === 1008 && e.reason !== "reader too slow") return stop(e.reason || "The credential has ended.");
    broke();
  };
}

function broke() {
  if (linkState.value !== "lost") lostAt.value = Date.now();
  linkState.value = "lost";
  const wait = failures === 0 ? 300 : Math.min(15000, 500 * 2 ** failures) * (0.75 + Math.random() / 2);
  failures++;
  nextTry.value = Date.now() + wait;
  retry = window.setTimeout(again, wait);
}

/** Tries to connect now. First it asks whether the session still holds: a
 * refused WebSocket does not say why. */
export async function again() {
  clearTimeout(retry);
  try {
    const now = await refresh();
    if (!now.signed_in) return stop("Your session has ended. Sign in again to go on.");
  } catch {
    return broke();
  }
  connect();
}

function stop(why: string) {
  for (const id of [...pending.keys()]) settle(id, (p) => p.failed(new Failure("2002", why)));
  endSession(why);
}

/** Ends the connection: somebody signs out. */
export function disconnect() {
  const old = socket;
  socket = undefined;
  clearTimeout(retry);
  old?.close();
}

// A connection that says nothing is broken: the feed is heard every ten seconds.
setInterval(() => {
  if (socket?.readyState === WebSocket.OPEN && following && Date.now() - heardAt > 25000) {
    const dead = socket;
    socket = undefined;
    dead.close();
    broke();
  }
}, 5000);
addEventListener("online", () => linkState.value === "lost" && void again());
document.addEventListener("visibilitychange", () => !document.hidden && linkState.value === "lost" && void again());

// The feed ---------------------------------------------------------------

export interface Happening {
  family: string;
  topic: string;
  name: string;
  data: any;
}

const listeners = new Set<(e: Happening) => void>();
const revived = new Set<() => void>(); // told when what is shown may be out of date
let cursor = "";
let following = false;

const actors = new Set<() => void>(); // told when the person has done something

/** Tells when a command of the person's has ended. */
export function onActed(f: () => void) {
  actors.add(f);
  return () => void actors.delete(f);
}

/** Tells of every event that the person may hear. */
export function onEvent(f: (e: Happening) => void) {
  listeners.add(f);
  return () => void listeners.delete(f);
}

/** Tells when the connection stands again, or events were missed. */
export function onRevived(f: () => void) {
  revived.add(f);
  return () => void revived.delete(f);
}

function revive() {
  for (const f of revived) f();
}

async function follow() {
  if (!may("event:follow")) return;
  following = true;
  const mine = socket;
  let heard = !!cursor; // what was asked before the feed is heard may be older than its begin
  try {
    while (socket === mine) {
      const params = cursor ? { stream: true, after: cursor } : { stream: true };
      const end = await call("event.follow", params, { timeout: 600000, again: false, live: true, onEvent: (_, batch) => (take(batch), heard || revive(), (heard = true)) });
      take(end);
    }
  } catch {
    if (socket === mine) following = false; // refused; what is shown is asked for now and then
  }
}

function take(batch: { cursor: string; missed?: boolean; events?: { family: string; topic: string; event: any }[] }) {
  cursor = batch.cursor;
  for (const e of batch.events ?? []) for (const f of listeners) f({ family: e.family, topic: e.topic, name: e.event.event, data: e.event.data });
  if (batch.missed) revive();
}
