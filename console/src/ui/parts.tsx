// The parts that pages are made of.
import { h, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { linkState, lostAt, type Failure } from "../lib/bridge";
import type { Asked } from "../lib/live";
import { now } from "../lib/live";
import { go, link, query, setQuery } from "../lib/router";
import { duration, ms, time, utc } from "../lib/words";
import { Icon, Mark, type Shape } from "./marks";

type Children = { children?: ComponentChildren };

/** A panel; key is the one that the page is for. */
export const Panel = ({ title, more, key_, tight, children, label }: { title?: ComponentChildren; more?: ComponentChildren; key_?: boolean; tight?: boolean; label?: string } & Children) => (
  <section class={key_ ? "panel key" : "panel"} aria-label={label ?? (typeof title === "string" ? title : undefined)}>
    {title && (
      <header>
        <h2>{title}</h2>
        {more && <div class="more">{more}</div>}
      </header>
    )}
    {tight && typeof title === "string" ? (
      <div class="tight" tabIndex={0} role="group" aria-label={title}>
        {children}
      </div>
    ) : tight ? (
      <div class="tight">{children}</div>
    ) : <div class="body">{children}</div>}
  </section>
);

/** The head of a page: where one is, what it is, what can be done. */
export function Head({ crumb, title, does, children }: { crumb: ComponentChildren; title: ComponentChildren; does?: ComponentChildren } & Children) {
  return (
    <div class="head">
      <div class="grow">
        <p class="crumb">{crumb}</p>
        <h1>
          {title} {children}
        </h1>
      </div>
      {does && <div class="does">{does}</div>}
    </div>
  );
}

/** The title of the window. */
export function useTitle(title: string) {
  useEffect(() => void (document.title = title ? `${title} · AI Bridge` : "AI Bridge"), [title]);
}

/** A time, in UTC when one points at it. */
export const Time = ({ at, seconds = true }: { at?: number | string; seconds?: boolean }) => (
  <time dateTime={ms(at) ? new Date(ms(at)).toISOString() : undefined} title={utc(at)}>
    {time(at, seconds)}
  </time>
);

/** How long until then, counting. */
export const Left = ({ until }: { until: number }) => {
  const left = until - now.value;
  return <span title={utc(until)}>{left > 0 ? `${duration(left)} left` : "over"}</span>;
};

/** How long ago, counting. */
export const Ago = ({ at }: { at: number }) => <span title={utc(at)}>{duration(now.value - at)}</span>;

export const Code = ({ children }: Children) => <code>{children}</code>;

/** Facts: names and values. */
export const Facts = ({ of }: { of: [name: string, value: ComponentChildren][] }) => (
  <dl class="facts">
    {of
      .filter(([, value]) => value !== undefined && value !== "" && value !== false)
      .map(([name, value]) => [<dt>{name}</dt>, <dd>{value}</dd>])}
  </dl>
);

/** A button that says why it does not, while it does not. */
export function Button({ onClick, main, danger, quiet, big, not, type = "button", children, label }: { onClick?: () => void; main?: boolean; danger?: boolean; quiet?: boolean; big?: boolean; not?: string | false; type?: "button" | "submit"; label?: string } & Children) {
  const kind = ["btn", main && "main", danger && "danger", quiet && "quiet", big && "big"].filter(Boolean).join(" ");
  return (
    <button type={type} class={kind} aria-label={label} aria-disabled={not ? true : undefined} title={not || undefined} onClick={(e) => (not ? e.preventDefault() : onClick?.())}>
      {children}
    </button>
  );
}

export function Copy({ text, children = "Copy" }: { text: string } & Children) {
  const [done, setDone] = useState(false);
  return (
    <button
      class="btn quiet"
      type="button"
      onClick={async () => {
        await copy(text);
        setDone(true);
        setTimeout(() => setDone(false), 1500);
      }}
    >
      <Icon is="copy" />
      <span aria-live="polite">{done ? "Copied" : children}</span>
    </button>
  );
}

async function copy(text: string) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // without TLS there is no clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** One of a few, kept in the address. */
export function Pick({ label, name, of, value, onPick }: { label: string; name?: string; of: { id: string; word: ComponentChildren }[]; value?: string; onPick?: (id: string) => void }) {
  const chosen = value ?? (name ? query(name) : "");
  return (
    <span class="pick" role="group" aria-label={label}>
      {of.map((o) => (
        <button type="button" aria-pressed={o.id === chosen} aria-current={o.id === chosen ? "true" : undefined} onClick={() => (onPick ? onPick(o.id) : setQuery({ [name!]: o.id }))}>
          {o.word}
        </button>
      ))}
    </span>
  );
}

/** Tabs of a page, kept in the address as "tab". */
export const Tabs = ({ of }: { of: { id: string; word: ComponentChildren }[] }) => (
  <nav class="tabs" aria-label="Parts of this page">
    {of.map((o) => {
      const params = new URLSearchParams(location.search);
      o.id ? params.set("tab", o.id) : params.delete("tab");
      return (
        <a href={location.pathname + (params.size ? "?" + params : "")} aria-current={query("tab") === o.id ? "page" : undefined}>
          {o.word}
        </a>
      );
    })}
  </nav>
);

/** A field to search a list with, kept in the address. */
export function Search({ name = "find", label, placeholder }: { name?: string; label: string; placeholder?: string }) {
  const there = query(name);
  const [text, setText] = useState(there);
  const timer = useRef(0);
  const sent = useRef(there);
  useLayoutEffect(() => { // somebody else has set it; what was typed since it was sent stays
    if (there === sent.current) return;
    clearTimeout(timer.current);
    setText((sent.current = there));
  }, [there]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <input
      class="in search"
      type="search"
      aria-label={label}
      placeholder={placeholder ?? label}
      value={text}
      onInput={(e) => {
        const value = e.currentTarget.value;
        setText(value);
        clearTimeout(timer.current);
        timer.current = window.setTimeout(() => setQuery({ [name]: (sent.current = value) }), 200);
      }}
    />
  );
}

// The five states ---------------------------------------------------------

/** Bars in the shape of what comes, after 300 ms. */
export function Loading({ what, lines = 4 }: { what: string; lines?: number }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 300);
    return () => clearTimeout(timer);
  }, []);
  if (!late) return <div class="empty" aria-busy="true" />;
  const widths = ["w70", "w92", "w54", "w80"];
  return (
    <div class="empty" aria-busy="true">
      <div class="stack bars" aria-hidden="true">
        {Array.from({ length: lines }, (_, i) => (
          <span class={`wait ${widths[i % 4]}`} />
        ))}
      </div>
      <p class="small dim">{what}</p>
    </div>
  );
}

/** What it would be, and one step. */
export const Empty = ({ title, shape, children, step }: { title: string; shape?: Shape; step?: ComponentChildren } & Children) => (
  <div class="empty">
    <span class="line">
      {shape && <Mark is={shape} />}
      <b>{title}</b>
    </span>
    {children && <p>{children}</p>}
    {step}
  </div>
);

/** What failed, the code behind the words, what still works, try again. */
export const Failed = ({ title, error, works, retry }: { title: string; error: Failure; works?: string; retry?: () => void }) => (
  <div class="empty" role="alert">
    <span class="line">
      <Mark is="failed" />
      <b>{title}</b>
    </span>
    <p>
      <Said error={error} /> {works}
    </p>
    {retry && <Button onClick={retry}>Try again</Button>}
  </div>
);

/** An error in words, its code behind them. */
export const Said = ({ error }: { error: Failure }) => (
  <span>
    {sentence(error.message)} <code>{error.code}</code>
    {typeof error.details.did_you_mean === "string" && (
      <>
        {" "}
        Did you mean <code>{error.details.did_you_mean}</code>?
      </>
    )}
  </span>
);

const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");

/** Which action is needed; "Why?" opens the tester with it. */
export const NotAllowed = ({ action, on, title = "In part", children }: { action: string; on?: string; title?: string } & Children) => (
  <div class="empty">
    <span class="line">
      <Mark is="denied" />
      <b>{title}</b>
    </span>
    <p>
      {children ?? "This needs"} <code>{action}</code>.
    </p>
    <a href={link("policies", { tab: "ask", action, resource: on })}>Why?</a>
  </div>
);

/** What was asked for, or the state it is in. The last value stays while the
 * connection is lost; its age is shown. */
export function Answer<T>({ of, action, loading, failed, works, children }: { of: { value: Asked<T>; reload: () => void }; action: string; loading: string; failed: string; works?: string; children: (data: T) => ComponentChildren }) {
  const { data, error } = of.value;
  if (data !== undefined && !(error && error.code === "3001"))
    return (
      <>
        {error && linkState.value === "live" && (
          <p class="note small warning mid" role="status">
            <Mark is="warning" />
            <span class="grow">
              As of <Time at={of.value.at} />. <Said error={error} />
            </span>
          </p>
        )}
        {children(data)}
      </>
    );
  if (!error || error.code === "lost") return <Loading what={loading} />;
  if (error.denied) return <NotAllowed action={action} title="Not yours" />;
  return <Failed title={failed} error={error} works={works} retry={of.reload} />;
}

/** The band while the connection is lost is the frame's; parts that stand still
 * say since when. */
export const AsOf = () => (linkState.value === "lost" ? <span class="small warning">as of {time(lostAt.value)}</span> : null);

/** Why what acts is off at this moment, "" while it is not. */
export const offNow = () => (linkState.value === "live" ? "" : "Off until the bridge answers");

// Lists -------------------------------------------------------------------

/** A line of figures over time; the words say what it shows. */
export function Spark({ points, label }: { points: number[]; label: string }) {
  if (points.length < 2) return <svg class="spark dim" viewBox="0 0 100 36" aria-hidden="true" />;
  const top = Math.max(...points, 1e-9);
  const at = points.map((p, i) => `${((i * 100) / (points.length - 1)).toFixed(1)},${(34 - (30 * p) / top).toFixed(1)}`);
  return (
    <svg class="spark dim" viewBox="0 0 100 36" preserveAspectRatio="none" role="img" aria-label={label}>
      <polyline points={at.join(" ")} vector-effect="non-scaling-stroke" />
    </svg>
  );
}

/** Crossing: who asks, what may act, and the gate between; down as a column. */
export const Crossing = ({ of, down }: { down?: boolean; of: { name: ComponentChildren; about?: ComponentChildren; gate?: boolean; ahead?: boolean }[] }) => (
  <ol class={down ? "crossing down" : "crossing"} aria-label="The crossing: from who asks to what acts">
    {of.map((p) => (
      <li class={p.gate ? "gate" : p.ahead ? "ahead" : ""}>
        <span class={p.gate ? "pier waiting" : "pier"}>{p.gate && <GateMark />}</span>
        <b>{p.name}</b>
        {p.about && <small>{p.about}</small>}
      </li>
    ))}
  </ol>
);

import { Fragment } from "preact";
import { Gate as GateMark } from "./marks";

/** Asks before what cannot be undone, naming the thing. */
export function Confirm({ title, children, act, not, onAct, onClose }: { title: string; act: string; not?: string | false; onAct: () => void; onClose: () => void } & Children) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog class="panel key" ref={dialog} onClose={onClose} aria-label={title}>
      <div class="body stack">
        <h2>{title}</h2>
        {children}
        <div class="line">
          <Button danger not={not} onClick={() => (dialog.current?.close(), onAct())}>
            {act}
          </Button>
          <Button onClick={() => dialog.current?.close()}>Keep it</Button>
        </div>
      </div>
    </dialog>
  );
}

/** Presence over time: parts that are there and away. */
export function Presence({ spans, from, to }: { spans: { online: boolean; from: number; to: number }[]; from: number; to: number }) {
  const away = spans.filter((s) => !s.online);
  const label = away.length ? `Away ${away.map((s) => `${time(s.from, false)} to ${time(s.to, false)}`).join(", ")}` : "There all the time";
  const whole = to - from || 1;
  let x = 0;
  return (
    <div class="presence" role="img" aria-label={label}>
      <svg viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true">
        {spans.map((s) => {
          const width = (1000 * (s.to - s.from)) / whole;
          const part = <rect class={s.online ? "on" : "off"} x={x} y="0" width={Math.max(width, 1.5)} height="12" />;
          x += width;
          return part;
        })}
      </svg>
    </div>
  );
}

/** Goes back to where a list is. */
export const back = (...parts: string[]) => go(link(...parts));
