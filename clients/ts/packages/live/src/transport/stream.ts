/** Calls with streams: of the client, of the server, of both. */
import type { DescMessage, DescMethodStreaming, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { ConnectError, createContextValues } from "@connectrpc/connect";
import type { ContextValues, StreamRequest, StreamResponse } from "@connectrpc/connect";
import { createMethodUrl, runStreamingCall } from "@connectrpc/connect/protocol";
import type { Call } from "../session/call.ts";
import type { SessionEvent } from "../session/event.ts";
import type { Owner, Socket } from "../socket/socket.ts";
import { abortError, markAborted, toError } from "./errors.ts";
import { appendHeaders, encodeHeaders } from "./headers.ts";
import { type BinaryOptions, decode, encode, kindOf, pathOf } from "./method.ts";
import type { LiveOptions } from "./transport.ts";

/** Items that wait in this side's memory beyond the peer's credit. */
const WAITING_MAX = 65_536;

export async function stream<I extends DescMessage, O extends DescMessage>(
  socket: Socket,
  options: LiveOptions,
  method: DescMethodStreaming<I, O>,
  signal: AbortSignal | undefined,
  timeoutMs: number | undefined,
  header: HeadersInit | undefined,
  input: AsyncIterable<MessageInitShape<I>>,
  contextValues?: ContextValues,
): Promise<StreamResponse<I, O>> {
  const timeout = timeoutMs === undefined ? options.defaultTimeoutMs : timeoutMs > 0 ? timeoutMs : undefined;
  const call = new StreamCall(socket, method, options.binaryOptions);
  const response = await runStreamingCall({
    interceptors: options.interceptors,
    signal,
    timeoutMs: timeout,
    req: {
      stream: true,
      service: method.parent,
      method,
      requestMethod: "POST",
      url: createMethodUrl(options.baseUrl, method),
      header: new Headers(header),
      contextValues: contextValues ?? createContextValues(),
      message: input,
    },
    next: (request) => call.run(request as StreamRequest<I, O>, timeout),
  }).catch((error) => {
    throw markAborted(error, call.call);
  });
  const { message } = response;
  // What runs the call leaves `return` out, so that `break` would not end it.
  const ending: AsyncIterable<MessageShape<O>> = {
    [Symbol.asyncIterator]() {
      const iterator = message[Symbol.asyncIterator]() as AsyncIterator<MessageShape<O>>;
      return {
        next: () => iterator.next(),
        return: async () => {
          call.cancel();
          return { done: true, value: undefined };
        },
      };
    },
  };
  return { ...response, message: ending } as StreamResponse<I, O>;
}

class StreamCall<I extends DescMessage, O extends DescMessage> implements Owner {
  private readonly socket: Socket;
  private readonly method: DescMethodStreaming<I, O>;
  private readonly binaryOptions: BinaryOptions | undefined;
  call: Call | undefined;
  private readonly items: { data: Uint8Array; bytes: number }[] = [];
  private error: ConnectError | undefined;
  private isOver = false;
  private isStopped = false;
  private readonly header: Headers = new Headers();
  private readonly trailer: Headers = new Headers();
  private answered!: () => void;
  private failed!: (error: ConnectError) => void;
  private wakeReader: () => void = () => {};
  private wakeWriter: () => void = () => {};

  constructor(socket: Socket, method: DescMethodStreaming<I, O>, binaryOptions: BinaryOptions | undefined) {
    this.socket = socket;
    this.method = method;
    this.binaryOptions = binaryOptions;
  }

  async run(request: StreamRequest<I, O>, timeoutMs: number | undefined): Promise<StreamResponse<I, O>> {
    const { method, socket } = this;
    const { signal } = request;
    const isStreaming = method.methodKind !== "server_streaming";
    let body: Uint8Array | undefined;
    if (!isStreaming) {
      for await (const message of request.message) body = encode(method.input, message, this.binaryOptions);
    }
    if (signal.aborted) throw abortError(signal.reason, undefined);
    const head = new Promise<void>((resolve, reject) => {
      this.answered = resolve;
      this.failed = reject;
    });
    this.call = socket.call({
      path: pathOf(method),
      kind: kindOf(method),
      body,
      isStreaming,
      headers: encodeHeaders(request.header),
      deadline: timeoutMs === undefined ? undefined : socket.now() + timeoutMs,
      owner: this,
    });
    signal.addEventListener("abort", () => this.end(abortError(signal.reason, this.call)));
    if (isStreaming) void this.upload(request.message);
    await head;
    const { header, trailer } = this;
    return { stream: true, service: method.parent, method, header, trailer, message: this.messages() };
  }

  cancel(): void {
    if (this.isOver || !this.call) return;
    this.end(undefined);
  }

  on(event: SessionEvent & { call: Call }): void {
    if (event.type === "reply") {
      appendHeaders(this.header, event.meta.headers);
      if (event.then === "nothing") {
        appendHeaders(this.trailer, event.meta.trailers);
        this.items.push({ data: event.payload, bytes: 0 });
        this.over(undefined);
      }
      this.answered();
    } else if (event.type === "items") {
      for (const data of event.items) this.items.push({ data, bytes: 0 });
      this.items.at(-1)!.bytes = event.bytes; // Credited when the last of its frame is taken.
    } else if (event.type === "piece") {
      if (event.item) this.items.push({ data: event.item, bytes: 0 });
    } else if (event.type === "end") {
      appendHeaders(this.trailer, event.meta.headers);
      appendHeaders(this.trailer, event.meta.trailers);
      this.over(undefined);
    } else if (event.type === "failed") {
      this.over(toError(event, [...this.header] as [string, string][]));
    } else if (event.type === "stop") {
      this.isStopped = true;
    }
    this.wakeReader();
    this.wakeWriter();
  }

  /** This side gives up. */
  private end(error: ConnectError | undefined): void {
    if (this.isOver) return;
    this.items.length = 0;
    this.over(error);
    this.socket.session.cancel(this.call!);
    this.socket.flushSoon();
    this.wakeReader();
    this.wakeWriter();
  }

  private over(error: ConnectError | undefined): void {
    this.isOver = this.isStopped = true;
    this.error = error;
    if (error) this.failed(error);
    else this.answered();
  }

  private async upload(messages: AsyncIterable<MessageShape<I>>): Promise<void> {
    const { socket, method } = this;
    const call = this.call!;
    try {
      for await (const message of messages) {
        if (this.isStopped) break;
        socket.session.push(call, encode(method.input, message as MessageInitShape<I>, this.binaryOptions));
        socket.flushSoon();
        while (!this.isStopped && (call.outgoing?.waiting ?? 0) > WAITING_MAX) {
          call.wantsRoom = true;
          await new Promise<void>((resolve) => (this.wakeWriter = resolve));
        }
      }
      if (!this.isStopped) socket.session.finish(call);
      socket.flushSoon();
    } catch (error) {
      this.end(ConnectError.from(error));
    }
  }

  private async *messages(): AsyncIterable<MessageShape<O>> {
    const { method, socket } = this;
    for (;;) {
      const item = this.items.shift();
      if (item) {
        socket.session.consumed(this.call!, item.bytes);
        if (item.bytes) socket.flushSoon();
        yield decode(method.output, item.data, this.binaryOptions);
      } else if (this.error) {
        throw this.error;
      } else if (this.isOver) {
        return;
      } else {
        await new Promise<void>((resolve) => (this.wakeReader = resolve));
      }
    }
  }
}
