// What the SDK has to say to the person who runs the program.
/** Says warnings and errors on the console, and nothing else. */
export const quiet = {
    info: () => { },
    warn: (...text) => console.warn("aibridge:", ...text),
    error: (...text) => console.error("aibridge:", ...text),
};
