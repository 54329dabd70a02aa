// The memory of an agent in a folder, for Node.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
const MAX_CALLS = 1024;
/**
 * Calls in a file of JSON lines that is appended to, and written anew when most of it is
 * old. What a crash leaves of its last line is left out.
 */
export class FileMemory {
    #path;
    #file;
    #calls = new Map();
    #lines = 0;
    constructor(folder, agentID) {
        mkdirSync(folder, { recursive: true });
        this.#path = join(folder, `${encodeURIComponent(agentID).replaceAll(".", "%2e")}.calls.jsonl`);
        if (existsSync(this.#path))
            this.#read();
        this.#file = this.#rewrite();
    }
    #read() {
        for (const text of readFileSync(this.#path, "utf8").split("\n")) {
            try {
                this.#apply(JSON.parse(text));
            }
            catch {
                continue; // the end of the file, or what a crash has left
            }
        }
    }
    #apply({ id, trace, answer, forget }) {
        if (forget)
            this.#calls.delete(id);
        else if (answer === undefined)
            this.#calls.set(id, { id, trace });
        else if (this.#calls.has(id))
            this.#calls.get(id).answer = answer;
        if (this.#calls.size > MAX_CALLS)
            this.#calls.delete(this.#calls.keys().next().value);
    }
    /** Replace the file by one with what is known, and open it. */
    #rewrite() {
        const beside = `${this.#path}.part`;
        const file = openSync(beside, "w", 0o600);
        const known = [...this.#calls.values()];
        const lines = known.flatMap(({ id, trace, answer }) => [{ id, trace }, ...(answer === undefined ? [] : [{ id, answer }])]);
        writeSync(file, lines.map((line) => JSON.stringify(line) + "\n").join(""));
        fsyncSync(file);
        renameSync(beside, this.#path);
        this.#lines = lines.length;
        return file;
    }
    #append(line) {
        this.#apply(line);
        writeSync(this.#file, JSON.stringify(line) + "\n");
        if (++this.#lines < 8 * MAX_CALLS)
            return;
        closeSync(this.#file);
        this.#file = this.#rewrite();
    }
    load() {
        return [...this.#calls.values()].map((call) => ({ ...call }));
    }
    begin(id, trace) {
        this.#append({ id, trace });
        fsyncSync(this.#file);
    }
    answer(id, answer) {
        if (!this.#calls.has(id))
            return;
        this.#append({ id, answer });
        fsyncSync(this.#file);
    }
    forget(id) {
        if (this.#calls.has(id))
            this.#append({ id, forget: true });
    }
    close() {
        closeSync(this.#file);
    }
}
