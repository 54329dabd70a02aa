// What Node has and browsers have not: node.ts fills it in.
import { Credential } from "./credentials.js";
const absent = (what) => {
    throw new TypeError(`${what}: browsers have no files`);
};
export const platform = {
    environment: () => undefined,
    credential: () => new Credential(),
    readText: () => absent("a file cannot be read"),
    memory: () => absent("calls cannot be kept in a folder; give a Memory"),
    onEnd: () => () => { },
};
