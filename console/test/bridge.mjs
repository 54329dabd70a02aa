// A real bridge and a real browser for tests of the console.
import { spawn, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../..", import.meta.url));
export const program = process.env.AIBRIDGE ?? path.join(root, "bin", "aibridge");

/** How long anything may take. The machine may be slow; no test asserts a pace.
 * Whoever writes a test may have less, by PATIENCE in ms. */
export const patience = Number(process.env.PATIENCE) || 120_000;

const chrome = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => p && existsSync(p));

/** How many times slower than it is the browser is made, by SLOWER. */
const slower = Number(process.env.SLOWER) || 1;

/** Starts a bridge on free ports. more are flags; dev: false wants keys. */
export async function startBridge({ dev = true, more = [], config } = {}) {
  const dir = mkdtempSync(path.join(tmpdir(), `console-${path.basename(root)}-`));
  const flags = ["serve", "--data", path.join(dir, "data"), "--mqtt", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "warn", ...more];
  if (dev) flags.push("--dev");
  if (config) {
    writeFileSync(path.join(dir, "bridge.yaml"), config);
    flags.push("--config", path.join(dir, "bridge.yaml"));
  }
  const log = [];
  const child = spawn(program, flags, { stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.on("data", (d) => log.push(d));
  child.stderr.on("data", (d) => log.push(d));
  const ended = new Promise((done) => child.on("exit", done));
  const file = path.join(dir, "data", "addresses.json");
  const until = Date.now() + patience;
  let addresses;
  while (!addresses) {
    if (child.exitCode !== null || Date.now() > until) throw new Error("the bridge does not start:\n" + log.join(""));
    try {
      addresses = JSON.parse(readFileSync(file, "utf8"));
    } catch {
      await new Promise((r) => setTimeout(r, 50));
    }
  }
  const url = `http://${addresses.http}`;
  const key = dev ? "" : readFileSync(path.join(dir, "data", "admin.key"), "utf8").trim();
  const bridge = {
    ...addresses, url, dir, key, log, child,
    /** Runs a command by HTTP and returns its result. */
    async call(command, params = {}, as = key) {
      const answer = await fetch(`${url}/api/v1/commands/${command}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Timeout-Ms": "600000", ...(as ? { Authorization: `Bearer ${as}` } : {}) },
        body: JSON.stringify(params),
      });
      const result = await answer.json();
      if (!answer.ok) throw Object.assign(new Error(`${command}: ${JSON.stringify(result.error)}`), { code: result.error?.code });
      return result;
    },
    /** Runs the program against the bridge. */
    run: (...args) => execFileSync(program, args, { encoding: "utf8", env: { ...process.env, AIBRIDGE_URL: url, AIBRIDGE_API_KEY: key } }),
    async stop() {
      child.kill("SIGTERM");
      await ended;
      rmSync(dir, { recursive: true, force: true });
    },
  };
  return bridge;
}

/** Starts an agent of the examples: a process that serves skills. */
export function startAgent(bridge, id, skills = path.join(root, "examples", "skills")) {
  const child = spawn(program, ["agent", "end", "--url", `mqtt://${bridge.mqtt}`, "--id", id, "--skills", skills], {
    stdio: "ignore", env: { ...process.env, AIBRIDGE_API_KEY: bridge.key },
  });
  const ended = new Promise((done) => child.on("exit", done));
  return {
    child,
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

/** Starts the browser; one serves all tests of a file. */
export function startBrowser() {
  if (!chrome) throw new Error("there is no Chromium (Debian: apt install chromium)");
  return chromium.launch({
    executablePath: chrome, timeout: patience,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** Opens the console in a fresh profile. With CONSOLE_DIST=1 its files are those
 * of dist, so that a change needs no new bridge. Errors of the page fail the test: see
 * problems. */
export async function open(browser, bridge, address = "/", { prepare, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "light", timezoneId: "UTC", locale: "en-GB", reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.problems = [];
  page.on("pageerror", (e) => page.problems.push(String(e)));
  page.on("console", (m) => m.type() === "error" && !/Failed to load resource|WebSocket connection/.test(m.text()) && page.problems.push(m.text()));
  if (process.env.CONSOLE_DIST) await page.route(/\/assets\//, (r) => r.fulfill({ path: path.join(root, "console", "dist", "assets", path.basename(new URL(r.request().url()).pathname)) }));
  await prepare?.(page);
  if (slower > 1) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: slower });
  await page.goto(bridge.url + address);
  return page;
}

/** Lets a test cut the connection of a page, and mend it: give prepare to open. */
export function cable() {
  let whole = true;
  const ends = new Set();
  return {
    async prepare(page) {
      await page.routeWebSocket(/\/ws$/, (ws) => {
        if (!whole) return ws.close({ code: 1001 });
        ws.connectToServer();
        ends.add(ws);
      });
      await page.route(/\/session$/, (r) => (whole ? r.continue() : r.abort()));
    },
    async cut() {
      whole = false;
      for (const ws of ends) await ws.close({ code: 1001 });
      ends.clear();
    },
    mend: () => (whole = true),
  };
}

/** Asks again until something holds. */
export async function until(what, check) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what} does not come about`);
    await new Promise((r) => setTimeout(r, 50));
  }
}
