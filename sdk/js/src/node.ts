// The SDK in Node: files, the environment, signals and certificates besides.

import { readFileSync } from "node:fs";
import { Certificate, KeyPair } from "./certificate.js";
import { Credential, Key, Token } from "./credentials.js";
import { FileMemory } from "./files.js";
import { platform } from "./platform.js";

export * from "./index.js";
export { Certificate, KeyPair, enrol } from "./certificate.js";
export { FileMemory } from "./files.js";

const environment = (name: string): string | undefined => process.env[name] || undefined;

/** A token in a file, which is read for every connection. */
export const tokenFile = (path: string): Token => new Token(() => readFileSync(path, "utf8"));

function credential(): Credential {
  const named = (name: string) => environment(`AIBRIDGE_${name}`);
  const [key, file, token, folder] = [named("API_KEY"), named("TOKEN_FILE"), named("TOKEN"), named("CERT_FOLDER")];
  if (key) return new Key(key);
  if (file) return tokenFile(file);
  if (token) return new Token(token);
  if (folder) return new Certificate(folder);
  const [cert, certKey] = [named("CERT"), named("KEY")];
  return cert && certKey ? new KeyPair(cert, certKey) : new Credential();
}

function onEnd(end: () => void): () => void {
  const signals = ["SIGTERM", "SIGINT"] as const;
  for (const signal of signals) process.once(signal, end);
  return () => signals.forEach((signal) => process.removeListener(signal, end));
}

Object.assign(platform, {
  environment,
  credential,
  readText: (path: string) => readFileSync(path, "utf8"),
  memory: (folder: string, agentID: string) => new FileMemory(folder, agentID),
  onEnd,
} satisfies typeof platform);
