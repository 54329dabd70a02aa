// Who is signed in, and with what rights. The credential is not here: the
// browser has a cookie that no script can read.
import { signal, computed } from "@preact/signals";
import { base } from "./router";

export interface Principal {
  id: string;
  kind: string;
  space_id: string;
  roles: string[];
  method: string;
  expires_at?: number;
}

export interface Session {
  signed_in: boolean;
  principal?: Principal;
  may?: string[];
  bridge?: { id: string; version: string; protocol: string; root: string; dev?: boolean; mqtt?: string; mqtts?: string; http?: string; ws?: string };
  cookie?: boolean;
}

export const session = signal<Session | undefined>();

/** Why the session ended, to be told above the form to sign in. */
export const ended = signal<string | undefined>();

const granted = computed(() => new Set(session.value?.may ?? []));

/** Whether policy permits an action at all. Each call is decided by itself. */
export const may = (action: string) => granted.value.has(action);

export const dev = computed(() => !!session.value?.bridge?.dev);

async function ask(path: string, body?: object): Promise<Session> {
  const answer = await fetch(base + path, {
    method: body ? "POST" : "GET",
    headers: body ? { "Content-Type": "application/json" } : {},
    body: body && JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
  });
  const result = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(result.error?.message ?? answer.statusText), { code: result.error?.code ?? String(answer.status) });
  return result;
}

/** Asks the bridge who this page acts for. */
export async function refresh(): Promise<Session> {
  const now = await ask("session");
  session.value = now;
  return now;
}

/** Signs in with an API key or a token. */
export async function signIn(key: string) {
  session.value = await ask("session", { key });
  ended.value = undefined;
  others.postMessage("in");
}

/** Signs out, in all tabs. */
export async function signOut() {
  await ask("session/end", {});
  others.postMessage("out");
  location.assign(base);
}

/** Takes everything off the screen: the credential has ended. */
export function endSession(why: string) {
  ended.value = why;
  session.value = { signed_in: false };
}

const others = new BroadcastChannel("aibridge" + base);
others.onmessage = (e) => (e.data === "out" ? endSession("You signed out in another tab.") : void refresh());
