// Time: pauses, and queues that are waited on.
const LONGEST = 2 ** 31 - 1; // what setTimeout takes
/** setTimeout for any number of milliseconds; the result takes it back. */
export function after(ms, act) {
    const timer = setTimeout(act, Math.min(Math.max(ms, 0), LONGEST));
    return () => clearTimeout(timer);
}
/** Wait; false if the signal was aborted first. */
export function pause(ms, signal) {
    if (signal?.aborted)
        return Promise.resolve(false);
    return new Promise((resolve) => {
        const end = (whole) => {
            forget();
            signal?.removeEventListener("abort", aborted);
            resolve(whole);
        };
        const aborted = () => end(false);
        const forget = after(ms, () => end(true));
        signal?.addEventListener("abort", aborted);
    });
}
/** The pause in milliseconds before an attempt, the first repeat being 1: it doubles up
 * to a limit, and half of it is up to chance. */
export function backoff(attempt, limit) {
    const most = Math.min(250 * 2 ** Math.min(attempt - 1, 16), limit);
    return most / 2 + (Math.random() * most) / 2;
}
/** Items that one side puts and the other takes. */
export class Queue {
    #items = [];
    #takers = new Set();
    get length() {
        return this.#items.length;
    }
    put(item) {
        for (const taker of this.#takers) {
            this.#takers.delete(taker);
            return taker(item);
        }
        this.#items.push(item);
    }
    /** The next item; undefined when the milliseconds are over. */
    take(ms) {
        if (this.#items.length > 0)
            return Promise.resolve(this.#items.shift());
        return new Promise((resolve) => {
            let forget = () => { };
            const taker = (item) => {
                forget();
                resolve(item);
            };
            this.#takers.add(taker);
            if (ms === undefined)
                return;
            forget = after(ms, () => {
                this.#takers.delete(taker);
                resolve(undefined);
            });
        });
    }
    clear() {
        this.#items = [];
    }
}
