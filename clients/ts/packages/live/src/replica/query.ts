/** One query: its state, who listens, and the watch that keeps it current. */
import { type DescMessage, type DescMethodUnary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { ConnectError, Transport } from "@connectrpc/connect";
import type { Store } from "../socket/state.ts";
import type { Watcher } from "../transport/transport.ts";
import type { WatchOptions } from "../transport/watches.ts";
import { bytesOf, latin1 } from "../wire/varint.ts";
import type { Batch } from "./batch.ts";
import { current, type ListenerList, isSame, listen, NOBODY } from "./current.ts";
import { frozen } from "./freeze.ts";

export interface QueryState<T> {
  status: "pending" | "error" | "success";
  data?: T;
  error?: ConnectError;
  /** Nothing vouches for the data now: the connection is lost, or a newer answer is on its way. */
  isStale: boolean;
}

/** A query's data, and word of changes. While somebody subscribes it is watched. */
export interface Query<T> extends Store<QueryState<T>> {
  /** The data once they are current; rejects with the query's error. */
  fetch(signal?: AbortSignal): Promise<T>;
}

/** A query as computations read it. */
export interface Input<T = any> extends Query<T> {
  /** Tells a computation at once, before views are. */
  depend(onChange: () => void): () => void;
}

/** What the client does for its queries. */
export interface Host {
  readonly transport: Transport;
  readonly batch: Batch;
  /** Nobody listens (any more): it may be let go after a while. */
  idle(query: CachedQuery): void;
  /** Somebody uses it again. */
  used(query: CachedQuery): void;
  /** What was changed by optimistic layers; undefined when they leave the query alone. */
  layered(query: CachedQuery): { data: unknown } | undefined;
  /** The query has a new answer. */
  answered(query: CachedQuery): void;
}

interface WatchTransport {
  watch(
    method: unknown,
    input: unknown,
    watcher: Watcher<unknown>,
    options?: WatchOptions,
  ): () => void;
}

const PENDING: QueryState<never> = { status: "pending", isStale: true };

export class CachedQuery<T = any> implements Input<T>, Watcher<T> {
  private readonly host: Host;
  readonly method: DescMethodUnary;
  readonly input: MessageInitShape<DescMessage>;
  readonly key: string;
  private readonly minInterval: number | undefined;
  /** As the server says, and with what is optimistic. */
  base: QueryState<T> = PENDING;
  private shown: QueryState<T> = PENDING;
  /** As a string: a small one is a fifth of a small array. */
  named: string | undefined;
  listeners: readonly (() => void)[] = NOBODY;
  private dependents: ListenerList | undefined;
  private end: (() => void) | undefined;
  idleSince = 0;
  /** The client finds it. */
  isListed = false;
  answers = 0;
  last = "";
  private wasLayered = false;

  constructor(host: Host, key: string, method: DescMethodUnary, input: MessageInitShape<DescMessage>, minInterval?: number) {
    this.host = host;
    this.key = key;
    this.method = method;
    this.input = input;
    this.minInterval = minInterval;
  }

  // Properties, since hooks pass them on without their object.
  readonly getSnapshot = (): QueryState<T> => this.shown;

  readonly subscribe = (onChange: () => void): (() => void) => this.use(this, onChange);

  depend(onChange: () => void): () => void {
    return this.use((this.dependents ??= { listeners: NOBODY }), onChange);
  }

  private use(list: ListenerList, onChange: () => void): () => void {
    const end = listen(list, onChange);
    this.begin();
    return () => void (end() && !this.isUsed && this.host.idle(this));
  }

  get isUsed(): boolean {
    return this.listeners.length + (this.dependents?.listeners.length ?? 0) > 0;
  }

  fetch(signal?: AbortSignal): Promise<T> {
    const old = this.base.status === "error" ? this.shown : undefined;
    if (old) this.stop(); // It is asked again.
    return current(this, signal, old);
  }

  /** Data that came with the page, or from storage: to be confirmed. */
  restore(data: T, validator: Uint8Array | undefined): void {
    if (this.base.status !== "pending") return;
    this.named = validator && latin1(validator);
    this.set({ status: "success", data: frozen(data), isStale: true });
  }

  /** Ends the watch; what is held stays, and is stale. */
  stop(): void {
    this.end?.();
    this.end = undefined;
    if (this.base.status === "success" && !this.base.isStale) this.set({ ...this.base, isStale: true });
  }

  /** Forgets all: whoever listens sees it pending, and asks again. */
  reset(): void {
    this.end?.();
    this.end = this.named = undefined;
    this.set(PENDING);
    if (this.isUsed) this.begin();
  }

  begin(): void {
    if (this.end) return;
    this.host.used(this);
    const { host, method, input, named, minInterval } = this;
    const options = named || minInterval ? { validator: named && bytesOf(named), minInterval } : undefined;
    if ("watch" in host.transport) {
      const { watch } = host.transport as unknown as WatchTransport;
      this.end = watch(method, input, this as Watcher<unknown>, options as WatchOptions);
      return;
    }
    // A transport that tells of nothing: asked once, and nobody vouches for it afterwards.
    const controller = new AbortController();
    this.end = () => controller.abort();
    host.transport.unary(method, controller.signal, undefined, undefined, input).then(
      ({ message }) => {
        this.next(message as MessageShape<DescMessage> as T, undefined);
        this.stale();
      },
      (error) => controller.signal.aborted || this.error(error),
    );
  }

  // What its watch tells.

  next(data: T, validator: Uint8Array | undefined): void {
    this.named = validator && latin1(validator);
    this.answers++;
    this.last = "answered";
    this.set({ status: "success", data: frozen(data), isStale: false });
  }

  stale(): void {
    this.last = "stale";
    if (!this.base.isStale) this.set({ ...this.base, isStale: true });
  }

  fresh(): void {
    this.last = "confirmed, unchanged";
    this.set({ ...this.base, isStale: false });
  }

  error(error: ConnectError): void {
    this.named = undefined;
    this.answers++;
    this.last = "failed";
    // It may not be seen any more, or is not there: older data would be a lie.
    this.set({ status: "error", error, isStale: false });
  }

  /** Shows the state anew: the base changed, or the layers did. */
  show(): void {
    const layered = this.host.layered(this);
    const { base, shown } = this;
    let next = layered ? { ...base, status: "success" as const, data: layered.data as T, error: undefined } : base;
    // An answer that is what was expected is not a change to a view.
    if (next.data !== shown.data && (layered || this.wasLayered) && this.isEqual(next.data, shown.data)) {
      next = { ...next, data: shown.data };
      if (!layered) this.base = next;
    }
    this.wasLayered = !!layered;
    if (isSame(next, shown)) return;
    this.shown = next;
    for (const dependent of this.dependents?.listeners ?? NOBODY) dependent();
    this.host.batch.changed(this);
  }

  private isEqual(one: T | undefined, other: T | undefined): boolean {
    if (one === undefined || other === undefined) return false;
    const { output } = this.method;
    const bytes = (data: T) => latin1(toBinary(output, data as MessageShape<DescMessage>));
    return bytes(one) === bytes(other);
  }

  private set(base: QueryState<T>): void {
    this.base = base;
    this.host.answered(this);
    this.show();
  }
}
