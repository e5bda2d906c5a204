// A server, a network and a client, with a clock that the test moves.
import { mock, type TestContext } from "node:test";
import { createClient } from "@connectrpc/connect";
import { createLiveTransport, type LiveOptions, type LiveTransport } from "../../packages/live/src/index.ts";
import { BehaviourService } from "../gen/tidewire/test/v1/behaviour_pb.js";
import { Network } from "./network.ts";
import { Server, type ServerOptions } from "./peer.ts";

export class World {
  readonly server: Server;
  readonly network: Network;
  readonly transport: LiveTransport;
  readonly client;

  constructor(options: Partial<LiveOptions> = {}, server: ServerOptions = {}) {
    this.server = new Server(server);
    this.network = new Network(this.server);
    this.transport = createLiveTransport({
      baseUrl: "http://server.test",
      webSocket: this.network.webSocket,
      ...options,
    });
    this.client = createClient(BehaviourService, this.transport);
  }

  get status() {
    return this.transport.connection.getSnapshot().status;
  }

  settle(): Promise<void> {
    return this.network.settle();
  }

  /** Time passes, in steps, and all that comes of it. */
  async pass(milliseconds: number): Promise<void> {
    for (let left = milliseconds; left > 0; left -= 100) {
      mock.timers.tick(Math.min(left, 100));
      await this.settle();
    }
  }

  /** The connection breaks. */
  cut(toServer = 0, toClient = 0): void {
    this.network.socket?.cut(toServer, toClient);
  }

  /** A watch of a key that writes down what it hears. */
  watch(key: string, options?: Parameters<LiveTransport["watch"]>[3]) {
    const heard: string[] = [];
    const state = { value: undefined as string | undefined, isStale: true };
    const end = this.transport.watch(BehaviourService.method.look, { key }, {
      next: ({ value }) => {
        heard.push(value);
        Object.assign(state, { value, isStale: false });
      },
      stale: () => {
        heard.push("stale");
        state.isStale = true;
      },
      fresh: () => {
        heard.push("fresh");
        state.isStale = false;
      },
      error: (error) => heard.push(`error ${error.code}`),
    }, options);
    return { heard, state, end };
  }
}

/** Replaces the clock for a test. */
export function withClock(): void {
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: 1_800_000_000_000 });
}
export function withoutClock(): void {
  mock.timers.reset();
}

/** A page around the transports that a test makes: its events. */
export function inPage(context: TestContext): EventTarget {
  const page = new EventTarget();
  const given: Record<string, unknown> = {
    document: Object.assign(new EventTarget(), { visibilityState: "visible" }),
    addEventListener: page.addEventListener.bind(page),
    removeEventListener: page.removeEventListener.bind(page),
  };
  for (const name of Object.keys(given)) Object.defineProperty(globalThis, name, { value: given[name], configurable: true });
  context.after(() => {
    for (const name of Object.keys(given)) delete (globalThis as Record<string, unknown>)[name];
  });
  return page;
}
