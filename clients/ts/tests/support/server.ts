// The Rust server of these tests as a process, on a free port.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../../../../target/debug/live-client-server", import.meta.url));

export class RustServer {
  private process: ChildProcess | undefined;
  readonly port: number;

  constructor(port: number) {
    this.port = port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  static async start(settings: Record<string, string> = {}): Promise<RustServer> {
    const server = new RustServer(await freePort());
    await server.start(settings);
    return server;
  }

  async start(settings: Record<string, string> = {}): Promise<void> {
    if (!existsSync(program)) throw new Error(`no ${program}: cargo build --package live-client-server`);
    const child = spawn(program, {
      env: { ...process.env, TIDEWIRE_SERVER_LISTEN: `127.0.0.1:${this.port}`, ...settings },
      stdio: ["ignore", "pipe", process.env.SERVER_LOG ? "inherit" : "ignore"],
    });
    this.process = child;
    // A test that fails leaves no server behind.
    process.once("exit", () => child.kill("SIGKILL"));
    child.unref();
    await new Promise<void>((resolve, reject) => {
      child.stdout!.on("data", (data) => `${data}`.includes("listening on") && resolve());
      child.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
    });
  }

  /** Ends it without a goodbye. */
  async kill(): Promise<void> {
    const child = this.process;
    if (!child || child.exitCode !== null || child.signalCode) return;
    const ended = new Promise((resolve) => child.on("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }
}

/** A port that nobody listens on, out of those that the system gives to nobody. */
export function freePort(): Promise<number> {
  const port = 11_000 + Math.floor(Math.random() * 9_000);
  return new Promise((resolve) => {
    const server = createServer().on("error", () => resolve(freePort()));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(port)));
  });
}
