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
  issuers?: { issuer: string; title: string }[];
}

export const session = signal<Session | undefined>();

/** Why the session ended, to be told above the form to sign in. */
export const ended = signal<string | undefined>();

const granted = computed(() => new Set(session.value?.may ?? []));

/** Whether policy permits an action at all. Each call is decided by itself. */
export const may = (action: string) => granted.value.has(action);

export const dev = computed(() => !!session.value?.bridge?.dev);

async function ask(method: "GET" | "POST" | "DELETE", body?: object): Promise<Session> {
  const answer = await fetch(base + "session", {
    method,
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
  const now = await ask("GET");
  session.value = now;
  return now;
}

/** Signs in with an API key or a token. */
export async function signIn(key: string) {
  session.value = await ask("POST", { key });
  ended.value = undefined;
  others.postMessage("in");
}

/** Address that leads to an issuer's page, and back to where one is now. */
export function issuerLink(issuer: string) {
  const search = new URLSearchParams(location.search);
  search.delete("sign_in");
  const to = location.pathname.slice(base.length) + (search.size ? "?" + search : "");
  return base + "session/oidc?" + new URLSearchParams({ issuer, to });
}

/** Signs out, in all tabs. */
export async function signOut() {
  await ask("DELETE");
  others.postMessage("out");
  location.assign(base);
}

/** Takes everything off the screen: the credential has ended. */
export function endSession(why: string) {
  ended.value = why;
  session.value = { signed_in: false };
  void refresh().catch(() => {}); // where one can sign in
}

const others = new BroadcastChannel("aibridge" + base);
others.onmessage = (e) => (e.data === "out" ? endSession("You signed out in another tab.") : void refresh());
