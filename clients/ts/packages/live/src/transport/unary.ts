/** Calls with one request and one answer. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import type { ContextValues, UnaryResponse } from "@connectrpc/connect";
import type { Call, CallOptions } from "../session/call.ts";
import { NOT_RUN, type SessionEvent } from "../session/event.ts";
import type { Owner, Socket } from "../socket/socket.ts";
import type { Header } from "../wire/metadata.ts";
import { abortError, markAborted, toError } from "./errors.ts";
import { encodeHeaders, toHeaders } from "./headers.ts";
import { loadInterceptors, whileAllowed } from "./lazy.ts";
import { type BinaryOptions, decode, encode, kindOf, pathOf } from "./method.ts";
import { CODE_INTERNAL, CODE_UNAUTHENTICATED } from "../wire/code.ts";
import type { LiveOptions } from "./transport.ts";

/** What only commands of the entry point `offline` have. */
export type CommandOptions = Pick<CallOptions, "key" | "firstSent" | "sent">;

/** Calls without interceptors, or under a key, go past all that serves those. */
export function unary<I extends DescMessage, O extends DescMessage>(
  socket: Socket,
  options: LiveOptions,
  method: DescMethodUnary<I, O>,
  signal: AbortSignal | undefined,
  timeoutMs: number | undefined,
  header: HeadersInit | undefined,
  input: MessageInitShape<I>,
  contextValues?: ContextValues,
  more?: CommandOptions,
): Promise<UnaryResponse<I, O>> {
  const timeout = timeoutMs === undefined ? options.defaultTimeoutMs : timeoutMs > 0 ? timeoutMs : undefined;
  let last: UnaryCall<I, O> | undefined;
  const call = (message: MessageInitShape<I>, headers: HeadersInit | undefined, ended?: AbortSignal) => {
    last = new UnaryCall(socket, method, options.binaryOptions, more);
    return last.run(message, headers, timeout, ended);
  };
  if (more?.key || !options.interceptors?.length) return call(input, header, signal);
  const begun = socket.now();
  return whileAllowed(loadInterceptors(), signal, timeout)
    .then(({ runInterceptors }) =>
      runInterceptors(options, { method, signal, timeoutMs: timeout && timeout + begun - socket.now(), header, input, contextValues }, (request) =>
        call(request.message as MessageInitShape<I>, request.header, request.signal),
      ),
    )
    .catch((error) => {
      // What runs the call makes an error of its own from an abort.
      throw last ? markAborted(error, last.call) : error;
    });
}

/** A reply whose headers are made when somebody looks at them. */
class Reply<I extends DescMessage, O extends DescMessage> {
  readonly stream = false as const;
  readonly method: DescMethodUnary<I, O>;
  readonly message: MessageShape<O>;
  private readonly lists: [Header[], Header[]];
  private made: [Headers?, Headers?] = [];

  constructor(method: DescMethodUnary<I, O>, message: MessageShape<O>, headers: Header[], trailers: Header[]) {
    this.method = method;
    this.message = message;
    this.lists = [headers, trailers];
  }
  get service() {
    return this.method.parent;
  }
  get header(): Headers {
    return (this.made[0] ??= toHeaders(this.lists[0]));
  }
  get trailer(): Headers {
    return (this.made[1] ??= toHeaders(this.lists[1]));
  }
}

class UnaryCall<I extends DescMessage, O extends DescMessage> implements Owner {
  private readonly socket: Socket;
  private readonly method: DescMethodUnary<I, O>;
  private readonly binaryOptions: BinaryOptions | undefined;
  call: Call | undefined;
  private headers: Header[] = [];
  private item: Uint8Array | undefined;
  private resolve!: (response: UnaryResponse<I, O>) => void;
  private reject!: (error: ConnectError) => void;
  private signal: AbortSignal | undefined;
  private isRetried = false;
  private epoch = 0;
  private readonly more: CommandOptions | undefined;

  constructor(socket: Socket, method: DescMethodUnary<I, O>, binaryOptions: BinaryOptions | undefined, more: CommandOptions | undefined) {
    this.socket = socket;
    this.method = method;
    this.binaryOptions = binaryOptions;
    this.more = more;
  }

  run(
    message: MessageInitShape<I>,
    headers: HeadersInit | undefined,
    timeoutMs: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<UnaryResponse<I, O>> {
    return new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
      this.signal = signal;
      if (signal?.aborted) return reject(abortError(signal.reason, undefined));
      const { method, socket } = this;
      this.epoch = socket.epoch;
      this.call = socket.call({
        path: pathOf(method),
        kind: kindOf(method),
        body: encode(method.input, message, this.binaryOptions),
        headers: encodeHeaders(headers),
        deadline: timeoutMs === undefined ? undefined : socket.now() + timeoutMs,
        owner: this,
        ...this.more,
      });
      signal?.addEventListener("abort", this.abort);
    });
  }

  private readonly abort = (): void => {
    this.cancel();
    this.fail(abortError(this.signal!.reason, this.call!));
  };

  private cancel(): void {
    this.socket.session.cancel(this.call!);
    this.socket.flushSoon();
  }

  /** The message of an answer that comes as a stream: there is no second. */
  private take(item: Uint8Array | undefined, second = this.item && item): void {
    this.item ??= item;
    if (!second) return;
    this.cancel();
    this.fail(new ConnectError("the answer has two messages", CODE_INTERNAL));
  }

  private fail(error: ConnectError): void {
    this.signal?.removeEventListener("abort", this.abort);
    this.reject(error);
  }

  on(event: SessionEvent & { call: Call }): void {
    if (event.type === "reply") {
      this.headers = event.meta.headers;
      if (event.then === "nothing") this.done(event.payload, event.meta.trailers);
    } else if (event.type === "items") {
      this.take(event.items[0], event.items[1]);
      this.socket.session.consumed(event.call, event.bytes);
    } else if (event.type === "piece") {
      this.take(event.item);
    } else if (event.type === "end") {
      this.done(this.item, event.meta.trailers);
    } else if (event.type === "failed") {
      const isRefused = event.code === CODE_UNAUTHENTICATED && event.outcome === NOT_RUN;
      if (!isRefused || !event.meta || this.isRetried) return this.fail(toError(event));
      this.isRetried = true;
      void this.socket.renewFor(this.epoch).then((isRenewed) => {
        if (this.signal?.aborted) return;
        if (!isRenewed) return this.fail(toError(event));
        const { options } = this.call!;
        this.call = this.socket.call(options as CallOptions & { owner: Owner });
      });
    }
  }

  private done(data: Uint8Array | undefined, trailers: Header[]): void {
    const { method, headers } = this;
    try {
      if (!data) throw new ConnectError("the answer has no message", CODE_INTERNAL);
      const message = decode(method.output, data, this.binaryOptions);
      this.signal?.removeEventListener("abort", this.abort);
      this.resolve(new Reply(method, message, headers, trailers) as UnaryResponse<I, O>);
    } catch (error) {
      this.fail(ConnectError.from(error));
    }
  }
}
