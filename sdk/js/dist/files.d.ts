import type { Memory, Remembered } from "./memory.js";
/**
 * Calls in a file of JSON lines that is appended to, and written anew when most of it is
 * old. What a crash leaves of its last line is left out.
 */
export declare class FileMemory implements Memory {
    #private;
    constructor(folder: string, agentID: string);
    load(): Remembered[];
    begin(id: string, trace: string | undefined): void;
    answer(id: string, answer: string): void;
    forget(id: string): void;
    close(): void;
}
