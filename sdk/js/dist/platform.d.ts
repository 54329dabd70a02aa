import { Credential } from "./credentials.js";
import type { Memory } from "./memory.js";
export interface Platform {
    /** An environment variable, undefined if it is not set or empty. */
    environment(name: string): string | undefined;
    /** What the environment names. */
    credential(): Credential;
    /** The text of a file. */
    readText(path: string): string;
    /** The memory in a folder. */
    memory(folder: string, agentID: string): Memory;
    /** Have a function called when the program is asked to end; the result takes that back. */
    onEnd(end: () => void): () => void;
}
export declare const platform: Platform;
