/** setTimeout for any number of milliseconds; the result takes it back. */
export declare function after(ms: number, act: () => void): () => void;
/** Wait; false if the signal was aborted first. */
export declare function pause(ms: number, signal?: AbortSignal): Promise<boolean>;
/** The pause in milliseconds before an attempt, the first repeat being 1: it doubles up
 * to a limit, and half of it is up to chance. */
export declare function backoff(attempt: number, limit: number): number;
/** Items that one side puts and the other takes. */
export declare class Queue<T> {
    #private;
    get length(): number;
    put(item: T): void;
    /** The next item; undefined when the milliseconds are over. */
    take(ms?: number): Promise<T | undefined>;
    clear(): void;
}
