import type { Client } from "./client.js";
import type { Login, TLS } from "./connection.js";
/** Nothing at all, which only a bridge with `--dev` lets in. */
export declare class Credential {
    /** What the next connection shows. Asked before every connection. */
    login(): Login | Promise<Login>;
    /** The certificate of the next connection, and the authority to trust. */
    tls(): TLS;
    /** The milliseconds until the credential is to be renewed; undefined for never. */
    due(): number | undefined;
    /** Get a newer one. True if there is one now, for the next connection. */
    renew(_client: Client): Promise<boolean>;
}
/** An API key. */
export declare class Key extends Credential {
    #private;
    constructor(key: string);
    login(): Login;
}
/** A user name and a password, for bridges that know such. */
export declare class Password extends Credential {
    #private;
    constructor(username: string, password: string);
    login(): Login;
}
/**
 * A JSON Web Token, from a function that yields one. It is asked for before every
 * connection, and again when four fifths of the time that is left are over: a newer one
 * is shown by a new connection at once, so that the old one never runs out.
 */
export declare class Token extends Credential {
    #private;
    constructor(source: string | (() => string | Promise<string>));
    login(): Promise<Login>;
    due(): number | undefined;
    renew(): Promise<boolean>;
}
/** When a token says that it expires, in Unix milliseconds. It is not verified here. */
export declare function expiry(token: string): number | undefined;
