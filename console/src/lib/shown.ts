// What the page does, as a command: the strip at the bottom and its drawer.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { envelope } from "./bridge";
import { base } from "./router";
import { session } from "./session";

export interface Shown {
  command: string;
  params: object;
  /** The line to type, if there is a shorter one than "aibridge call". */
  line?: string;
  /** What the drawer has instead of the envelope: MQTT that is no command. */
  others?: [name: string, text: string][];
}

/** A key and what it does here. */
export type Key = [keys: string, what: string];

export const shown = signal<Shown | undefined>();
export const keys = signal<Key[]>([]);
export const drawer = signal(false);

/** Shows a command in the strip while the page is there. */
export function useShown(what: Shown, hints: Key[] = []) {
  const text = JSON.stringify([what, hints]);
  useEffect(() => {
    shown.value = what;
    keys.value = hints;
  }, [text]);
  useEffect(
    () => () => {
      shown.value = undefined;
      keys.value = [];
    },
    [],
  );
}

const safe = /^[A-Za-z0-9_@%+=:,./-]+$/;

/** A word for a shell. */
export const quoted = (word: string) => (safe.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

function words(params: object, prefix = ""): string[] {
  return Object.entries(params).flatMap(([name, value]) => {
    const key = prefix + name;
    if (value === undefined) return [];
    const nested = value !== null && typeof value === "object" && !Array.isArray(value);
    if (nested && Object.keys(value).length > 0 && Object.keys(value).every((k) => safe.test(k) && !k.includes(".") && !k.includes("="))) return words(value, key + ".");
    return [quoted(`${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)];
  });
}

export const commandLine = (s: Shown) => s.line ?? ["aibridge call", s.command, ...words(s.params)].join(" ");

export const envelopeOf = (s: Shown) => ({ ...envelope(s.command, s.params, "…"), timestamp: 0 });

/** The same by curl and by MQTT. Secrets are variables of the shell. */
export function others(s: Shown): [string, string][] {
  if (s.others) return s.others;
  const url = location.origin + base;
  const auth = session.value?.bridge?.dev ? "" : ` \\\n  -H "Authorization: Bearer $AIBRIDGE_KEY"`;
  const [host, port] = (session.value?.bridge?.mqtt || "127.0.0.1:1883").split(/:(?=\d+$)/);
  const login = session.value?.bridge?.dev ? "" : ` -u apikey -P "$AIBRIDGE_KEY"`;
  const root = session.value?.bridge?.root ?? "aibridge";
  const request = JSON.stringify({ ...envelope(s.command, s.params, "1"), timestamp: 0 });
  return [
    ["curl", `curl ${quoted(url + "api/v1/commands/" + s.command)}${auth} \\\n  -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(s.params))}`],
    ["MQTT", `mosquitto_rr -h ${host} -p ${port}${login} -V 5 \\\n  -t ${root}/bridge/request -e reply/me -m ${quoted(request)}`],
  ];
}
