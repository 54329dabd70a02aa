// What a page shows, kept true: asked once, and again when an event says that
// it has changed, when the connection stands anew, and now and then.
import { useEffect, useMemo } from "preact/hooks";
import { signal, type Signal } from "@preact/signals";
import type { Commands, CommandName } from "../types";
import { call, Failure, onEvent, onRevived, type Happening } from "./bridge";

export interface Asked<T> {
  data?: T; // stays while it is asked for again
  error?: Failure;
  at: number; // when data was true, Unix ms
  loading: boolean;
}

export interface Live<T> {
  value: Asked<T>;
  reload: () => void;
}

export interface LiveOptions {
  /** Families of events that change it, such as ["agent"]. */
  on?: string[];
  /** Which of these do; all by default. */
  when?: (e: Happening) => boolean;
  /** Asked again this often, in ms; 60 s by default, 0 never. */
  every?: number;
}

// Events come in storms: a list is asked for again at most this often.
const settleTime = 400;

/** The result of a command, kept true. No command: nothing is asked. */
export function useLive<N extends CommandName>(command: N | undefined, params: Commands[N]["params"], o: LiveOptions = {}): Live<Commands[N]["result"]> {
  const key = JSON.stringify([command, params]);
  const kept = useMemo(() => keep<Commands[N]["result"]>(), [key]);
  useEffect(() => {
    if (!command) return;
    let over = false, asking = false, stale = false, timer = 0;
    const ask = async () => {
      if (asking) return void (stale = true);
      asking = true;
      kept.value = { ...kept.value, loading: true };
      try {
        const data = await call(command, params);
        if (!over) kept.value = { data, at: Date.now(), loading: false };
      } catch (e) {
        const error = e instanceof Failure ? e : new Failure("5000", String(e));
        if (!over) kept.value = { ...kept.value, error, loading: false };
      }
      asking = false;
      if (stale && !over) later();
      stale = false;
    };
    const later = () => {
      if (!timer) timer = window.setTimeout(() => ((timer = 0), void ask()), settleTime);
    };
    kept.reload = () => void ask();
    void ask();
    const stops = [onRevived(later)];
    if (o.on) stops.push(onEvent((e) => o.on!.includes(e.family) && (o.when?.(e) ?? true) && later()));
    const every = o.every ?? 60000;
    const again = every ? window.setInterval(() => document.hidden || later(), every) : 0;
    return () => {
      over = true;
      clearTimeout(timer);
      clearInterval(again);
      for (const stop of stops) stop();
    };
  }, [key]);
  return { value: kept.signal.value, reload: () => kept.reload() };
}

interface Kept<T> {
  signal: Signal<Asked<T>>;
  value: Asked<T>;
  reload: () => void;
}

function keep<T>(): Kept<T> {
  const s = signal<Asked<T>>({ at: 0, loading: true });
  return {
    signal: s,
    get value() {
      return s.peek();
    },
    set value(v) {
      s.value = v;
    },
    reload: () => {},
  };
}

/** The time of day, once a second, for ages and deadlines. */
export const now = signal(Date.now());
setInterval(() => document.hidden || (now.value = Date.now()), 1000);
