// One MQTT 5 connection, by MQTT.js.
//
// A connection is used once: when it is lost, another one is made. So nothing of the
// library's own memory of messages in flight is left, and who sends decides what is
// sent again.

import mqtt, { type IClientOptions, type IClientPublishOptions, type MqttClient, type Packet } from "mqtt";
import { BridgeError, CredentialInvalid, Internal, InvalidParameter, PayloadTooLarge, PermissionDenied, RateLimited, TargetUnavailable } from "./errors.js";
import { after } from "./wait.js";

const CONNECT_TIMEOUT = 10_000;
const CLOSE_PATIENCE = 2_000;
const MAX_UNACKNOWLEDGED = 1000; // messages, of those that may be lost or can wait

export const TAKEN_OVER = 0x8e;

/** A message on a topic. */
export interface Message {
  topic: string;
  payload: Uint8Array | string;
  qos?: 0 | 1 | 2;
  retain?: boolean;
  contentType?: string;
  responseTopic?: string;
  correlation?: Uint8Array | string;
  /** MQTT 5 User Properties. */
  properties?: Record<string, string | string[]>;
  /** Seconds. */
  expiry?: number;
}

/** A message that came. */
export type Received = Message & { payload: Uint8Array };

/** What a connection shows: a user name and a password, or nothing. */
export interface Login {
  username?: string;
  password?: string;
}

/** PEM texts for a TLS connection. */
export interface TLS {
  ca?: string;
  cert?: string;
  key?: string;
}

/** The bridge refuses the connection. Final means that the next try fails as well. */
export class Refused extends Error {
  constructor(readonly error: BridgeError, readonly final: boolean) {
    super(error.message);
  }
}

/** The connection is gone, and what became of a message is not known. */
export class Lost extends Error {}

const refusals: Record<number, [new (text: string) => BridgeError, string]> = {
  0x85: [InvalidParameter, "the client id is not valid"],
  0x86: [CredentialInvalid, "the credential is missing or not valid"],
  0x87: [PermissionDenied, "not allowed, or the client id is somebody else's"],
  0x8a: [PermissionDenied, "this client is banned"],
  0x8c: [CredentialInvalid, "this way to authenticate is not offered"],
};

const untrusted = /^(CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|ERR_TLS_CERT_)/;

export interface Dial {
  url: string;
  clientID: string;
  login: Login;
  tls: TLS;
  keepalive: number; // seconds
  received: (m: Received) => void;
}

export class Connection {
  /** Settled when the connection is gone. */
  readonly lost: Promise<void>;
  isLost = false;
  /** The reason of the bridge's DISCONNECT. */
  reason: number | undefined;
  responseInfo = "";
  #mqtt: MqttClient;
  #waiting = new Set<(why: Lost) => void>(); // for acknowledgements

  /** Connect; Refused if that fails. */
  static open(dial: Dial): Promise<Connection> {
    return new Promise((resolve, reject) => new Connection(dial, resolve, reject));
  }

  private constructor(dial: Dial, connected: (c: Connection) => void, refused: (why: Refused) => void) {
    this.#mqtt = mqtt.connect(dial.url, options(dial));
    let text = "";
    const refuse = (why: Refused) => {
      refused(why);
      this.#mqtt.end(true);
    };
    this.#mqtt.on("packetreceive", (packet: Packet) => {
      if (packet.cmd === "connack") text = packet.properties?.reasonString ?? "";
    });
    this.#mqtt.on("connect", (packet) => {
      this.responseInfo = (packet.properties as { responseInformation?: string } | undefined)?.responseInformation ?? "";
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

  #end(): void {
    this.isLost = true;
    for (const fail of this.#waiting) fail(new Lost("the connection is lost"));
    this.#waiting.clear();
  }

  /** End the connection, after what is to be sent if it still stands. */
  async close(): Promise<void> {
    if (this.isLost) return;
    this.#mqtt.end(false);
    const forget = after(CLOSE_PATIENCE, () => this.#mqtt.end(true));
    await this.lost;
    forget();
  }

  /** End the connection at once. */
  drop(): Promise<void> {
    this.#mqtt.end(true);
    return this.lost;
  }

  /** Whether so much is on its way that what may be lost should be. */
  get crowded(): boolean {
    return this.#waiting.size >= MAX_UNACKNOWLEDGED;
  }

  /** Send a message. It is settled when the bridge has it (QoS 1), or it is on its way
   * (QoS 0); Lost if the connection is lost before. */
  publish(m: Message): Promise<void> {
    return this.#acknowledged((settle, fail) => {
      const options: IClientPublishOptions = { qos: m.qos ?? 0, retain: m.retain ?? false, properties: properties(m) };
      this.#mqtt.publish(m.topic, m.payload as Buffer | string, options, (error) => (error ? fail(publishError(error)) : settle()));
    });
  }

  /** Subscribe to filters with their QoS and return the reason codes. */
  async subscribe(filters: Iterable<[string, 0 | 1 | 2]>): Promise<number[]> {
    const wanted = [...filters];
    const one = ([filter, qos]: [string, 0 | 1 | 2]) =>
      this.#acknowledged<number>((settle, fail) => {
        this.#mqtt.subscribe(filter, { qos }, (error) => {
          if (!error) return settle(qos);
          const code = (error as { packet?: { granted?: number[] } }).packet?.granted?.[0];
          if (code !== undefined) settle(code);
          else if (/invalid topic/i.test(error.message)) settle(0x8f);
          else fail(new Lost("the connection is lost"));
        });
      });
    return Promise.all(wanted.map(one));
  }

  unsubscribe(filter: string): void {
    if (!this.isLost) this.#mqtt.unsubscribe(filter, () => {});
  }

  #acknowledged<T = void>(send: (settle: (value: T) => void, fail: (why: Error) => void) => void): Promise<T> {
    if (this.isLost) return Promise.reject(new Lost("the connection is lost"));
    return new Promise((resolve, reject) => {
      const fail = (why: Error) => {
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

function options(d: Dial): IClientOptions {
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
  } as IClientOptions;
}

function properties(m: Message): NonNullable<IClientPublishOptions["properties"]> {
  return {
    ...(m.contentType && { contentType: m.contentType }),
    ...(m.responseTopic && { responseTopic: m.responseTopic }),
    ...(m.correlation && { correlationData: m.correlation as Buffer }),
    ...(m.properties && { userProperties: m.properties }),
    ...(m.expiry !== undefined && { messageExpiryInterval: Math.max(1, Math.ceil(m.expiry)) }),
  };
}

/** Have small packets leave without waiting for the acknowledgement of the last, which
 * takes 40 ms where the other side delays it. */
function sendAtOnce(client: MqttClient): void {
  const stream = client.stream as unknown as { setNoDelay?: (on: boolean) => void };
  stream.setNoDelay?.(true);
}

function refusal(error: Error & { code?: unknown }, text: string): Refused {
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

const publishErrors: Record<number, new (text: string) => BridgeError> = {
  0x87: PermissionDenied,
  0x90: InvalidParameter,
  0x95: PayloadTooLarge,
  0x97: RateLimited,
};

function publishError(error: Error & { code?: unknown }): Error {
  if (typeof error.code === "number") return new (publishErrors[error.code] ?? Internal)(`the bridge refuses the message: ${error.message}`);
  if (/invalid topic/i.test(error.message)) return InvalidParameter.at("topic", "is not valid");
  return new Lost("the connection is lost");
}
