// The keyboard. A single key moves, opens and chooses; it never acts.
import { useLayoutEffect, useRef } from "preact/hooks";
import { go, link } from "./router";
import { drawer } from "./shown";

type Handler = (e: KeyboardEvent) => void | boolean;

const handlers: { current: Record<string, Handler> }[] = [];

/** Handles keys while the component is there; the last one to come goes first.
 * A handler that returns false passes the key on. */
export function useKeys(keys: Record<string, Handler>) {
  const latest = useRef(keys);
  latest.current = keys; // what was typed a moment ago counts already
  useLayoutEffect(() => { // who sees the page may type
    handlers.unshift(latest);
    return () => void handlers.splice(handlers.indexOf(latest), 1);
  }, []);
}

let begun = 0; // when G was pressed

export const goes: Record<string, string> = { h: "", a: "approvals", t: "tasks", d: "agents", o: "topics", c: "caps", r: "runs", m: "models", f: "files", p: "policies", u: "audit", k: "access" };

const typing = (e: Event) => (e.target as Element).closest?.("input, textarea, select, [contenteditable]");

export function listenToKeys() {
  addEventListener("keydown", (e) => {
    if (e.isComposing) return;
    const key = (e.ctrlKey || e.metaKey ? "Ctrl+" : "") + (e.key.length === 1 ? e.key.toLowerCase() : e.key);
    if (typing(e) && key !== "Escape" && key !== "Ctrl+Enter") return;
    if (e.altKey) return;
    if (begun && e.timeStamp - begun < 1200 && key in goes) {
      begun = 0;
      e.preventDefault();
      return go(link(...[goes[key]].filter(Boolean)));
    }
    begun = 0;
    for (const { current } of [...handlers]) {
      if (current[key] && current[key](e) !== false) return e.preventDefault();
    }
    if (key === "g") begun = e.timeStamp;
    else if (key === "e") drawer.value = !drawer.value;
    else if (key === "Escape" && typing(e)) (e.target as HTMLElement).blur();
    else return;
    e.preventDefault();
  });
}
