export interface Log {
    info(...text: unknown[]): void;
    warn(...text: unknown[]): void;
    error(...text: unknown[]): void;
}
/** Says warnings and errors on the console, and nothing else. */
export declare const quiet: Log;
