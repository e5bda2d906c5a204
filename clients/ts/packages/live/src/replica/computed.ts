/**
 * Values made of queries. A computation is synchronous, so nothing that it reads is lost; it is made
 * again when one of them changed, and told once for all that a message of the server changed.
 */
import { ConnectError } from "@connectrpc/connect";
import type { Batch } from "./batch.ts";
import { current, type ListenerList, isSame, listen, NOBODY } from "./current.ts";
import type { Input, Query, QueryState } from "./query.ts";

export type DataOf<Q extends readonly Query<unknown>[]> = {
  [N in keyof Q]: Q[N] extends Query<infer T> ? T : never;
};

export interface Get {
  /** The data of a query. While they are pending the computation is, too. */
  <T>(query: Query<T>): T;
  /** The same of several, which are asked for at once. */
  all<const Q extends readonly Query<unknown>[]>(queries: Q): DataOf<Q>;
}

const NOT_YET = Symbol("pending");
/** While an input is suspect its next answer is awaited, so long. */
const SETTLE = 50;

export class Computed<T> implements Input<T> {
  private readonly batch: Batch;
  private readonly compute: (get: Get) => T;
  private readonly equals: (one: T, other: T) => boolean;
  private state: QueryState<T> = { status: "pending", isStale: true };
  /** What listeners were told last. */
  private told: QueryState<T> | undefined;
  private isDue = false;
  private readonly dependents: ListenerList = { listeners: NOBODY };
  /** What the state was made of. */
  private inputs: Map<Input, QueryState<unknown>> = new Map();
  private hasRun = false;
  private isRunning = false;
  listeners: readonly (() => void)[] = NOBODY;
  private readonly subscriptions: Map<Input, () => void> = new Map();
  private settleBy: ReturnType<typeof setTimeout> | undefined;

  constructor(batch: Batch, compute: (get: Get) => T, equals: (one: T, other: T) => boolean = Object.is) {
    this.batch = batch;
    this.compute = compute;
    this.equals = equals;
  }

  readonly getSnapshot = (): QueryState<T> => {
    if (this.isRunning) throw new Error("a computed value reads itself");
    if (!this.hasRun || this.isDue || this.hasChanged()) this.update();
    return this.state;
  };

  readonly subscribe = (onChange: () => void): (() => void) => {
    const end = listen(this, onChange);
    if (this.listeners.length === 1) {
      this.hasRun = false; // Made anew, so that its inputs are subscribed to.
      this.told = this.getSnapshot();
    }
    return () => {
      if (!end() || this.listeners.length) return;
      for (const over of this.subscriptions.values()) over();
      this.subscriptions.clear();
      this.settled();
    };
  };

  /** Tells another computation at once, before views are. */
  depend(onChange: () => void): () => void {
    const end = this.subscribe(() => {});
    const leave = listen(this.dependents, onChange);
    return () => {
      leave();
      end();
    };
  }

  fetch(signal?: AbortSignal): Promise<T> {
    return current(this, signal);
  }

  private hasChanged(): boolean {
    for (const [input, state] of this.inputs) if (input.getSnapshot() !== state) return true;
    return false;
  }

  /** Makes the state of the inputs as they are; suspect ones hold it back for a moment. */
  private update(): void {
    const isStale = [...this.inputs.keys()].some((input) => input.getSnapshot().isStale);
    const mayWait = this.hasRun && this.state.status === "success" && this.listeners.length > 0;
    if (!isStale || !mayWait || this.isDue) {
      this.settled();
      return this.run();
    }
    this.settleBy ??= setTimeout(() => {
      this.isDue = true;
      this.changed();
      this.isDue = false;
    }, SETTLE);
    if (!this.state.isStale) this.state = { ...this.state, isStale: true };
  }

  private settled(): void {
    clearTimeout(this.settleBy);
    this.settleBy = undefined;
  }

  private run(): void {
    const inputs = new Map<Input, QueryState<unknown>>();
    let isOver = false;
    const read = (given: Query<any>) => {
      const query = given as Input;
      if (isOver) throw new Error("get was called after the computation; it is synchronous, without await");
      if (this.listeners.length && !this.subscriptions.has(query)) {
        this.subscriptions.set(query, query.depend(() => this.batch.before(this.changed)));
      }
      const state = query.getSnapshot();
      inputs.set(query, state);
      return state;
    };
    const value = ({ status, data, error }: QueryState<any>) => {
      if (status === "error") throw error;
      if (status === "pending") throw NOT_YET;
      return data;
    };
    const get = ((query) => value(read(query))) as Get;
    get.all = (queries) => queries.map(read).map(value) as never;
    this.isRunning = true;
    let next: QueryState<T>;
    const isStale = () => [...inputs.values()].some((state) => state.isStale);
    try {
      const data = this.compute(get);
      if (typeof (data as { then?: unknown } | null)?.then === "function") {
        throw new Error("a computed value is made synchronously, its function may not be async");
      }
      const { status, data: before } = this.state;
      const isSame = status === "success" && this.equals(before as T, data);
      next = { status: "success", data: isSame ? before : data, isStale: isStale() };
    } catch (error) {
      const isPending = error === NOT_YET;
      next = isPending
        ? { status: "pending", isStale: true }
        : { status: "error", error: ConnectError.from(error), isStale: isStale() };
    } finally {
      isOver = true;
      this.isRunning = false;
    }
    this.inputs = inputs;
    this.hasRun = true;
    for (const [query, end] of this.subscriptions) {
      if (inputs.has(query)) continue;
      end();
      this.subscriptions.delete(query);
    }
    if (!isSame(this.state, next)) this.state = next;
  }

  private readonly changed = (): void => {
    if (!this.listeners.length) return;
    this.getSnapshot();
    if (this.state === this.told) return;
    this.told = this.state;
    for (const dependent of this.dependents.listeners) dependent();
    this.batch.changed(this);
  };
}
