// What a client shows to a bridge: a key, a password or a token. Certificates, for Node
// alone, are in certificate.ts.
const RETRY = 10_000; // ms until a renewal that failed is tried again
/** Nothing at all, which only a bridge with `--dev` lets in. */
export class Credential {
    /** What the next connection shows. Asked before every connection. */
    login() {
        return {};
    }
    /** The certificate of the next connection, and the authority to trust. */
    tls() {
        return {};
    }
    /** The milliseconds until the credential is to be renewed; undefined for never. */
    due() {
        return undefined;
    }
    /** Get a newer one. True if there is one now, for the next connection. */
    renew(_client) {
        return Promise.resolve(false);
    }
}
/** An API key. */
export class Key extends Credential {
    #key;
    constructor(key) {
        super();
        this.#key = key;
    }
    login() {
        return { username: "apikey", password: this.#key };
    }
}
/** A user name and a password, for bridges that know such. */
export class Password extends Credential {
    #login;
    constructor(username, password) {
        super();
        this.#login = { username, password };
    }
    login() {
        return this.#login;
    }
}
/**
 * A JSON Web Token, from a function that yields one. It is asked for before every
 * connection, and again when four fifths of the time that is left are over: a newer one
 * is shown by a new connection at once, so that the old one never runs out.
 */
export class Token extends Credential {
    #source;
    #expires; // Unix milliseconds
    #next = 0;
    constructor(source) {
        super();
        this.#source = typeof source === "string" ? () => source : source;
    }
    async login() {
        const token = (await this.#source()).trim();
        this.#expires = expiry(token);
        if (this.#expires !== undefined)
            this.#next = Date.now() + Math.max((this.#expires - Date.now()) * 0.8, 1000);
        return { username: "jwt", password: token };
    }
    due() {
        return this.#expires === undefined ? undefined : Math.max(this.#next - Date.now(), 0);
    }
    async renew() {
        const left = (this.#expires ?? 0) - Date.now();
        this.#next = Date.now() + Math.min(RETRY, Math.max(left * 0.8, 1000));
        const newer = expiry((await this.#source()).trim());
        return newer === undefined || this.#expires === undefined || newer > this.#expires;
    }
}
/** When a token says that it expires, in Unix milliseconds. It is not verified here. */
export function expiry(token) {
    const parts = token.split(".");
    if (parts.length !== 3)
        return undefined;
    try {
        const claims = JSON.parse(atob(parts[1].replaceAll("-", "+").replaceAll("_", "/")));
        const exp = claims.exp;
        return typeof exp === "number" && exp > 0 && exp < 2 ** 40 ? exp * 1000 : undefined;
    }
    catch {
        return undefined;
    }
}
