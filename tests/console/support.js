// A running program with a console, and a browser that notices what a page must not do.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const root = fileURLToPath(new URL("../../", import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
export const tidewire = join(target, "debug/tidewire");

/** A program in a folder of its own; `lines` are those it has printed when it is ready. */
export class Program {
  /** @param {Record<string, string>} files @param {string[]} words @param {{ program?: string, env?: Record<string, string>, ready?: (line: string) => boolean, folder?: string }} [more] `folder` is that of a program before */
  static async start(files, words, { program = tidewire, env = {}, ready: isReady = (line) => line.startsWith("console at "), folder = mkdtempSync(join(tmpdir(), "console-")) } = {}) {
    const it = new Program();
    it.folder = folder;
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(it.folder, name)), { recursive: true });
      writeFileSync(join(it.folder, name), text);
    }
    it.env = { ...process.env, HOME: it.folder, XDG_STATE_HOME: "", XDG_RUNTIME_DIR: join(it.folder, "run"), ...env };
    mkdirSync(it.env.XDG_RUNTIME_DIR, { mode: 0o700, recursive: true });
    it.child = spawn(program, words, { cwd: it.folder, env: it.env, stdio: ["ignore", "pipe", "pipe"] });
    it.lines = [];
    it.log = "";
    it.child.stderr.on("data", (chunk) => { it.log += chunk; });
    const ready = new Promise((resolve, reject) => {
      createInterface(it.child.stdout).on("line", (line) => {
        it.lines.push(line);
        if (isReady(line)) resolve(undefined);
      });
      it.child.once("exit", () => reject(new Error(`it ended: ${it.lines.join("\n")}\n${it.log}`)));
    });
    await ready;
    return it;
  }

  /** What comes behind the words that a line begins with. @param {string} begin */
  line(begin) {
    const line = this.lines.find((one) => one.startsWith(begin));
    assert.ok(line, `${begin}: ${this.lines.join("\n")}`);
    return line.slice(begin.length).split(" ")[0];
  }

  /** Where the admin listener is of a program that does not print it. @param {string} address */
  at(address) {
    this.adminAddress = address;
    return this;
  }

  /** The address of the console with its first code. */
  get console() { return this.line("console at "); }
  /** The address of the admin listener. */
  get admin() { return this.adminAddress ?? this.line("admin on "); }
  /** Where calls go. */
  get address() { return this.line("listening on "); }

  /** Another address with a code. */
  signIn() {
    const { status, stdout, stderr } = this.run(["console"]);
    assert.equal(status, 0, stderr);
    return stdout.trim();
  }

  /** @param {string[]} words */
  run(words) {
    return spawnSync(tidewire, words, { cwd: this.folder, env: this.env, encoding: "utf8" });
  }

  /** Calls a method by Connect. @param {string} method @param {object} request @param {Record<string, string>} [headers] */
  async call(method, request, headers = {}) {
    const response = await fetch(`http://${this.address}/${method}`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(request) });
    return response.json();
  }

  /** Asks the admin listener, as who started the program. @param {string} method @param {object} request */
  async ask(method, request) {
    const token = readFileSync(`${this.env.XDG_RUNTIME_DIR}/tidewire/${this.admin}.token`, "utf8").trim();
    const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
    const response = await fetch(`http://${this.admin}/tidewire.admin.v1.${method}`, { method: "POST", headers, body: JSON.stringify(request) });
    return response.json();
  }

  /** A run of load, to its end. @param {object} plan */
  async load(plan) {
    let load = await this.ask("Loads/Start", plan);
    while (load.state === "running") load = await this.ask("Loads/Get", { id: load.id, waitMs: 10_000 });
    return load;
  }

  /** @param {{ keep?: boolean }} [more] `keep` leaves its folder for another program */
  async stop({ keep = false } = {}) {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill("SIGTERM");
      await ended;
    }
    if (!keep) rmSync(this.folder, { recursive: true, force: true });
  }
}

const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** What a page is waited for, in milliseconds: how fast it is, the machine decides. */
const PATIENCE = 300_000;

/** @param {string[]} [more] */
export async function launch(more = []) {
  assert.ok(executablePath, "there is no Chromium; run `make setup` once");
  const browser = await chromium.launch({ executablePath, args: [...flags, ...more], timeout: PATIENCE });
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.setDefaultTimeout(PATIENCE);
    return context;
  };
  return browser;
}

/**
 * A page that keeps a list of what it must not do: errors, violations of its policy, requests to elsewhere.
 * @param {import("playwright-core").BrowserContext} context @param {{ expected?: RegExp }} [options] expected console errors
 */
export async function watched(context, { expected } = {}) {
  const page = await context.newPage();
  /** @type {string[]} */
  const faults = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !expected?.test(message.text())) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error}`));
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => {
    const { hostname, protocol } = new URL(request.url());
    if (hostname !== "127.0.0.1" || protocol !== "http:") faults.push(`foreign request: ${request.url()}`);
  });
  await page.exposeFunction("reportViolation", (text) => faults.push(`violation: ${text}`));
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => window.reportViolation(`${event.violatedDirective} ${event.blockedURI}`));
  });
  return { page, faults };
}

/** A port that nobody listens on, out of those that the system gives to nobody. @returns {Promise<number>} */
export function freePort() {
  const port = 11_000 + Math.floor(Math.random() * 9_000);
  return new Promise((resolve) => {
    const server = createServer().on("error", () => resolve(freePort()));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(port)));
  });
}
