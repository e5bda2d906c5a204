// A TCP proxy that cuts connections, or lets nothing through.
import { connect, createServer, type Server, type Socket } from "node:net";

export class Proxy {
  private readonly server: Server;
  private readonly pairs: Set<[Socket, Socket]> = new Set();
  isRefusing = false;
  /** Bytes that pass before the next cut, both ways together. */
  budget = Infinity;
  /** Nothing that the server says passes any more. */
  isMute = false;
  /** Nothing passes any more, and nobody is told. */
  isDead = false;
  /** What the client has said since. */
  heard = "";
  port = 0;

  constructor(to: number) {
    this.server = createServer((inside) => {
      if (this.isRefusing) return inside.destroy();
      const outside = connect(to, "127.0.0.1");
      const pair: [Socket, Socket] = [inside, outside];
      this.pairs.add(pair);
      const end = () => {
        inside.destroy();
        outside.destroy();
        this.pairs.delete(pair);
      };
      const pass = (from: Socket, into: Socket) => {
        from.on("data", (data) => {
          if (this.isDead || (this.isMute && from === outside)) return;
          if (this.isMute) this.heard += data.toString("latin1");
          if (data.length > this.budget) {
            into.write(data.subarray(0, this.budget));
            this.budget = Infinity;
            return end();
          }
          this.budget -= data.length;
          into.write(data);
        });
        from.on("close", end);
        from.on("error", end);
      };
      pass(inside, outside);
      pass(outside, inside);
    });
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.port = (this.server.address() as { port: number }).port;
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  cut(): void {
    for (const [inside, outside] of this.pairs) {
      inside.destroy();
      outside.destroy();
    }
    this.pairs.clear();
  }

  stop(): void {
    this.cut();
    this.server.close();
  }
}
