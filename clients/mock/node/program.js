// The program `tidewire mock`: found, started, waited for, ended.
//
// It listens on a free port, and its admin listener on another with a token that only this process
// knows. Its standard input is a pipe from here: when this process ends, however it ends, the mock
// reads the end of it and ends too.

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { MockError } from "./admin.js";

/** How long the mock may take until it listens; only one that hangs takes so long. */
const START_MS = 60_000;

/** How long the system may take to tell that a program has ended which does not listen any more. */
const END_MS = 5_000;

/** How much of what the mock logs is kept for errors. */
const LOG_CHARACTERS = 16_384;

/** Starts it; resolves once it listens. */
export async function start(options) {
  const folder = await mkdtemp(join(tmpdir(), "tidewire-mock-"));
  try {
    return await startIn(folder, options);
  } finally {
    // The mock has read what is in it, so nothing is left behind by a process that is killed.
    await rm(folder, { recursive: true, force: true });
  }
}

async function startIn(folder, options) {
  const configuration = join(folder, "tidewire.toml");
  const token = join(folder, "token");
  await writeFile(configuration, "");
  const program = options.program ?? process.env.TIDEWIRE ?? "tidewire";
  const words = ["mock", resolve(options.protos ?? "protos"), "--until-stdin-closes"];
  words.push("--rules", options.rules ? resolve(options.rules) : join(folder, "rules"));
  words.push("--port", String(options.port ?? 0), "--config", configuration);
  words.push("--set", "log.level=warn");
  words.push("--set", "admin.listen=127.0.0.1:0", "--set", `admin.token_file=${token}`);
  if (!options.watch) words.push("--no-watch");
  if (options.seed !== undefined) words.push("--seed", String(options.seed));
  if (options.validate) words.push("--validate");
  if (options.withoutRule) words.push("--without-rule", options.withoutRule);
  if (options.upstream) words.push("--upstream", options.upstream);
  words.push(...(options.arguments ?? []));
  // Settings of the machine are not those of a test.
  const names = Object.keys(process.env).filter((name) => !name.startsWith("TIDEWIRE_"));
  const env = Object.fromEntries(names.map((name) => [name, process.env[name]]));
  const running = new Program(program, spawn(program, words, { env }));
  await running.listens();
  running.token = (await readFile(token, "utf8")).trim();
  return running;
}

export class Program {
  #child;
  #name;
  #log = "";
  #ended;

  constructor(name, child) {
    this.#name = name;
    this.#child = child;
    child.stderr.setEncoding("utf8").on("data", (text) => {
      this.#log = (this.#log + text).slice(-LOG_CHARACTERS);
    });
    child.stdin.on("error", () => {}); // It has ended already.
    this.#ended = new Promise((done) => {
      child.on("error", (error) => done(`cannot be started: ${error.message}`));
      child.on("close", (code, signal) => done(`ended with ${signal ?? `code ${code}`}`));
    });
  }

  /** Resolves once its addresses are known; rejects when it ends before. */
  async listens() {
    let said = "";
    let timer;
    const started = new Promise((done) => {
      this.#child.stdout.setEncoding("utf8").on("data", (text) => {
        said += text;
        if (/^mocking .*\n/m.test(said)) done();
      });
    });
    const late = new Promise((done) => {
      timer = setTimeout(() => done(`does not listen after ${START_MS / 1000} s`), START_MS);
    });
    const why = await Promise.race([started, this.#ended, late]);
    clearTimeout(timer);
    if (why !== undefined) {
      this.#child.kill("SIGKILL");
      throw new MockError("unavailable", this.#whyNot(why));
    }
    const address = (name) => new RegExp(`^${name} on (.*)$`, "m").exec(said)?.[1];
    this.address = address("listening");
    this.admin = address("admin");
    // A test that forgets to close its mock ends all the same, and the mock with it.
    this.#child.unref();
    for (const pipe of [this.#child.stdin, this.#child.stdout, this.#child.stderr]) pipe.unref();
  }

  #whyNot(why) {
    if (/ENOENT/.test(why)) {
      const next = "put tidewire on PATH, or name the program by TIDEWIRE or the option `program`";
      return `${this.#name} is not there; ${next}`;
    }
    if (/unexpected argument/.test(this.#log)) {
      const old = `${this.#name} is too old for this package, or an argument is not one of its`;
      return `${old}:\n${this.#log.trim()}`;
    }
    return `${this.#name} mock ${why}:\n${this.#log.trim()}`;
  }

  /** How it ended and what it said last, where it has ended; nobody listens where it did. */
  async whyDead() {
    let timer;
    const alive = new Promise((done) => {
      timer = setTimeout(done, END_MS);
    });
    const why = await Promise.race([this.#ended, alive]);
    clearTimeout(timer);
    return why && `the mock ${why}:\n${this.#log.trim()}`;
  }

  /** The errors that it has logged. */
  errors() {
    return this.#log.split("\n").filter((line) => / ERROR /.test(line));
  }

  get pid() {
    return this.#child.pid;
  }

  async close() {
    this.#child.ref();
    this.#child.stdin.end();
    await this.#ended;
  }
}
