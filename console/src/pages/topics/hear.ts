// The page's own MQTT connection: it comes in as who is signed in.
import type { MqttClient, IClientOptions, IPublishPacket, Packet } from "mqtt";
import { base, newID, onRevived, signal } from "../../core";
import { Tree, type Properties } from "./tree";

export interface Hearing {
  state: "connecting" | "live" | "lost" | "refused";
  why?: string; // it was refused
}

export interface Sent {
  topic: string;
  payload: Uint8Array;
  qos: 0 | 1 | 2;
  retain: boolean;
  properties: Properties;
}

/** What became of a publication, in words; a refusal throws. */
export type Outcome = "sent" | "taken" | "nobody listens";

const storedFor = 2000; // ms after subscribing, in which retained messages are no news

/** Hears a filter until it is closed. */
export class Hearer {
  tree = new Tree();
  hearing = signal<Hearing>({ state: "connecting" });
  held = signal(0); // since when nothing is shown anew
  private client?: MqttClient;
  private over = false;
  private subscribedAt = 0;
  private stops: (() => void)[] = [];

  constructor(readonly filter: string) {
    void this.open();
    let last = performance.now();
    const ticking = setInterval(() => {
      const at = performance.now();
      this.tree.tick((at - last) / 1000);
      last = at;
    }, 500);
    this.stops.push(() => clearInterval(ticking), onRevived(() => this.hearing.peek().state === "lost" && this.client?.reconnect()));
  }

  private async open() {
    const { default: mqtt } = await import("mqtt");
    if (this.over) return;
    const url = new URL(base + "mqtt", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const options: IClientOptions = {
      protocolVersion: 5, clientId: "console-" + newID().slice(0, 13), clean: true, keepalive: 30, reconnectPeriod: 2000, connectTimeout: 20000,
      resubscribe: false, queueQoSZero: false, timerVariant: "native", properties: { sessionExpiryInterval: 0 },
    };
    const client = mqtt.connect(url.href, options);
    this.client = client;
    client.on("connect", () => this.subscribe(client));
    client.on("message", (topic, payload, packet) => this.take(topic, payload, packet));
    client.on("close", () => this.hearing.peek().state === "live" && (this.hearing.value = { state: "lost" }));
    client.on("error", (e) => (this.hearing.value = { state: "lost", why: e.message }));
  }

  private subscribe(client: MqttClient) {
    client.subscribe(this.filter, { qos: 0, rap: true }, (e, _granted, packet) => {
      const why = (packet as { properties?: { reasonString?: string } } | undefined)?.properties?.reasonString;
      if (e) return void (this.hearing.value = { state: "refused", why: why ?? e.message });
      this.subscribedAt = Date.now();
      this.hearing.value = { state: "live" };
    });
  }

  private take(topic: string, payload: Uint8Array, packet: IPublishPacket) {
    if (this.held.peek()) return;
    const at = Date.now();
    const news = !packet.retain || (this.subscribedAt > 0 && at - this.subscribedAt > storedFor);
    this.tree.take(topic, { at, payload: new Uint8Array(payload), size: payload.length, qos: packet.qos, retain: packet.retain, properties: (packet.properties ?? {}) as Properties }, news);
  }

  /** Publishes, and says what the bridge did with it. */
  publish(p: Sent): Promise<Outcome> {
    return new Promise((done, failed) => {
      if (!this.client?.connected) return failed(new Error("there is no connection"));
      this.client.publish(p.topic, p.payload as Buffer, { qos: p.qos, retain: p.retain, properties: p.properties as object }, (e?: Error, packet?: Packet) => {
        const ack = packet as { reasonCode?: number; properties?: { reasonString?: string } } | undefined;
        if (e) return failed(new Error(ack?.properties?.reasonString ?? e.message));
        done(p.qos === 0 ? "sent" : ack?.reasonCode === 16 ? "nobody listens" : "taken");
      });
    });
  }

  /** Stands still, or goes on. What comes meanwhile is not kept. */
  hold() {
    this.held.value = this.held.peek() ? 0 : Date.now();
  }

  close() {
    this.over = true;
    for (const stop of this.stops) stop();
    this.client?.end(true);
  }
}
