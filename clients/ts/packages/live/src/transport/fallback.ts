/**
 * Networks that let no WebSocket through: calls go over another transport, watches are polled, and
 * a socket is tried from time to time.
 */
import { ConnectError } from "@connectrpc/connect";
import type { Transport } from "@connectrpc/connect";
import { UNKNOWN } from "../session/event.ts";
import type { Socket } from "../socket/socket.ts";
import { INTERNAL } from "../wire/reason.ts";
import { withOutcome } from "./errors.ts";
import { bytesOf, latin1 } from "../wire/varint.ts";
import { decode, encode, kindOf } from "./method.ts";
import type { LiveOptions } from "./transport.ts";
import { POLL, type Watch } from "./watch.ts";
import { CODE_CANCELED, CODE_INVALID_ARGUMENT } from "../wire/code.ts";
import type { Watches } from "./watches.ts";

/** Sockets that did not open, one after the other, before it is used. */
const FAILURES = 2;

export class Fallback {
  private readonly socket: Socket;
  private readonly options: LiveOptions;
  private readonly watches: Watches;
  private made: Promise<Transport> | undefined;
  private isAsking = false;
  /** Of calls over it. */
  private ending: AbortController = new AbortController();
  /** What calls go over now; undefined while they go over the socket. */
  transport: Transport | undefined;

  constructor(socket: Socket, options: LiveOptions, watches: Watches) {
    this.socket = socket;
    this.options = options;
    this.watches = watches;
  }

  /** Sockets fail to open. */
  async consider(failures: number): Promise<void> {
    const { options, socket } = this;
    if (failures < FAILURES || this.transport || this.isAsking) return;
    this.isAsking = true;
    try {
      // Where nothing is reached, HTTP would not help either.
      await fetch(options.baseUrl, { method: "HEAD", mode: "no-cors" });
      const made = await (this.made ??= options.fallback!());
      const { status } = socket.state.getSnapshot();
      if (status === "open" || status === "closed") return;
      this.ending = new AbortController();
      const transport = withOutcomes(made, this.ending.signal, () => this.watches.wrote());
      this.transport = transport;
      socket.state.isFallback = true;
      // What was sent and not answered will not be: commands end unknown.
      socket.give(INTERNAL, "WebSockets do not open here");
      this.watches.poll((watch) => this.ask(watch, transport));
    } catch {
      this.made = undefined; // Tried again after the next failure.
    } finally {
      this.isAsking = false;
    }
  }

  /** The socket is open. */
  over(): void {
    this.transport = undefined;
    this.socket.state.isFallback = false;
    this.watches.poll(undefined);
  }

  /** The transport is closed, or its page: so are the calls. */
  end(): void {
    this.over();
    this.ending.abort(new ConnectError("the transport is closed", CODE_CANCELED));
  }

  /** Asks a query for its watch, which itself waits for a socket. */
  private async ask(watch: Watch<any, any>, over: Transport): Promise<void> {
    const { method, watches, body } = watch;
    const { binaryOptions } = watches.options;
    watch.unschedule();
    if (body === undefined || watch.isAsking) return;
    watch.isAsking = true;
    try {
      const input = decode(method.input, bytesOf(body)!, binaryOptions);
      const { message } = await over.unary(method, undefined, undefined, undefined, input as never);
      const bytes = latin1(encode(method.output, message as never, binaryOptions));
      if (watch.isOver || !watches.askOver) return;
      if (bytes === watch.polled) return watch.confirm();
      watch.polled = bytes;
      watch.held = watch.named = undefined;
      watch.tell(message);
    } catch (error) {
      if (!watch.isOver && watches.askOver && !watch.hasAnswer) watch.fail(ConnectError.from(error));
    } finally {
      watch.isAsking = false;
      if (!watch.isOver && watches.askOver) {
        watch.update();
        watch.askLater(POLL);
      }
    }
  }
}

/** Over HTTP a command that got no answer may have run. */
function withOutcomes(transport: Transport, ending: AbortSignal, wrote: () => void): Transport {
  const either = (signal: AbortSignal | undefined) => (signal ? AbortSignal.any([signal, ending]) : ending);
  return {
    stream: (method, signal, ...rest) => transport.stream(method, either(signal), ...rest),
    unary: async (method, signal, ...rest) => {
      const isQuery = kindOf(method) === "query";
      try {
        return await transport.unary(method, either(signal), ...rest);
      } catch (cause) {
        const error = ConnectError.from(cause);
        const { isWireError } = error as unknown as { isWireError: boolean };
        const mayHaveRun = !isQuery && !isWireError && error.code !== CODE_INVALID_ARGUMENT;
        throw mayHaveRun ? withOutcome(error, UNKNOWN) : error;
      } finally {
        if (!isQuery) wrote();
      }
    },
  };
}
