// What a page shows, kept true: asked once, and again when an event says that
// it has changed, when the connection stands anew, and now and then.
import { useEffect, useMemo } from "preact/hooks";
import { signal, type Signal } from "@preact/signals";
import type { Commands, CommandName } from "../types";
import { call, Failure, onActed, onEvent, onRevived, type Happening } from "./bridge";

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
  /** Asked again this often, in ms; 60 s by default, 0 never. While the answer
   * stays the same it is left alone for longer, up to four times as long, until
   * the person acts. */
  every?: number;
  /** At most this often while events come without end, in ms; 1 s by default. */
  pace?: number;
}

/** Events come in storms. The first has a value asked for again after a moment;
 * while more come, it is asked for once in each pace. */
export class Pace {
  private timer = 0;
  private last = 0;
  constructor(private readonly pace: number, private readonly ask: () => void) {}
  soon = () => {
    if (this.timer) return;
    const wait = Math.max(400, this.last + this.pace - Date.now());
    this.timer = window.setTimeout(() => ((this.timer = 0), (this.last = Date.now()), this.ask()), wait);
  };
  stop = () => clearTimeout(this.timer);
}

const slowest = 60000;

// Questions that were just asked: parts of a page that want the same share it.
const asked = new Map<string, { at: number; answer: Promise<any> }>();

/** Asks, or joins those who asked the same a moment ago. A value is asked for
 * no sooner than 400 ms after the event that made it stale, so what others asked
 * within 50 ms is as new. */
function share<T>(key: string, ask: () => Promise<T>): Promise<T> {
  const other = asked.get(key);
  if (other && Date.now() - other.at < 50) return other.answer;
  const mine = { at: Date.now(), answer: ask() };
  asked.set(key, mine);
  const forget = () => void (asked.get(key) === mine && asked.delete(key));
  mine.answer.then(forget, forget);
  return mine.answer;
}

/** The result of a command, kept true. No command: nothing is asked. */
export function useLive<N extends CommandName>(command: N | undefined, params: Commands[N]["params"], o: LiveOptions = {}): Live<Commands[N]["result"]> {
  const key = JSON.stringify([command, params]);
  const kept = useMemo(() => keep<Commands[N]["result"]>(), [key]);
  useEffect(() => {
    if (!command) return;
    let over = false, asking = false, stale = false, before = "";
    const ask = async (anew = false) => {
      if (asking) return void (stale = true);
      asking = true;
      kept.value = { ...kept.value, loading: true };
      try {
        const run = () => call(command, params, { live: true });
        const data = await (anew ? run() : share(key, run));
        const text = polled ? JSON.stringify(data) : "";
        calm = polled && text === before ? Math.min(4, calm * 2) : 1;
        before = text;
        if (!over) kept.value = { data, at: Date.now(), loading: false };
      } catch (e) {
        const error = e instanceof Failure ? e : new Failure("5000", String(e));
        if (!over) kept.value = { ...kept.value, error, loading: false };
      }
      asking = false;
      if (stale && !over) later();
      stale = false;
    };
    const pace = new Pace(o.pace ?? 1000, () => void ask());
    const later = pace.soon;
    const every = o.every ?? slowest;
    const polled = every > 0 && every < slowest;
    let calm = 1; // how many times as long as usual it is left alone
    kept.reload = () => void ask(true);
    void ask();
    const stops = [onRevived(later)];
    if (o.on) stops.push(onEvent((e) => o.on!.includes(e.family) && (o.when?.(e) ?? true) && later()));
    const tick = () => {
      again = window.setTimeout(tick, Math.min(slowest, every * calm));
      if (!document.hidden) later();
    };
    let again = every ? window.setTimeout(tick, every) : 0;
    if (polled) stops.push(onActed(() => ((calm = 1), later())));
    return () => {
      over = true;
      pace.stop();
      clearTimeout(again);
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
