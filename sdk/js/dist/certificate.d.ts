import { type KeyObject } from "node:crypto";
import type { Client } from "./client.js";
import type { TLS } from "./connection.js";
import { Credential } from "./credentials.js";
/**
 * A certificate in a folder with cert.pem, key.pem and ca.pem, as `aibridge cert issue`
 * and enrol write it. It is renewed when two thirds of its time are over, with a new key.
 */
export declare class Certificate extends Credential {
    #private;
    readonly folder: string;
    constructor(folder: string);
    tls(): TLS;
    due(): number;
    renew(client: Client): Promise<boolean>;
}
/** A certificate and its key in two files, which somebody else renews: they are read for
 * every connection. */
export declare class KeyPair extends Credential {
    #private;
    constructor(certificate: string, key: string);
    tls(): TLS;
}
/** Get a certificate for a claim token (`aibridge cert token`) from the HTTP door at url,
 * unless the folder has one already. The key is made here. ca is a PEM text. */
export declare function enrol(folder: string, url: string, token: string, options?: {
    ca?: string;
}): Promise<Certificate>;
/** A request to sign the key (PKCS #10). It names nobody: the bridge knows who asks. */
export declare function signingRequest(key: KeyObject): string;
