// What the SDK has to say to the person who runs the program.

export interface Log {
  info(...text: unknown[]): void;
  warn(...text: unknown[]): void;
  error(...text: unknown[]): void;
}

/** Says warnings and errors on the console, and nothing else. */
export const quiet: Log = {
  info: () => {},
  warn: (...text) => console.warn("aibridge:", ...text),
  error: (...text) => console.error("aibridge:", ...text),
};
