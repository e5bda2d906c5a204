/**
 * Networks that let no WebSocket through: calls go over another transport, watches are polled, and
 * a socket is tried from time to time.
 */
import { ConnectError } from "@connectrpc/connect";
import type { Transport } from "@connectrpc/connect";
import { NOT_RUN, type SessionEvent, UNKNOWN } from "../session/event.ts";
import type { Why } from "../socket/credentials.ts";
import type { Socket } from "../socket/socket.ts";
import { INTERNAL } from "../wire/reason.ts";
import { isNotRun, withOutcome } from "./errors.ts";
import { bytesOf, latin1 } from "../wire/varint.ts";
import { whileAllowed } from "./lazy.ts";
import { decode, encode, kindOf } from "./method.ts";
import type { LiveOptions } from "./transport.ts";
import { PASSING, POLL, type Watch } from "./watch.ts";
import { CODE_CANCELED, CODE_INVALID_ARGUMENT, CODE_UNAUTHENTICATED, CODE_UNAVAILABLE, CODE_UNKNOWN } from "../wire/code.ts";
import type { Watches } from "./watches.ts";

/** What a call is made of: its method, its signal, its time, and the rest. */
export type UndecidedCall = [unknown, AbortSignal | undefined, number | undefined, ...unknown[]];

/** Sockets that did not open, one after the other, before it is used. */
const FAILURES = 2;
/** How long a server may take to be reached, and the application to give headers. */
const PATIENCE = 10_000;
/** Whether an error says nothing of the query itself. */
const isPassing = (code: number): boolean => code === CODE_CANCELED || PASSING.includes(code);

export class Fallback {
  private readonly socket: Socket;
  private readonly options: LiveOptions;
  private readonly watches: Watches;
  private made: Promise<Transport> | undefined;
  private isAsking = false;
  /** Of calls over it. */
  private ending: AbortController = new AbortController();
  /** Calls that wait until it is known which way they go. */
  private readonly waiting: [() => void, (error: ConnectError) => void][] = [];
  /** The application's headers, for as long as it is used. */
  private given: Promise<Headers> | undefined;
  /** Those that were asked for after a refusal, and refused as well. */
  private refused: Promise<Headers> | undefined;
  /** What calls go over now; undefined while they go over the socket. */
  transport: Transport | undefined;

  constructor(socket: Socket, options: LiveOptions, watches: Watches) {
    this.socket = socket;
    this.options = options;
    this.watches = watches;
  }

  /** Waits until it is known which way a call goes; fails where nothing is reached. The wait counts against the call's timeout. */
  async decision(call: UndecidedCall): Promise<void> {
    const { [2]: timeoutMs = 0 } = call;
    const begun = this.socket.now();
    await new Promise<void>((...both) => void this.waiting.push(both));
    if (timeoutMs > 0) call[2] = Math.max(1, timeoutMs + begun - this.socket.now());
  }

  /** Something of a connection: a socket opened, or this has begun. */
  heard(event: SessionEvent): void {
    if (event.type === "connected") this.over();
    this.decide();
  }

  private decide(error?: ConnectError): void {
    for (const [go, fail] of this.waiting.splice(0)) {
      if (error) fail(withOutcome(error, NOT_RUN));
      else go();
    }
  }

  /** Sockets fail to open. */
  async consider(failures: number, { rawMessage }: ConnectError): Promise<void> {
    const { options, socket } = this;
    if (failures < FAILURES || this.transport || this.isAsking) return;
    this.isAsking = true;
    try {
      // Where nothing is reached, HTTP would not help either.
      await fetch(options.baseUrl, { method: "HEAD", mode: "no-cors", signal: AbortSignal.timeout(PATIENCE) });
      const made = await (this.made ??= options.fallback!());
      // Without headers sockets are not dialed: that says nothing of the network.
      this.refused = undefined;
      await this.askHeaders("connect");
      const { status } = socket.state.getSnapshot();
      if (status === "open" || status === "closed") return;
      this.ending = new AbortController();
      const transport = this.around(made);
      this.transport = transport;
      socket.state.instead = { status: "fallback" };
      // What was sent and not answered will not be: commands end unknown.
      socket.give(INTERNAL, "WebSockets do not open here");
      this.watches.poll((watch) => this.ask(watch, this.around(made, true)));
    } catch {
      this.made = undefined; // Tried again after the next failure.
      this.decide(new ConnectError(rawMessage, CODE_UNAVAILABLE));
    } finally {
      this.isAsking = false;
    }
  }

  /** The socket is open. */
  over(): void {
    this.transport = undefined;
    this.socket.state.instead = undefined;
    this.watches.poll(undefined);
  }

  /** The transport is closed, or its page: so are the calls. */
  end(): void {
    this.over();
    const error = new ConnectError("the transport is closed", CODE_CANCELED);
    this.ending.abort(error);
    this.decide(error);
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
    } catch (cause) {
      if (watch.isOver || !watches.askOver) return;
      const error = ConnectError.from(cause);
      if (isPassing(error.code)) return watch.hasAnswer ? undefined : watch.fail(error);
      // An error that says something of the query is an answer, too.
      const said = `\uffff${error}`; // No byte of another answer is so.
      watch.hasAnswer = true;
      watch.confirm();
      if (said === watch.polled) return;
      watch.polled = said;
      watch.held = watch.named = undefined;
      watch.fail(error);
    } finally {
      watch.isAsking = false;
      if (!watch.isOver && watches.askOver) {
        watch.update();
        watch.askLater(POLL);
      }
    }
  }

  /** With the application's headers. A command that got no answer may have run. */
  private around(made: Transport, isPoll = false): Transport {
    const { ending, options } = this;
    const either = (signal: AbortSignal | undefined) => (signal ? AbortSignal.any([signal, ending.signal]) : ending.signal);
    const renewed = (asked: Promise<Headers>) => {
      // Those that others have asked for since will do.
      if (this.given && this.given !== asked) return this.given;
      return (this.refused = this.askHeaders("refused"));
    };
    return {
      stream: async (method, signal, timeoutMs, header, ...rest) => {
        const asked = this.headers();
        const all = joined(await whileAllowed(asked, signal, timeoutMs), header);
        try {
          return await made.stream(method, either(signal), timeoutMs, all, ...rest);
        } catch (cause) {
          // What it was to send may be gone: the next one has others.
          if (options.headers && ConnectError.from(cause).code === CODE_UNAUTHENTICATED) renewed(asked).catch(() => {});
          throw cause;
        }
      },
      unary: async (method, signal, timeoutMs, header, ...rest) => {
        const isQuery = kindOf(method) === "query";
        const send = async (asked: Promise<Headers>) => {
          const all = joined(await whileAllowed(asked, signal, timeoutMs), header);
          return made.unary(method, either(signal), timeoutMs, all, ...rest);
        };
        try {
          const asked = this.headers();
          const reply = await send(asked).catch((cause) => {
            // What is polled does not ask again and again.
            const isFinal = !options.headers || (isPoll && asked === this.refused);
            if (isFinal || ConnectError.from(cause).code !== CODE_UNAUTHENTICATED) throw cause;
            return send(renewed(asked));
          });
          this.reached();
          return reply;
        } catch (cause) {
          const error = ConnectError.from(cause);
          const { isWireError } = error as unknown as { isWireError: boolean };
          if (isNotRun(error)) throw error;
          if (isWireError || !isPassing(error.code)) this.reached();
          else if (error.code === CODE_UNKNOWN || error.code === CODE_UNAVAILABLE) this.reached(error);
          const mayHaveRun = !isQuery && !isWireError && error.code !== CODE_INVALID_ARGUMENT;
          throw mayHaveRun ? withOutcome(error, UNKNOWN) : error;
        } finally {
          if (!isQuery) this.watches.askPolled();
        }
      },
    };
  }

  /** The server was reached, or was not. */
  private reached(error?: ConnectError): void {
    const { state } = this.socket;
    const { status, error: before } = state.getSnapshot();
    if (status === "fallback" && state.instead && !(error && before)) state.set((state.instead = { status, error }));
  }

  private headers(): Promise<Headers> {
    return this.given ?? this.askHeaders("connect");
  }

  private askHeaders(why: Why): Promise<Headers> {
    const { headers = () => ({}) } = this.options;
    const asked = whileAllowed(Promise.resolve(why).then(headers), undefined, PATIENCE).then(
      (given) => new Headers(given),
      (cause) => {
        if (this.given === asked) this.given = undefined;
        throw withOutcome(new ConnectError(`headers() failed: ${cause}`, CODE_UNAVAILABLE), NOT_RUN);
      },
    );
    return (this.given = asked);
  }
}

/** The headers of a call go before those of the application. */
function joined(given: Headers, own: HeadersInit | undefined): Headers {
  const all = new Headers(given);
  new Headers(own).forEach((value, name) => all.set(name, value));
  return all;
}
