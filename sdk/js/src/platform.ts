// What Node has and browsers have not: node.ts fills it in.

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

const absent = (what: string): never => {
  throw new TypeError(`${what}: browsers have no files`);
};

export const platform: Platform = {
  environment: () => undefined,
  credential: () => new Credential(),
  readText: () => absent("a file cannot be read"),
  memory: () => absent("calls cannot be kept in a folder; give a Memory"),
  onEnd: () => () => {},
};
