/** The watches of a transport. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { apart } from "../socket/apart.ts";
import type { Socket } from "../socket/socket.ts";
import { kindOf } from "./method.ts";
import type { LiveOptions, Watcher } from "./transport.ts";
import { CODE_FAILED_PRECONDITION } from "../wire/code.ts";
import { Watch } from "./watch.ts";

export interface WatchOptions {
  /** Of an answer that the watcher holds: it is not sent again if it is still right. */
  validator?: Uint8Array;
  /** `values` (default): each new answer. `notify`: `stale` once, which ends the watch. */
  mode?: "values" | "notify";
  /** The least time between two answers, in milliseconds; what comes between is left out. */
  minInterval?: number;
}

const USUAL: WatchOptions = {};

export class Watches {
  private readonly all: Set<Watch<any, any>> = new Set();
  /** Those that are asked again from time to time. */
  readonly polling: Set<Watch<any, any>> = new Set();
  readonly socket: Socket;
  readonly options: LiveOptions;

  constructor(socket: Socket, options: LiveOptions) {
    this.socket = socket;
    this.options = options;
  }

  add<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
    watcher: Watcher<MessageShape<O>>,
    how: WatchOptions = USUAL,
  ): () => void {
    if (kindOf(method) !== "query") {
      throw new ConnectError(`${method.name} is not a query: its .proto has no idempotency_level = NO_SIDE_EFFECTS`, CODE_FAILED_PRECONDITION);
    }
    const watch = new Watch(this, method, watcher, how);
    this.all.add(watch);
    watch.begin(input);
    if (this.askOver) watch.askNow();
    return () => watch.end();
  }

  remove(watch: Watch<any, any>): void {
    this.all.delete(watch);
  }

  /** The transport is closed, or the page: what is shown stays, and is stale. */
  close(): void {
    for (const watch of this.all) apart(() => watch.leave());
  }

  /** Asks a query over another transport, while there is no socket. */
  askOver: ((watch: Watch<any, any>) => Promise<void>) | undefined;

  poll(askOver: ((watch: Watch<any, any>) => Promise<void>) | undefined): void {
    this.askOver = askOver;
    if (askOver) for (const watch of this.all) watch.askNow();
  }

  /** Asks again what nobody tells about, after a command of this side, a new connection, or new headers. */
  askPolled(): void {
    for (const watch of this.polling) watch.askNow();
  }

  /** The connection changed: each watch says whether its answer is still current. */
  update(): void {
    for (const watch of this.all) apart(() => watch.update());
  }
}
