// One MQTT 5 connection, by MQTT.js.
//
// A connection is used once: when it is lost, another one is made. So nothing of the
// library's own memory of messages in flight is left, and who sends decides what is
// sent again.
import mqtt from "mqtt";
import { CredentialInvalid, Internal, InvalidParameter, PayloadTooLarge, PermissionDenied, RateLimited, TargetUnavailable } from "./errors.js";
import { after } from "./wait.js";
const CONNECT_TIMEOUT = 10_000;
const CLOSE_PATIENCE = 2_000;
const MAX_UNACKNOWLEDGED = 1000; // messages, of those that may be lost or can wait
export const TAKEN_OVER = 0x8e;
/** The bridge refuses the connection. Final means that the next try fails as well. */
export class Refused extends Error {
    error;
    final;
    constructor(error, final) {
        super(error.message);
        this.error = error;
        this.final = final;
    }
}
/** The connection is gone, and what became of a message is not known. */
export class Lost extends Error {
}
const refusals = {
    0x85: [InvalidParameter, "the client id is not valid"],
    0x86: [CredentialInvalid, "the credential is missing or not valid"],
    0x87: [PermissionDenied, "not allowed, or the client id is somebody else's"],
    0x8a: [PermissionDenied, "this client is banned"],
    0x8c: [CredentialInvalid, "this way to authenticate is not offered"],
};
const untrusted = /^(CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|ERR_TLS_CERT_)/;
export class Connection {
    /** Settled when the connection is gone. */
    lost;
    isLost = false;
    /** The reason of the bridge's DISCONNECT. */
    reason;
    responseInfo = "";
    #mqtt;
    #waiting = new Set(); // for acknowledgements
    /** Connect; Refused if that fails. */
    static open(dial) {
        return new Promise((resolve, reject) => new Connection(dial, resolve, reject));
    }
    constructor(dial, connected, refused) {
        this.#mqtt = mqtt.connect(dial.url, options(dial));
        let text = "";
        const refuse = (why) => {
            refused(why);
            this.#mqtt.end(true);
        };
        this.#mqtt.on("packetreceive", (packet) => {
            if (packet.cmd === "connack")
                text = packet.properties?.reasonString ?? "";
        });
        this.#mqtt.on("connect", (packet) => {
            this.responseInfo = packet.properties?.responseInformation ?? "";
            sendAtOnce(this.#mqtt);
            connected(this);
        });
        this.#mqtt.on("error", (error) => refuse(refusal(error, text)));
        this.#mqtt.on("disconnect", (packet) => (this.reason = packet.reasonCode));
        this.#mqtt.on("message", (topic, payload, packet) => {
            const p = packet.properties;
            dial.received({
                topic,
                payload,
                qos: packet.qos,
                retain: packet.retain,
                ...(p?.contentType && { contentType: p.contentType }),
                ...(p?.responseTopic && { responseTopic: p.responseTopic }),
                ...(p?.correlationData && { correlation: p.correlationData }),
                ...(p?.userProperties && { properties: { ...p.userProperties } }),
                ...(p?.messageExpiryInterval && { expiry: p.messageExpiryInterval }),
            });
        });
        this.lost = new Promise((resolve) => {
            this.#mqtt.on("close", () => {
                refuse(new Refused(new TargetUnavailable("the bridge cannot be reached, hung up, or did not answer in time"), false));
                this.#end();
                resolve();
            });
        });
    }
    #end() {
        this.isLost = true;
        for (const fail of this.#waiting)
            fail(new Lost("the connection is lost"));
        this.#waiting.clear();
    }
    /** End the connection, after what is to be sent if it still stands. */
    async close() {
        if (this.isLost)
            return;
        this.#mqtt.end(false);
        const forget = after(CLOSE_PATIENCE, () => this.#mqtt.end(true));
        await this.lost;
        forget();
    }
    /** End the connection at once. */
    drop() {
        this.#mqtt.end(true);
        return this.lost;
    }
    /** Whether so much is on its way that what may be lost should be. */
    get crowded() {
        return this.#waiting.size >= MAX_UNACKNOWLEDGED;
    }
    /** Send a message. It is settled when the bridge has it (QoS 1), or it is on its way
     * (QoS 0); Lost if the connection is lost before. */
    publish(m) {
        return this.#acknowledged((settle, fail) => {
            const options = { qos: m.qos ?? 0, retain: m.retain ?? false, properties: properties(m) };
            this.#mqtt.publish(m.topic, m.payload, options, (error) => (error ? fail(publishError(error)) : settle()));
        });
    }
    /** Subscribe to filters with their QoS and return the reason codes. */
    async subscribe(filters) {
        const wanted = [...filters];
        const one = ([filter, qos]) => this.#acknowledged((settle, fail) => {
            this.#mqtt.subscribe(filter, { qos }, (error) => {
                if (!error)
                    return settle(qos);
                const code = error.packet?.granted?.[0];
                if (code !== undefined)
                    settle(code);
                else if (/invalid topic/i.test(error.message))
                    settle(0x8f);
                else
                    fail(new Lost("the connection is lost"));
            });
        });
        return Promise.all(wanted.map(one));
    }
    unsubscribe(filter) {
        if (!this.isLost)
            this.#mqtt.unsubscribe(filter, () => { });
    }
    #acknowledged(send) {
        if (this.isLost)
            return Promise.reject(new Lost("the connection is lost"));
        return new Promise((resolve, reject) => {
            const fail = (why) => {
                this.#waiting.delete(fail);
                reject(why);
            };
            this.#waiting.add(fail);
            send((value) => {
                this.#waiting.delete(fail);
                resolve(value);
            }, fail);
        });
    }
}
function options(d) {
    return {
        protocolVersion: 5,
        clientId: d.clientID,
        clean: true,
        reconnectPeriod: 0,
        resubscribe: false,
        queueQoSZero: false,
        connectTimeout: CONNECT_TIMEOUT,
        keepalive: d.keepalive,
        properties: { requestResponseInformation: true, requestProblemInformation: true },
        ...d.login,
        ...d.tls,
    };
}
function properties(m) {
    return {
        ...(m.contentType && { contentType: m.contentType }),
        ...(m.responseTopic && { responseTopic: m.responseTopic }),
        ...(m.correlation && { correlationData: m.correlation }),
        ...(m.properties && { userProperties: m.properties }),
        ...(m.expiry !== undefined && { messageExpiryInterval: Math.max(1, Math.ceil(m.expiry)) }),
    };
}
/** Have small packets leave without waiting for the acknowledgement of the last, which
 * takes 40 ms where the other side delays it. */
function sendAtOnce(client) {
    const stream = client.stream;
    stream.setNoDelay?.(true);
}
function refusal(error, text) {
    const code = error.code;
    if (typeof code === "number") {
        const [kind, meaning] = refusals[code] ?? [TargetUnavailable, `reason ${code}`];
        return new Refused(new kind(`the bridge refuses the connection: ${text || meaning}`), code in refusals);
    }
    if (typeof code === "string" && untrusted.test(code)) {
        return new Refused(new TargetUnavailable(`the bridge's certificate is not trusted: ${error.message}`), true);
    }
    return new Refused(new TargetUnavailable(`the bridge cannot be reached: ${error.message}`), false);
}
const publishErrors = {
    0x87: PermissionDenied,
    0x90: InvalidParameter,
    0x95: PayloadTooLarge,
    0x97: RateLimited,
};
function publishError(error) {
    if (typeof error.code === "number")
        return new (publishErrors[error.code] ?? Internal)(`the bridge refuses the message: ${error.message}`);
    if (/invalid topic/i.test(error.message))
        return InvalidParameter.at("topic", "is not valid");
    return new Lost("the connection is lost");
}
