// The address is the state of a page: path, filters, tab, selection, sort.
import { signal, computed } from "@preact/signals";

/** Folder of the console, "/" or what a proxy in front has put before it. */
export const base = new URL(document.baseURI).pathname;

const here = signal(read());

function read() {
  const path = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : "";
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(location.search) };
}

function decode(part: string) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Levels of the path: ["agents", "lamp-1"]; none for Home. */
export const path = computed(() => here.value.path);

/** Value of a filter in the address, "" without one. */
export const query = (name: string) => here.value.query.get(name) ?? "";

/** Address of a page: link("agents", "lamp-1", {tab: "session"}). */
export function link(...parts: (string | Record<string, string | number | undefined>)[]): string {
  const last = parts.at(-1);
  const filters = typeof last === "object" ? last : undefined;
  const levels = (filters ? parts.slice(0, -1) : parts) as string[];
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(filters ?? {})) if (value !== undefined && value !== "") search.set(name, String(value));
  const text = search.toString();
  return base + levels.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

/** Goes to an address of the console. */
export function go(href: string, replace = false) {
  const before = here.value.path.join("/");
  if (replace) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  here.value = read();
  if (!replace && here.value.path.join("/") !== before) arrived();
}

/** Sets filters of the address; "" and undefined take one away. */
export function setQuery(changes: Record<string, string | undefined>, push = false) {
  const search = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value ? search.set(name, value) : search.delete(name);
  const text = search.toString();
  go(location.pathname + (text ? "?" + text : ""), !push);
}

/** A page is read from its top. */
function arrived() {
  scrollTo(0, 0);
  queueMicrotask(() => document.getElementById("main")?.focus({ preventScroll: true }));
}

addEventListener("popstate", () => (here.value = read()));

/** Links of the console are followed without loading it anew. */
export function followLinks(e: MouseEvent) {
  if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
  const a = (e.target as Element).closest?.("a");
  if (!a || a.target || a.hasAttribute("download") || a.origin !== location.origin || !a.pathname.startsWith(base)) return;
  if (a.dataset.outside !== undefined) return;
  e.preventDefault();
  go(a.href);
}
