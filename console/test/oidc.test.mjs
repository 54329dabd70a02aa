// Signing in by OpenID Connect, at a small issuer of the test's own, behind a
// proxy that has the console below a path.
import { test, before, after } from "node:test";
import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { createServer, request } from "node:http";
import { connect } from "node:net";
import { open, startBridge, startBrowser, until } from "./bridge.mjs";
import { absent } from "./sees.mjs";

const listen = (server, host = "127.0.0.1") => new Promise((done) => server.listen(0, host, () => done(`http://${host}:${server.address().port}`)));
const stop = (server) => (server.closeAllConnections(), new Promise((done) => server.close(done)));

/** An issuer where everybody is who they say: the page has a button for each. */
async function startIssuer() {
  const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const codes = new Map();
  const b64 = (o) => Buffer.from(typeof o === "string" ? o : JSON.stringify(o)).toString("base64url");
  const issuer = { lifetime: 3600, asked: [], redeemed: 0, tokens: [] };
  const server = createServer(async (req, res) => {
    const at = new URL(req.url, issuer.url);
    const answer = (body, status = 200) => (res.writeHead(status, { "Content-Type": "application/json" }), res.end(JSON.stringify(body)));
    switch (at.pathname) {
      case "/.well-known/openid-configuration":
        return answer({ issuer: issuer.url, authorization_endpoint: `${issuer.url}/authorize`, token_endpoint: `${issuer.url}/token`, jwks_uri: `${issuer.url}/keys`, id_token_signing_alg_values_supported: ["RS256"] });
      case "/keys":
        return answer({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "k", use: "sig", alg: "RS256" }] });
      case "/authorize": {
        const asked = Object.fromEntries(at.searchParams);
        issuer.asked.push(asked);
        const code = String(codes.size + 1);
        codes.set(code, asked);
        const back = (more) => `${asked.redirect_uri}?${new URLSearchParams({ state: asked.state, ...more })}`;
        res.setHeader("Content-Type", "text/html");
        return res.end(["alice", "mallory"].map((who) => `<a href="${back({ code: `${code}.${who}` }).replaceAll("&", "&amp;")}">I am ${who}</a>`).join(" ") + `<a href="${back({ error: "access_denied" }).replaceAll("&", "&amp;")}">No</a>`);
      }
      case "/token": {
        let body = "";
        for await (const part of req) body += part;
        const form = new URLSearchParams(body);
        const [code, who] = (form.get("code") ?? "").split(".");
        const asked = codes.get(code);
        codes.delete(code);
        issuer.redeemed++;
        const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
        if (!asked || challenge !== asked.code_challenge || form.get("redirect_uri") !== asked.redirect_uri || form.get("client_id") !== "console") return answer({ error: "invalid_grant" }, 400);
        const now = Math.floor(Date.now() / 1000);
        const text = `${b64({ alg: "RS256", kid: "k" })}.${b64({ iss: issuer.url, aud: "console", sub: who, nonce: asked.nonce, iat: now, exp: now + issuer.lifetime, jti: `t-${code}`, groups: who === "alice" ? ["ops"] : [] })}`;
        const token = `${text}.${sign("sha256", Buffer.from(text), privateKey).toString("base64url")}`;
        issuer.tokens.push(token);
        return answer({ access_token: "unused", token_type: "Bearer", id_token: token });
      }
    }
    answer({}, 404);
  });
  issuer.url = await listen(server, "127.0.0.2"); // another site
  issuer.stop = () => stop(server);
  return issuer;
}

/** A proxy that has the bridge below /bridge/, WebSockets too. */
async function startProxy() {
  const proxy = {};
  const server = createServer((req, res) => {
    if (!req.url.startsWith("/bridge/")) return (res.writeHead(404), res.end());
    const on = request(proxy.to + req.url.slice("/bridge".length), { method: req.method, headers: req.headers }, (got) => (res.writeHead(got.statusCode, got.rawHeaders), got.pipe(res)));
    on.on("error", () => res.destroy());
    req.pipe(on);
  });
  server.on("upgrade", (req, socket, head) => {
    const { hostname, port } = new URL(proxy.to);
    const on = connect(Number(port), hostname, () => {
      const lines = [`${req.method} ${req.url.slice("/bridge".length)} HTTP/1.1`];
      for (let i = 0; i < req.rawHeaders.length; i += 2) lines.push(`${req.rawHeaders[i]}: ${req.rawHeaders[i + 1]}`);
      on.write(lines.join("\r\n") + "\r\n\r\n");
      on.write(head);
      on.pipe(socket).pipe(on);
    });
    for (const end of [on, socket]) end.on("error", () => (on.destroy(), socket.destroy()));
    proxy.sockets.add(on);
  });
  proxy.sockets = new Set();
  proxy.url = await listen(server);
  proxy.stop = () => (proxy.sockets.forEach((s) => s.destroy()), stop(server));
  return proxy;
}

let issuer, proxy, bridge, browser, outside;
before(async () => {
  [issuer, proxy] = await Promise.all([startIssuer(), startProxy()]);
  const config = `tokens:
  issuers:
    - issuer: ${issuer.url}
      oidc: true
      kind: operator
      id_prefix: "staff."
      roles_claim: groups
      roles: {ops: administrator}
      sign_in:
        client_id: console
        console: ${proxy.url}/bridge/
        title: the test's issuer
`;
  [bridge, browser] = await Promise.all([startBridge({ dev: false, config }), startBrowser()]);
  proxy.to = bridge.url;
  outside = { ...bridge, url: `${proxy.url}/bridge` };
});
after(async () => {
  await browser?.close();
  await bridge?.stop();
  await proxy?.stop();
  await issuer?.stop();
});

const begin = (page) => page.getByRole("link", { name: "with the test's issuer" }).click();

async function signIn(page, who = "alice") {
  await begin(page);
  await page.getByRole("link", { name: `I am ${who}` }).click();
}

test("one signs in at an issuer, is where one wanted to be, and signs out", async () => {
  const page = await open(browser, outside, "/agents?find=lamp");
  await signIn(page);
  await page.getByText("No agent fits").waitFor();
  assert.equal(page.url(), `${proxy.url}/bridge/agents?find=lamp`);
  await page.locator("details.who summary").getByText("staff.alice").waitFor();
  await page.getByText("live", { exact: true }).waitFor();
  const asked = issuer.asked.at(-1);
  assert.equal(asked.redirect_uri, `${proxy.url}/bridge/session/oidc/callback`);
  assert.equal(asked.code_challenge_method, "S256");
  const cookies = await page.context().cookies();
  assert.deepEqual(cookies.map((c) => [c.name, c.path, c.httpOnly, c.sameSite]), [["aibridge_session", "/bridge", true, "Strict"]]);
  const readable = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href, document.referrer, document.documentElement.outerHTML]));
  for (const secret of [issuer.tokens.at(-1), asked.state, asked.nonce, cookies[0].value]) {
    assert.equal(readable.includes(secret), false, "a secret is in the page");
    assert.equal(bridge.log.join("").includes(secret), false, "a secret is in the log");
  }
  await page.reload();
  await page.locator("details.who summary").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(await page.context().cookies(), [], "a cookie is left");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the session ends when the token is revoked", async () => {
  const page = await open(browser, outside, "/agents");
  await signIn(page);
  await page.getByText("live", { exact: true }).waitFor();
  await bridge.call("token.revoke", { principal_id: "staff.alice", reason: "laptop stolen" });
  await page.getByText("Your session has ended.").waitFor();
  await absent(page.locator("nav.nav"));
  await page.getByRole("link", { name: "with the test's issuer" }).waitFor();
  await page.context().close();
});

test("who declines, or comes with the answer of somebody else, is not in, and is told", async () => {
  const page = await open(browser, outside, "/agents");
  await begin(page);
  await page.getByRole("link", { name: "No" }).click();
  await page.getByText("The issuer did not let you in").waitFor();
  const before = issuer.redeemed;
  await page.goto(`${outside.url}/session/oidc/callback?code=1.mallory&state=${issuer.asked.at(-1).state}`);
  await page.getByText("It took too long, or was begun in another browser").waitFor();
  assert.equal(issuer.redeemed, before, "the code of an attacker was redeemed");
  assert.deepEqual(await page.evaluate(async () => (await (await fetch("session")).json()).signed_in), false);
  await page.context().close();
});

test("who has no role is in, and is offered nothing", async () => {
  const page = await open(browser, outside, "/access?tab=keys");
  await signIn(page, "mallory");
  await page.locator("details.who summary").getByText("staff.mallory").waitFor();
  await page.getByText("Not yours").waitFor();
  await absent(page.getByRole("link", { name: "New key" }));
  await until("the audit", async () => (await bridge.call("audit.query", { principal: "staff.mallory", code: "2003" })).entries.length > 0);
  await page.context().close();
});

test("by another name of the host one is led to the address that the issuer knows", async () => {
  const page = await open(browser, bridge, "/");
  await begin(page);
  await page.getByText("This is the address of the console that the issuer knows").waitFor();
  assert.ok(page.url().startsWith(`${proxy.url}/bridge/`));
  await signIn(page, "mallory"); // alice's tokens of this moment may be revoked
  await page.locator("nav.nav").waitFor();
  await page.context().close();
});
