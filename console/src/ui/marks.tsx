// A state is a shape, a colour and a word, always at least two of them.
import { h, type ComponentChildren } from "preact";
import { plain } from "../lib/words";

const shapes: Record<string, () => ComponentChildren> = {
  ok: () => [<circle cx="7" cy="7" r="6" fill="currentColor" />, <path d="M4.2 7.2 6.2 9.2 9.9 5.2" fill="none" stroke="var(--panel)" stroke-width="1.7" />],
  waiting: () => [<circle cx="7" cy="7" r="5.2" fill="none" stroke="currentColor" stroke-width="1.6" />, <path d="M7 1.8a5.2 5.2 0 0 1 0 10.4z" fill="currentColor" />],
  acting: () => <path d="M3 1.6 12 7 3 12.4z" fill="currentColor" />,
  warning: () => [<path d="M7 1 13.4 12.6H.6z" fill="currentColor" />, <path d="M7 5.2v3.6M7 10.2v1" stroke="var(--panel)" stroke-width="1.6" />],
  failed: () => [<path d="M4.300 1h5.400L13 4.300v5.400L9.700 13H4.300L1 9.700V4.300z" fill="currentColor" />, <path d="m4.800 4.800 4.400 4.400m0-4.400L4.800 9.200" stroke="var(--panel)" stroke-width="1.6" />],
  away: () => <circle cx="7" cy="7" r="5.2" fill="none" stroke="currentColor" stroke-width="1.6" stroke-dasharray="2.6 2.2" />,
  denied: () => [<circle cx="7" cy="7" r="5.4" fill="none" stroke="currentColor" stroke-width="1.6" />, <path d="M3.200 10.800 10.800 3.200" stroke="currentColor" stroke-width="1.6" />],
  cancelled: () => <path d="M2 7h10" stroke="currentColor" stroke-width="2.2" />,
  late: () => [<circle cx="7" cy="7" r="5.4" fill="none" stroke="currentColor" stroke-width="1.6" />, <path d="M7 3.800V7l2.400 1.600" fill="none" stroke="currentColor" stroke-width="1.5" />],
  pending: () => <circle cx="7" cy="7" r="5.2" fill="none" stroke="currentColor" stroke-width="1.6" />,
};

export type Shape = "ok" | "waiting" | "acting" | "warning" | "failed" | "away" | "denied" | "cancelled" | "late" | "pending";
const colours: Record<Shape, string> = { ok: "ok", waiting: "waiting", acting: "acting", warning: "warning", failed: "failed", away: "muted", denied: "failed", cancelled: "muted", late: "muted", pending: "muted" };

export const Mark = ({ is, tone }: { is: Shape; tone?: string }) => (
  <svg class={`mark ${tone ?? colours[is]}`} viewBox="0 0 14 14" aria-hidden="true">
    {shapes[is]()}
  </svg>
);

/** Which shape a state of the API has. */
const states: Record<string, Shape> = {
  online: "ok", connected: "ok", ok: "ok", success: "ok", succeeded: "ok", complete: "ok", Completed: "ok", approved: "ok", used: "ok", active: "ok", valid: "ok", closed: "ok", healthy: "ok", issued: "ok",
  offline: "away", kept: "away", suspended: "warning", away: "away",
  pending: "waiting", waiting: "waiting", WaitingUser: "waiting", WaitingApproval: "waiting", requested: "waiting",
  running: "acting", accepted: "acting", Running: "acting", in_progress: "acting", "half-open": "acting",
  partial: "warning", timed_out: "warning", expiring: "warning", degraded: "warning",
  failed: "failed", Failed: "failed", rejected: "failed", open: "failed", broken: "failed",
  denied: "denied", revoked: "denied", expired: "late", late: "late", queued: "pending", withdrawn: "cancelled", cancelled: "cancelled", removed: "cancelled",
};

export const shapeOf = (state: string): Shape => states[state] ?? "pending";

/** A state with its mark and its word. */
export const State = ({ is, word, children, shape }: { is: string; word?: string; shape?: Shape; children?: ComponentChildren }) => (
  <span class="state">
    <Mark is={shape ?? shapeOf(is)} />
    {word ?? plain(is)}
    {children && <small>{children}</small>}
  </span>
);

/** The outcome of an audited call: ok, or its code with a word. */
export const Outcome = ({ code, children }: { code: string; children?: ComponentChildren }) =>
  code === "ok" ? <State is="ok">{children}</State> : code.startsWith("2") ? <State is="denied">{children ?? code}</State> : <State is="failed">{children ?? code}</State>;

const icons: Record<string, ComponentChildren> = {
  home: <path d="M2 8.500a6 6 0 0 1 12 0M8 8.500l3-3M2 12.500h12" />,
  approvals: <path d="M3 14V3M13 14V3M3 6h10M6 6v5M10 6v5" />,
  tasks: <path d="M2.500 2.500h4v4h-4zM9.500 2.500h4v4h-4zM2.500 9.500h4v4h-4zM9.500 11.500h4" />,
  agents: <path d="M4 4h8v8H4zM6.500 1.500V4M9.500 1.500V4M6.500 12v2.500M9.500 12v2.500M1.500 6.500H4M1.500 9.500H4M12 6.500h2.500M12 9.500h2.500" />,
  topics: <path d="M3 2v10.500h3M3 5.500h3M8.500 5.500H14M8.500 12.500H14" />,
  caps: [<circle cx="8" cy="3.500" r="2" />, <circle cx="3.500" cy="12" r="2" />, <circle cx="12.500" cy="12" r="2" />, <path d="M7 5.300 4.500 10.200M9 5.300l2.500 4.900M5.500 12h5" />],
  runs: <path d="M2 3h6M5 6.500h7M7 10h3M9 13.500h5" />,
  models: <path d="M2 13V9M6 13V4M10 13V7M14 13V2" />,
  files: <path d="M2 13V3.500h4l1.500 2H14V13z" />,
  policies: <path d="M8 2v12M4.500 14h7M3 4.500h10M3 4.500 1.500 9h3zM13 4.500 11.500 9h3z" />,
  audit: <path d="M2 5.500h5v5H2zM9 5.500h5v5H9zM5.500 8h5" />,
  access: [<circle cx="5" cy="8" r="3" />, <path d="M8 8h6.500M12 8v3" />],
  "mcp-servers": <path d="M5.500 2v4M10.500 2v4M3.500 6h9v2a4.500 4.500 0 0 1-9 0zM8 12.500V15" />,
  links: <path d="M6.500 9.500l3-3M7 4.500 8.500 3a3.200 3.200 0 0 1 4.500 4.500L11.500 9M9 11.500 7.500 13A3.200 3.200 0 0 1 3 8.500L4.500 7" />,
  cluster: <path d="M6 2h4v3.500H6zM1.500 10.500h4V14h-4zM10.500 10.500h4V14h-4zM8 5.500v3M3.500 10.500v-2h9v2" />,
  settings: [<path d="M2 4.500h7M13 4.500h1M2 11.500h1M7 11.500h7" />, <circle cx="11" cy="4.500" r="2" />, <circle cx="5" cy="11.500" r="2" />],
  find: [<circle cx="7" cy="7" r="4.500" />, <path d="m10.500 10.500 3.500 3.500" />],
  copy: <path d="M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3" />,
  back: <path d="M10 3 5 8l5 5" />,
  pin: <path d="M8 10v4.500M4.500 10h7L10 7V2.500H6V7z" />,
  more: <path d="M3 8h.01M8 8h.01M13 8h.01" />,
};

/** An icon, never without a word beside it. */
export const Icon = ({ is }: { is: string }) => (
  <svg class="i" viewBox="0 0 16 16" aria-hidden="true">
    {icons[is]}
  </svg>
);

export const Logo = () => (
  <svg viewBox="0 0 26 20" aria-hidden="true">
    <path d="M1 15.500h24M6 19V2M20 19V2" fill="none" stroke="currentColor" stroke-width="2" />
    <path d="M1 9.500C3.500 8 5 5.500 6 2.500c2 6.500 5 9 7 9s5-2.500 7-9c1 3 2.500 5.500 5 7" fill="none" stroke="currentColor" stroke-width="1.4" />
    <path d="M9.500 10v5.500M13 11.500v4M16.500 10v5.500" stroke="currentColor" stroke-width="1.100" />
  </svg>
);

export const Gate = () => (
  <svg width="18" height="26" viewBox="0 0 14 22" aria-hidden="true">
    <path d="M2 1v20M12 1v20M2 7h10M5.300 7v9M8.700 7v9" fill="none" stroke="currentColor" stroke-width="2" />
  </svg>
);
