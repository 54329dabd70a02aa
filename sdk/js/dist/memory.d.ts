/** A call that was begun, and its answer if it is known. */
export interface Remembered {
    id: string;
    trace?: string | undefined;
    answer?: string | undefined;
}
/**
 * Where calls are kept. A call is noted before its handler runs; one without an answer
 * is known as begun after a crash, so it is not run again. In Node a folder's name is
 * enough; in a browser this may be written over IndexedDB. 1024 calls are enough.
 */
export interface Memory {
    /** The calls, the oldest first. */
    load(): Remembered[] | Promise<Remembered[]>;
    /** Note that a call is about to run. It must last when this is settled. */
    begin(id: string, trace: string | undefined): void | Promise<void>;
    /** Keep the answer to a call that was begun. */
    answer(id: string, answer: string): void | Promise<void>;
    /** Drop a call in which nothing has happened. */
    forget(id: string): void | Promise<void>;
    close(): void | Promise<void>;
}
