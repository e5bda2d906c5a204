/** The transport: what generated clients of connect-es call, and what watches queries. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { ConnectError, Interceptor, Transport } from "@connectrpc/connect";
import { Session } from "../session/session.ts";
import type { GetHeaders } from "../socket/credentials.ts";
import { type OpenSocket, socketUrl } from "../socket/dial.ts";
import { Socket } from "../socket/socket.ts";
import type { ConnectionState, Store } from "../socket/state.ts";
import { DURABLE_FEATURE, RESUME_FEATURE, WATCH_FEATURE } from "../wire/kinds.ts";
import type { Fallback, UndecidedCall } from "./fallback.ts";
import { loadFallback, loadInterceptors, loadStream, whileAllowed } from "./lazy.ts";
import type { BinaryOptions } from "./method.ts";
import { type CommandOptions, unary } from "./unary.ts";
import { type WatchOptions, Watches } from "./watches.ts";

export interface LiveOptions {
  /** Of the server, as for connect-web: `https://api.example.com`, or `/` for the page's own. */
  baseUrl: string;
  /** See calls, and the first answer of a watch. */
  interceptors?: Interceptor[];
  defaultTimeoutMs?: number;
  binaryOptions?: BinaryOptions;
  /**
   * Headers of every call, such as `authorization`: asked for at each connection, before they
   * expire, and when the server refused them.
   */
  headers?: GetHeaders;
  /** A transport for networks that let no WebSocket through. */
  fallback?(): Promise<Transport>;
  /** Opens a socket in place of `new WebSocket`. */
  webSocket?: OpenSocket;
}

/** Who watches a query. Each `next` is an answer that is current, until `stale`. */
export interface Watcher<T> {
  next(data: T, validator: Uint8Array | undefined): void;
  /** The last answer may not be current any more; `next` or `fresh` follows. */
  stale(): void;
  /** The last answer is current after all. */
  fresh(): void;
  /** In place of an answer. The watch goes on. */
  error(error: ConnectError): void;
}

export interface LiveTransport extends Transport {
  /** Calls a query and goes on telling its answers. Returns what ends that. */
  watch<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
    watcher: Watcher<MessageShape<O>>,
    options?: WatchOptions,
  ): () => void;
  /**
   * Runs a command for the entry point `offline`, once there is a connection. Under a `key` it runs
   * only where the service keeps keys, or the method is IDEMPOTENT; else its outcome is unknown.
   * Without one it is a call as any other, and `sent` hears what it was sent as.
   */
  command<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
    options: CommandOptions,
  ): Promise<MessageShape<O>>;
  readonly connection: Store<ConnectionState>;
  /** Dials at once, or asks whether all answers are current. Pages do it by themselves. */
  wake(): void;
  /** Ends all calls and watches, and says goodbye to the server. */
  close(): Promise<void>;
}

const ignore = () => {};
const AGENT = "tidewire-live/0.1.0";

/** Makes a transport. It connects with the first call. */
export function createLiveTransport(options: LiveOptions): LiveTransport {
  const boot = crypto.getRandomValues(new Uint8Array(16));
  const features = WATCH_FEATURE | RESUME_FEATURE | DURABLE_FEATURE;
  const session = new Session({ features, boot, agent: AGENT, random: Math.random });
  let fallback: Fallback | undefined;
  const socket: Socket = new Socket({
    ...options,
    url: socketUrl(options.baseUrl),
    session,
    heard: (event) => {
      isDecided = true;
      fallback?.heard(event);
      const { type } = event;
      if (type === "connected" || type === "sure" || type === "credential") watches.askPolled();
      watches.update();
    },
    left: () => {
      fallback?.end();
      watches.close();
    },
    wrote: () => watches.askPolled(),
    failed: (failures, error) => {
      if (options.fallback) withFallback().then((it) => it.consider(failures, error), ignore); // Tried again after the next failure.
    },
  });
  const watches = new Watches(socket, options);
  const withFallback = () => loadFallback().then(({ Fallback }) => (fallback ??= new Fallback(socket, options, watches)));
  /** Until something was heard over a socket, calls wait: they may go another way. */
  let isDecided = !options.fallback;
  const decided = <T>(call: UndecidedCall, go: () => Promise<T>): Promise<T> => {
    if (isDecided) return go();
    call[2] ??= options.defaultTimeoutMs;
    socket.hurry();
    return whileAllowed<unknown>(withFallback().then((it): unknown => isDecided || it.decision(call), ignore), call[1], call[2]).then(go);
  };
  // Now, while there is a network: what fails is loaded when it is used.
  if (options.fallback) withFallback().catch(ignore);
  if (options.interceptors?.length) loadInterceptors().catch(ignore);
  // An object literal with own functions: connect-query spreads transports.
  return {
    unary: (...call) => decided(call, () => fallback?.transport?.unary(...call) ?? unary(socket, options, ...call)),
    stream: (...call) =>
      decided(call, () => fallback?.transport?.stream(...call) ?? loadStream().then(({ stream }) => stream(socket, options, ...call))),
    watch: (method, input, watcher, how) => watches.add(method, input, watcher, how),
    command: (method, input, more) => {
      const call = [method, undefined, more.key && 0, undefined, input, undefined] as const;
      const over = more.key ? undefined : fallback?.transport;
      return (over?.unary(...call) ?? unary(socket, options, ...call, more)).then(({ message }) => message);
    },
    connection: socket.state,
    wake: () => socket.wake(),
    close: async () => socket.close(),
  };
}
