import { Token } from "./credentials.js";
export * from "./index.js";
export { Certificate, KeyPair, enrol } from "./certificate.js";
export { FileMemory } from "./files.js";
/** A token in a file, which is read for every connection. */
export declare const tokenFile: (path: string) => Token;
