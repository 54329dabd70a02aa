// The side that calls: commands, events, channels.
import { Call, DEFAULT_TIMEOUT, MAX_TIMEOUT } from "./calling.js";
import { Connection, Lost, Refused, TAKEN_OVER } from "./connection.js";
import { decode, newID } from "./envelope.js";
import { CredentialInvalid, InvalidParameter, InvalidState, OutcomeUnknown, PermissionDenied, TargetUnavailable } from "./errors.js";
import { follow } from "./following.js";
import { Approvals, Channel, Group } from "./groups.js";
import { quiet } from "./log.js";
import { platform } from "./platform.js";
import { Subscriptions, onObject } from "./subscription.js";
import { after, backoff, pause } from "./wait.js";
const SLOWEST = 30_000; // ms between attempts to connect
const HOUR = 3_600_000;
/**
 * A connection to a bridge that restores itself. url is mqtt://, mqtts://, ws:// or
 * wss://, by default AIBRIDGE_URL or the bridge on this machine.
 */
export class Client {
    id;
    root;
    log;
    /** Called on every new connection. */
    onReady = () => { };
    /** Filters of the owner's own, which stand before a connection is used. */
    ownFilters = () => [];
    /** Takes a message before subscriptions do; true if it is taken. */
    intercept = () => false;
    #url;
    #options;
    #credential;
    #link; // once its subscriptions stand
    #ended;
    #refusal;
    #running;
    #closing = new AbortController();
    #changed = new Set();
    #waiters = new Map();
    #subscriptions = new Subscriptions(this);
    constructor(url, options = {}) {
        this.#url = checkAddress(url ?? platform.environment("AIBRIDGE_URL") ?? "mqtt://127.0.0.1:1883");
        this.#options = options;
        this.#credential = options.credential ?? platform.credential();
        this.id = options.clientID ?? `client-${newID()}`;
        this.root = options.root ?? "aibridge";
        this.log = options.log ?? quiet;
    }
    /** Aborted when the client is closed. */
    get closing() {
        return this.#closing.signal;
    }
    /** Why the client has ended by itself or by close, undefined while it has not. */
    get ended() {
        return this.#ended;
    }
    get responseTopic() {
        return `${this.root}/client/${this.id}/response`;
    }
    /** Connect, and stay so until close. A refusal that will not pass, such as a wrong key,
     * and time that runs out (milliseconds) are errors. Calls connect by themselves. */
    async connect(timeout = DEFAULT_TIMEOUT) {
        await this.online(Date.now() + timeout);
        return this;
    }
    /** End the connection. Nothing works afterwards. */
    async close() {
        this.#finish(new InvalidState("the client is closed"));
        await this.#running;
        this.#subscriptions.close();
    }
    [Symbol.asyncDispose]() {
        return this.close();
    }
    #finish(why) {
        this.#ended ??= why;
        this.#closing.abort(why);
        this.#tellWaiters();
        this.#wake();
    }
    #wake() {
        for (const woken of [...this.#changed])
            woken();
    }
    async #run() {
        for (let established = false, attempt = 0; !this.closing.aborted;) {
            try {
                const link = await this.#dial();
                [established, attempt] = [true, 0];
                if (await this.#hold(link))
                    continue;
                if (!this.closing.aborted)
                    await pause(backoff(1, SLOWEST), this.closing);
            }
            catch (e) {
                this.#refusal = e instanceof Refused ? e.error : new TargetUnavailable(String(e));
                this.log.info("connection to the bridge failed:", this.#refusal.message);
                if (e instanceof Refused && e.final && !established)
                    return this.#finish(e.error);
                await pause(backoff(++attempt, SLOWEST), this.closing);
            }
        }
    }
    /** A connection whose subscriptions stand. */
    async #dial() {
        const link = await Connection.open({
            url: this.#url,
            clientID: this.id,
            ...(await this.#show()),
            keepalive: this.#options.keepalive ?? 30,
            received: (m) => this.#received(m),
        });
        try {
            this.#takeRoot(link.responseInfo);
            await this.#restore(link);
        }
        catch (e) {
            void link.drop();
            throw e instanceof Lost ? new Refused(new TargetUnavailable(e.message), false) : e;
        }
        this.#link = link;
        this.#wake();
        this.onReady();
        return link;
    }
    async #restore(link) {
        const wanted = [[this.responseTopic, 1], ...this.ownFilters()];
        const refused = (await link.subscribe(wanted)).findIndex((code) => code >= 0x80);
        if (refused >= 0)
            throw new Refused(new PermissionDenied(`the bridge refuses the subscription to ${wanted[refused][0]}`), false);
        await this.#subscriptions.restore(link);
    }
    /** What the next connection shows. */
    async #show() {
        try {
            const login = await this.#credential.login();
            const tls = /^(mqtts|ssl|tls|wss):/.test(this.#url) ? this.#credential.tls() : {};
            const file = platform.environment("AIBRIDGE_CA");
            const ca = this.#options.ca ?? (file && platform.readText(file)) ?? tls.ca;
            return { login, tls: { ...tls, ...(ca && { ca }) } };
        }
        catch (e) {
            throw new Refused(new CredentialInvalid(`the credential cannot be read: ${String(e)}`), false);
        }
    }
    /** The first level of all topics is what the bridge says of the response topic. */
    #takeRoot(responseInfo) {
        const rest = `/client/${this.id}/response`;
        if (this.#options.root === undefined && responseInfo.endsWith(rest))
            this.root = responseInfo.slice(0, -rest.length);
    }
    /** Wait until the connection is lost or the client closes, and renew the credential
     * meanwhile. True means that a newer credential waits to be shown. */
    async #hold(link) {
        const over = new AbortController();
        void link.lost.then(() => over.abort());
        const ends = AbortSignal.any([over.signal, this.closing]);
        let renewed = false;
        while (!renewed && !ends.aborted)
            renewed = (await pause(this.#due(), ends)) && (await this.#renew());
        this.#link = undefined;
        await link.close();
        this.#tellWaiters();
        if (link.reason === TAKEN_OVER)
            this.#finish(new InvalidState(`another client uses the id ${this.id}`));
        return renewed;
    }
    #due() {
        try {
            return Math.min(this.#credential.due() ?? HOUR, HOUR);
        }
        catch (e) {
            this.log.warn("the credential cannot be read:", String(e));
            return HOUR;
        }
    }
    async #renew() {
        try {
            return this.#credential.due() !== undefined && (this.#credential.due() ?? 1) <= 0 && (await this.#credential.renew(this));
        }
        catch (e) {
            if (!this.closing.aborted)
                this.log.warn("the credential is not renewed:", String(e));
            return false;
        }
    }
    /** The connection, once it is ready for use; deadline is Unix milliseconds. */
    async online(deadline) {
        this.#running ??= this.#run();
        for (;;) {
            if (this.#ended)
                throw this.#ended;
            if (this.readyLink)
                return this.readyLink;
            const left = deadline - Date.now();
            if (left <= 0)
                throw this.#refusal ?? new TargetUnavailable("not connected to the bridge");
            await new Promise((resolve) => {
                const woken = () => {
                    this.#changed.delete(woken);
                    forget();
                    resolve();
                };
                const forget = after(left, woken);
                this.#changed.add(woken);
            });
        }
    }
    /** The connection if it is ready for use now. */
    get readyLink() {
        return this.#link?.isLost ? undefined : this.#link;
    }
    #received(m) {
        if (m.topic === this.responseTopic)
            this.#answered(m);
        else if (!this.intercept(m))
            this.#subscriptions.deliver(m);
    }
    #answered(m) {
        const answer = decode(m.payload);
        const id = m.correlation ? String(m.correlation) : String(answer?.["id"]);
        if (answer)
            this.#waiters.get(id)?.inbox.put(answer["type"] === "event" ? { event: answer } : { answer });
    }
    #tellWaiters() {
        for (const call of this.#waiters.values())
            call.inbox.put(this.#ended ? { ended: this.#ended } : { lost: true });
    }
    /** Publish bytes, a text, or anything else as JSON. With QoS 1 it is settled when the
     * bridge has it. */
    async publish(topic, payload = "", options = {}) {
        const { qos = 1, retain = false, timeout = DEFAULT_TIMEOUT } = options;
        const body = typeof payload === "string" || payload instanceof Uint8Array ? payload : JSON.stringify(payload);
        const link = await this.online(Date.now() + timeout);
        try {
            await link.publish({ topic, payload: body, qos, retain });
        }
        catch (e) {
            throw e instanceof Lost ? new OutcomeUnknown("the connection was lost before the message was acknowledged") : e;
        }
    }
    /** Hear messages: by handle, one at a time, or by `for await` over the subscription. It
     * lasts over reconnections. */
    subscribe(filter, handle, qos = 1) {
        return this.#subscriptions.open(filter, handle, qos);
    }
    call(command, params = {}, options = {}) {
        return new Call(this, command, params, options).run(this.#waiters);
    }
    /** Have a skill do something and return its result. */
    async invoke(skill, capability, params = {}, options = {}) {
        const body = { skill_id: skill, capability_id: capability, params };
        const result = (await this.call("skill.invoke", body, options));
        return result.data;
    }
    /** The events of a task until it has ended; the last item is what task.get says then. */
    follow(taskID, timeout = MAX_TIMEOUT) {
        return follow(this, taskID, timeout);
    }
    /** A group of a Cap: members, shared data, dispatch. */
    group(capID, groupID) {
        return new Group(this, capID, groupID);
    }
    /** What the members of a Cap say to each other. */
    channel(capID) {
        return new Channel(this, capID);
    }
    /** The calls of models that wait for a person. */
    get approvals() {
        return new Approvals(this);
    }
    /** Hear what happens to agents, skills, approvals and so on; "+" hears all. */
    async events(family, handle) {
        await this.connect(); // the first level of the topics is known from here on
        return this.subscribe(`${this.root}/event/${family}`, onObject(handle));
    }
    /** Hear an agent's card, now and whenever it or its presence changes; "+" hears all. */
    async watchAgent(agentID, handle) {
        await this.connect();
        return this.subscribe(`${this.root}/agent/${agentID}/card`, onObject(handle));
    }
}
function checkAddress(url) {
    if (/^(mqtt|tcp|mqtts|ssl|tls|wss?):\/\/[^/]+/.test(url) && URL.canParse(url)) {
        return /^wss?:\/\/[^/]+$/.test(url) ? `${url}/mqtt` : url;
    }
    throw InvalidParameter.at("url", `must be like mqtt://127.0.0.1:1883, mqtts://, ws:// or wss://, is ${JSON.stringify(url)}`);
}
