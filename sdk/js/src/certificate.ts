// Certificates, for Node: enrolment, use and renewal.

import { X509Certificate, createPrivateKey, createPublicKey, generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { join } from "node:path";
import type { Client } from "./client.js";
import type { TLS } from "./connection.js";
import { Credential } from "./credentials.js";
import { isObject, type Fields } from "./envelope.js";
import { BridgeError, Internal, TargetUnavailable } from "./errors.js";

const RETRY = 10_000;
const MAX_ANSWER = 1 << 20;
const HTTP_TIMEOUT = 30_000;

/**
 * A certificate in a folder with cert.pem, key.pem and ca.pem, as `aibridge cert issue`
 * and enrol write it. It is renewed when two thirds of its time are over, with a new key.
 */
export class Certificate extends Credential {
  #tried = 0; // when the next attempt may be made

  constructor(readonly folder: string) {
    super();
    settle(folder);
  }

  override tls(): TLS {
    settle(this.folder);
    const ca = this.#path("ca.pem");
    return { ...new KeyPair(this.#path("cert.pem"), this.#path("key.pem")).tls(), ...(existsSync(ca) && { ca: readFileSync(ca, "utf8") }) };
  }

  override due(): number {
    const { validFrom, validTo } = this.#certificate();
    const [begins, ends] = [Date.parse(validFrom), Date.parse(validTo)];
    return Math.max(begins + ((ends - begins) * 2) / 3 - Date.now(), this.#tried - Date.now(), 0);
  }

  override async renew(client: Client): Promise<boolean> {
    const left = Date.parse(this.#certificate().validTo) - Date.now();
    this.#tried = Date.now() + Math.min(60 * RETRY, Math.max(left / 4, RETRY));
    const csr = signingRequest(pendingKey(this.folder));
    install(this.folder, await client.call("cert.renew" as string, { csr }, { retry: false }));
    return true;
  }

  #certificate(): X509Certificate {
    return new X509Certificate(readFileSync(this.#path("cert.pem")));
  }

  #path(name: string): string {
    return join(this.folder, name);
  }
}

/** A certificate and its key in two files, which somebody else renews: they are read for
 * every connection. */
export class KeyPair extends Credential {
  #certificate: string;
  #key: string;

  constructor(certificate: string, key: string) {
    super();
    [this.#certificate, this.#key] = [certificate, key];
  }

  override tls(): TLS {
    return { cert: readFileSync(this.#certificate, "utf8"), key: readFileSync(this.#key, "utf8") };
  }
}

/** Get a certificate for a claim token (`aibridge cert token`) from the HTTP door at url,
 * unless the folder has one already. The key is made here. ca is a PEM text. */
export async function enrol(folder: string, url: string, token: string, options: { ca?: string } = {}): Promise<Certificate> {
  if (!existsSync(join(folder, "cert.pem"))) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const csr = signingRequest(pendingKey(folder));
    install(folder, await post(`${url.replace(/\/+$/, "")}/pki/enroll`, { token, csr }, options.ca));
  }
  return new Certificate(folder);
}

/** The key that the next certificate is asked for with. It is kept before it is used: a
 * request that is made again with the same key gets the same certificate. */
function pendingKey(folder: string): KeyObject {
  const path = join(folder, "key.pem.new");
  if (existsSync(path)) return createPrivateKey(readFileSync(path));
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  write(path, privateKey.export({ type: "pkcs8", format: "pem" }) as string);
  return privateKey;
}

const INTEGER_0 = Buffer.from("020100", "hex");
const EMPTY_NAME = Buffer.from("3000", "hex");
const NO_ATTRIBUTES = Buffer.from("a000", "hex");
const ECDSA_WITH_SHA256 = Buffer.from("300a06082a8648ce3d040302", "hex");

/** A request to sign the key (PKCS #10). It names nobody: the bridge knows who asks. */
export function signingRequest(key: KeyObject): string {
  const publicKey = createPublicKey(key).export({ type: "spki", format: "der" });
  const info = der(0x30, INTEGER_0, EMPTY_NAME, publicKey, NO_ATTRIBUTES);
  const signature = der(0x03, Buffer.from([0]), sign("sha256", info, key));
  const lines = der(0x30, info, ECDSA_WITH_SHA256, signature).toString("base64").match(/.{1,64}/g)!;
  return ["-----BEGIN CERTIFICATE REQUEST-----", ...lines, "-----END CERTIFICATE REQUEST-----", ""].join("\n");
}

/** A value in DER, shorter than 64 KiB. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const n = parts.reduce((sum, part) => sum + part.length, 0);
  const length = n < 0x80 ? [n] : n < 0x100 ? [0x81, n] : [0x82, n >> 8, n & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), ...parts]);
}

// A new key and certificate replace the old ones by two renames. What a crash leaves in
// between is settled before the next use: the certificate is written last, so that a new
// one means that the new key is to be used.

/** Put an issued certificate, and the key it was asked for with, in place. */
function install(folder: string, issued: Fields): void {
  const chain = issued["chain"];
  if (!Array.isArray(chain) || chain.length < 2) throw new Internal("the bridge answered without a certificate: it may have to be approved first");
  write(join(folder, "ca.pem"), String(chain.at(-1)));
  write(join(folder, "cert.pem.new"), chain.slice(0, -1).join(""));
  settle(folder);
}

function settle(folder: string): void {
  if (!existsSync(join(folder, "cert.pem.new"))) return;
  for (const name of ["key.pem", "cert.pem"]) {
    if (existsSync(join(folder, `${name}.new`))) renameSync(join(folder, `${name}.new`), join(folder, name));
  }
}

/** Write a file as a whole, for its owner's eyes only. */
function write(path: string, text: string): void {
  const file = openSync(`${path}.part`, "w", 0o600);
  writeSync(file, text);
  fsyncSync(file);
  closeSync(file);
  renameSync(`${path}.part`, path);
}

/** POST an object and read the one that is answered. */
async function post(url: string, body: Fields, ca: string | undefined): Promise<Fields> {
  const { status, text } = await exchange(url, JSON.stringify(body), ca);
  const answer = objectOf(text);
  if (status === 200 || status === 201) return answer;
  throw BridgeError.fromWire(answer["error"] ?? `${url} answers ${status}`);
}

/** fetch has no way to name an authority, so this is by hand. */
function exchange(url: string, body: string, ca: string | undefined): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const fail = (e: Error) => reject(new TargetUnavailable(`${url} cannot be reached: ${e.message}`));
    const options = { method: "POST", headers: { "content-type": "application/json" }, timeout: HTTP_TIMEOUT, ...(ca && { ca }) };
    const request = (url.startsWith("https:") ? httpsRequest : httpRequest)(url, options, (response) => {
      let text = "";
      response.setEncoding("utf8").on("error", fail);
      response.on("data", (piece: string) => (text.length < MAX_ANSWER ? (text += piece) : request.destroy(new Error("the answer is too long"))));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    });
    request.on("timeout", () => request.destroy(new Error("no answer in time")));
    request.on("error", fail);
    request.end(body);
  });
}

function objectOf(text: string): Fields {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
