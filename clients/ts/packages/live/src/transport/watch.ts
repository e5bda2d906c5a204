/** Watches: a query whose answers go on coming, over lost connections and lost sessions. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import type { UnaryRequest, UnaryResponse } from "@connectrpc/connect";
import { type Call, WATCHING } from "../session/call.ts";
import type { FailedEvent, ReplyEvent, SessionEvent } from "../session/event.ts";
import type { Owner } from "../socket/socket.ts";
import { isVisible } from "../socket/wake.ts";
import { NOTIFY, VALUES } from "../wire/frame.ts";
import { bytesOf, latin1 } from "../wire/varint.ts";
import { toError } from "./errors.ts";
import { encodeHeaders, toHeaders } from "./headers.ts";
import { decode, encode, pathOf } from "./method.ts";
import { Large } from "./large.ts";
import { loadInterceptors } from "./lazy.ts";
import type { Watcher } from "./transport.ts";
import { CODE_ABORTED, CODE_DEADLINE_EXCEEDED, CODE_INTERNAL, CODE_INVALID_ARGUMENT, CODE_PERMISSION_DENIED, CODE_RESOURCE_EXHAUSTED, CODE_UNAUTHENTICATED, CODE_UNAVAILABLE, CODE_UNIMPLEMENTED, CODE_UNKNOWN } from "../wire/code.ts";
import type { Watches, WatchOptions } from "./watches.ts";

/** Between two questions of a query that nobody tells about. */
export const POLL = 5_000;
/** An answer that was over when it came: by then the next may be one that is watched. */
const SOON = 50;
const RETRY_FIRST = 500;
const RETRY_LAST = 30_000;

/** These say nothing of the query itself, so it is asked again, and again later. */
export const PASSING: number[] = [
  CODE_UNAVAILABLE, CODE_ABORTED, CODE_DEADLINE_EXCEEDED, CODE_RESOURCE_EXHAUSTED, CODE_INTERNAL, CODE_UNKNOWN,
];
/** These hardly change by themselves: they are asked again slowly. */
const SLOW: number[] = [CODE_INVALID_ARGUMENT, CODE_UNIMPLEMENTED, CODE_PERMISSION_DENIED, CODE_UNAUTHENTICATED];

/** Of ten thousand: what few of them have takes no room until it is there (`declare`). */
export class Watch<I extends DescMessage, O extends DescMessage> implements Owner {
  readonly watches: Watches;
  readonly method: DescMethodUnary<I, O>;
  private readonly watcher: Watcher<MessageShape<O>>;
  private readonly how: WatchOptions;
  /** A small string is a fourth of a small array. */
  body: string | undefined;
  private declare headers: Uint8Array | undefined;
  private call: Call | undefined;
  /** Of the answer that the watcher holds; `named` of the newest one, which may be too large to push. */
  held: string | undefined;
  named: string | undefined;
  private declare large: Large | undefined;
  isAsking = false;
  /** The answer that was polled last, to tell of others only. */
  declare polled: string | undefined;
  hasAnswer: boolean;
  private isToldStale = false;
  isOver = false;
  private isRefreshed = false;
  private failures = 0;
  private epoch = 0;
  private declare timer: ReturnType<typeof setTimeout> | undefined;
  /** Takes the first answer to the interceptors. */
  private declare first: { resolve(r: UnaryResponse<I, O>): void; reject(e: ConnectError): void } | undefined;

  constructor(watches: Watches, method: DescMethodUnary<I, O>, watcher: Watcher<MessageShape<O>>, how: WatchOptions) {
    this.watches = watches;
    this.method = method;
    this.watcher = watcher;
    this.how = how;
    this.held = how.validator && latin1(how.validator);
    this.hasAnswer = !!how.validator;
    this.isToldStale = this.hasAnswer;
  }

  begin(input: MessageInitShape<I>): void {
    const { method, watches } = this;
    const { interceptors, binaryOptions } = watches.options;
    if (!interceptors?.length) {
      this.body = latin1(encode(method.input, input, binaryOptions));
      return this.ask();
    }
    const next = (request: UnaryRequest<I, O>) =>
      new Promise<UnaryResponse<I, O>>((resolve, reject) => {
        this.first = { resolve, reject };
        this.body = latin1(encode(method.input, request.message as MessageInitShape<I>, binaryOptions));
        this.headers = encodeHeaders(request.header);
        if (!this.isOver) this.ask();
      });
    const through = loadInterceptors().then(({ runInterceptors }) => runInterceptors(watches.options, { method, input }, next));
    through.then(
      ({ message }) => {
        if (this.isOver || this.hasAnswer) return; // A later answer came first.
        this.tell(message as MessageShape<O>);
        this.update();
      },
      (error) => this.isOver || this.watcher.error(ConnectError.from(error)),
    );
  }

  leave(): void {
    this.end();
    if (this.hasAnswer && !this.isToldStale) this.watcher.stale();
  }

  end(): void {
    this.isOver = true;
    this.unschedule();
    this.watches.remove(this);
    const { session } = this.watches.socket;
    if (this.call) session.cancel(this.call);
    this.large?.cancel();
    this.watches.socket.flushSoon();
  }

  on(event: SessionEvent & { call: Call }): void {
    if (this.isOver) return;
    if (event.call !== this.call) return; // One that was asked again since.
    if (event.type === "reply") this.onReply(event);
    else if (event.type === "failed") this.onFailed(event);
    else if (event.type === "stale") {
      this.call = undefined;
      this.update();
      if (this.how.mode === "notify") this.end();
      else this.ask();
    }
    if (!this.isOver) this.update();
  }

  /** Says `stale` or `fresh` where that changed. */
  update(): void {
    if (!this.hasAnswer || this.isOver) return;
    const { call } = this;
    const { session } = this.watches.socket;
    const isTold = call?.state === WATCHING && !call.isSuspect && session.isCurrent;
    const isStale = !isTold || this.held !== this.named;
    if (isStale === this.isToldStale) return;
    this.isToldStale = isStale;
    if (isStale) this.watcher.stale();
    else this.watcher.fresh();
  }

  private ask(): void {
    const before = this.call;
    if (before) this.watches.socket.session.cancel(before);
    this.unschedule();
    this.epoch = this.watches.socket.epoch;
    this.call = this.watches.socket.call({
      path: pathOf(this.method),
      kind: "query",
      watch: this.how.mode === "notify" ? NOTIFY : VALUES,
      body: this.body,
      headers: this.headers,
      validator: this.held,
      owner: this,
    });
    this.call.holdsSeen = !!this.how.minInterval;
  }

  private onReply({ then, payload, meta, isUnchanged, isLarge, call }: ReplyEvent): void {
    const { maxAge } = meta;
    if (maxAge !== 0) this.failures = 0;
    this.isRefreshed = false;
    this.named = then === "watch" ? call.validator : meta.validator;
    if (then === "items") {
      // Large, and not watched: the call that asks for it again brings it.
      this.watches.socket.session.cancel(call);
      this.call = undefined;
      this.askLater(POLL);
      return this.askLarge();
    }
    if (isLarge && this.named !== this.held) return this.askLarge();
    if (isUnchanged || isLarge) {
      this.named ??= this.held;
      if (then === "nothing") this.confirm();
    }
    else this.answer(payload, this.named);
    if (isUnchanged && this.named !== this.held) return this.askLarge();
    if (then === "nothing") this.askLater(maxAge === 0 ? Math.min(POLL, SOON * 2 ** this.failures++) : POLL);
    else if (this.how.minInterval) this.takeLater(call, this.how.minInterval);
  }

  private onFailed(event: FailedEvent): void {
    const { code, isWatched, isLost } = event;
    const error = toError(event);
    if (isWatched) {
      // An error is an answer too: it is current until told otherwise.
      if (this.how.minInterval) this.takeLater(event.call, this.how.minInterval);
      return this.refused(error, event.call.validator);
    }
    this.call = undefined;
    if (isLost) {
      this.update();
      return this.ask();
    }
    const mayRefresh = code === CODE_UNAUTHENTICATED && event.meta && !this.isRefreshed;
    // Once until it is answered: new headers ask for all that is polled.
    this.isRefreshed = code === CODE_UNAUTHENTICATED;
    if (mayRefresh) {
      void this.watches.socket.renewFor(this.epoch).then((isRenewed) => {
        if (this.isOver) return;
        if (isRenewed) this.ask();
        else this.refused(error, undefined, RETRY_LAST);
      });
      return;
    }
    if (PASSING.includes(code)) {
      if (!this.hasAnswer) this.fail(error);
      return this.askLater(Math.min(RETRY_LAST, RETRY_FIRST * 2 ** this.failures++));
    }
    // Nobody tells about it: what is not found may come.
    this.refused(error, undefined, SLOW.includes(code) ? RETRY_LAST : POLL);
  }

  /** An error is the answer; it is asked for again after `delay`, or watched. */
  private refused(error: ConnectError, validator: string | undefined, delay = 0): void {
    this.held = this.named = validator;
    this.hasAnswer = true;
    this.isToldStale = false;
    this.fail(error);
    this.update();
    if (delay) this.askLater(delay);
  }

  fail(error: ConnectError): void {
    const { first } = this;
    this.first = undefined;
    if (first) first.reject(error);
    else this.watcher.error(error);
  }

  private answer(payload: Uint8Array, validator: string | undefined): void {
    const { output } = this.method;
    const message = decode(output, payload, this.watches.options.binaryOptions);
    this.held = validator;
    const { first } = this;
    this.first = undefined;
    if (!first) return this.tell(message);
    const header = toHeaders();
    first.resolve({ stream: false, service: this.method.parent, method: this.method, header, trailer: toHeaders(), message });
  }

  tell(message: MessageShape<O>): void {
    this.hasAnswer = true;
    this.isToldStale = false;
    this.watcher.next(message, this.held === undefined ? undefined : bytesOf(this.held));
  }

  /** The answer was current when it was asked for, which nobody vouches for afterwards. */
  confirm(): void {
    if (!this.hasAnswer || !this.isToldStale) return;
    this.isToldStale = false;
    this.watcher.fresh();
  }

  /** Asks again: nothing tells of this query, or it failed in passing. */
  askLater(delay: number): void {
    if (this.isOver) return;
    this.unschedule();
    this.watches.polling.add(this);
    const jittered = delay * (0.75 + this.watches.socket.session.options.random() / 2);
    this.timer = setTimeout(() => {
      if (isVisible()) this.askNow();
      else this.askLater(delay);
    }, jittered);
  }

  askNow(): void {
    if (this.isOver || !isVisible()) return;
    const { watches } = this;
    if (watches.askOver) void watches.askOver(this);
    else this.ask();
  }

  unschedule(): void {
    clearTimeout(this.timer);
    this.watches.polling.delete(this);
  }

  /** Says late that an answer was taken: until then no other comes. */
  private takeLater(call: Call, delay: number): void {
    const { session } = this.watches.socket;
    setTimeout(() => {
      if (call.state !== WATCHING || session.phase !== "open") return;
      session.seen.add(call.stream);
      this.watches.socket.flushSoon();
    }, delay);
  }

  /** The answer is too large to be pushed: it is asked for by a query of its own. */
  private askLarge(): void {
    const { socket } = this.watches;
    const { method, held, body, headers } = this;
    this.large ??= new Large(socket, {
      whole: (data, named) => {
        if (data) this.answer(data, named);
        // The watch has named another by now, or will: what came may be older.
        if (this.call?.state === WATCHING && this.held !== this.named) this.askLarge();
      },
      failed: (event) => {
        if (event.isLost || PASSING.includes(event.code)) this.askLarge();
        else this.fail(toError(event));
      },
      over: () => this.update(),
    });
    this.large.ask({ path: pathOf(method), kind: "query", body, headers, validator: held });
  }
}
