// The SDK in Node: files, the environment, signals and certificates besides.
import { readFileSync } from "node:fs";
import { Certificate, KeyPair } from "./certificate.js";
import { Credential, Key, Token } from "./credentials.js";
import { FileMemory } from "./files.js";
import { platform } from "./platform.js";
export * from "./index.js";
export { Certificate, KeyPair, enrol } from "./certificate.js";
export { FileMemory } from "./files.js";
const environment = (name) => process.env[name] || undefined;
/** A token in a file, which is read for every connection. */
export const tokenFile = (path) => new Token(() => readFileSync(path, "utf8"));
function credential() {
    const named = (name) => environment(`AIBRIDGE_${name}`);
    const [key, file, token, folder] = [named("API_KEY"), named("TOKEN_FILE"), named("TOKEN"), named("CERT_FOLDER")];
    if (key)
        return new Key(key);
    if (file)
        return tokenFile(file);
    if (token)
        return new Token(token);
    if (folder)
        return new Certificate(folder);
    const [cert, certKey] = [named("CERT"), named("KEY")];
    return cert && certKey ? new KeyPair(cert, certKey) : new Credential();
}
function onEnd(end) {
    const signals = ["SIGTERM", "SIGINT"];
    for (const signal of signals)
        process.once(signal, end);
    return () => signals.forEach((signal) => process.removeListener(signal, end));
}
Object.assign(platform, {
    environment,
    credential,
    readText: (path) => readFileSync(path, "utf8"),
    memory: (folder, agentID) => new FileMemory(folder, agentID),
    onEnd,
});
