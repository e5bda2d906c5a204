/** The client: finds the query of a method and an input, runs commands, lets go of what nobody uses. */
import {
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import type { ConnectionState, Store } from "../socket/state.ts";
import { bytesOf, latin1 } from "../wire/varint.ts";
import { Batch } from "./batch.ts";
import { Computed, type Get } from "./computed.ts";
import { fromText, readEntries, toText, writeEntries } from "./dehydrate.ts";
import { keyOf } from "./key.ts";
import { Layers, type OptimisticStore } from "./optimistic.ts";
import { type Host, CachedQuery, type Query, type QueryState } from "./query.ts";

declare const process: { env: Record<string, string | undefined> } | undefined;

export interface LiveClientOptions {
  /** How long a query that nobody uses is kept and watched, in milliseconds: 5,000. */
  gcTime?: number;
}

export interface QueryOptions {
  /** The least time between two answers, in milliseconds; what comes between is left out. */
  minInterval?: number;
}

export interface MutateOptions {
  /** Shows at once what the command is expected to change. It is played again over each answer. */
  optimistic?(store: OptimisticStore): void;
  signal?: AbortSignal;
}

export interface LiveClient {
  /** The query of a method and an input: the same object for equal inputs. */
  query<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
    options?: QueryOptions,
  ): Query<MessageShape<O>>;
  /** A value made of queries. */
  computed<T>(compute: (get: Get) => T, options?: { equals?(one: T, other: T): boolean }): Query<T>;
  /** Runs a command. */
  mutate<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
    options?: MutateOptions,
  ): Promise<MessageShape<O>>;
  /** All data, as text for the page that a server makes. */
  dehydrate(): string;
  /** Takes such text: its data are shown at once, and confirmed. */
  hydrate(state: string): void;
  /** Forgets all data, for another user. */
  clear(): void;
  /** Queries that failed are asked again when they are used next. */
  resetErrors(): void;
  /** What it holds now, for devtools. */
  inspect(): QueryInfo[];
  readonly connection: Store<ConnectionState>;
}

export interface QueryInfo {
  method: string;
  input: unknown;
  state: QueryState<unknown>;
  /** It is on the page, and not merely kept for a while. */
  isUsed: boolean;
  /** Answers that came, and what the last word of the server was. */
  answers: number;
  last: string;
}

const NO_CONNECTION: Store<ConnectionState> = {
  getSnapshot: () => OVER_HTTP,
  subscribe: () => () => {},
};
const OVER_HTTP: ConnectionState = { status: "fallback" };

/** Makes a client. Over a transport that is not live, queries are asked once. */
export function createLiveClient(transport: Transport, { gcTime = 5_000 }: LiveClientOptions = {}): LiveClient {
  const queries = new Map<string, CachedQuery>();
  /** By the input, if that is a message: a literal is another one at each call, and costs more to keep. */
  const byInput = new WeakMap<object, CachedQuery>();
  const restored = new Map<string, { data: Uint8Array; validator: Uint8Array | undefined }>();
  const batch = new Batch();
  const layers = new Layers();
  const unused = new Set<CachedQuery>();
  let sweeping: ReturnType<typeof setTimeout> | undefined;

  const sweep = () => {
    sweeping = undefined;
    const now = Date.now();
    for (const query of unused) {
      const isUsed = query.isUsed;
      if (!isUsed && now - query.idleSince < gcTime) continue;
      unused.delete(query);
      if (isUsed) continue;
      query.stop();
      query.isListed = false;
      queries.delete(query.key);
    }
    if (unused.size) sweeping = setTimeout(sweep, gcTime);
  };
  const list = (query: CachedQuery) => {
    query.isListed = true;
    queries.set(query.key, query);
  };
  const host: Host = {
    transport,
    batch,
    layered: (query) => layers.get(query),
    answered: (query) => layers.answered(query),
    // One that was let go, and is held by somebody, is found again.
    used: (query) => {
      if (!queries.has(query.key)) list(query);
    },
    idle(query) {
      query.idleSince = Date.now();
      unused.add(query);
      sweeping ??= setTimeout(sweep, gcTime);
      // Nothing is kept alive by what may be let go.
      (sweeping as { unref?(): void }).unref?.();
    },
  };

  const find = (method: DescMethodUnary, input: MessageInitShape<DescMessage>, minInterval?: number): CachedQuery => {
    const key = keyOf(method, input) + (minInterval ? ` ${minInterval}` : "");
    let query = queries.get(key);
    if (query) return query;
    query = new CachedQuery(host, key, method, input, minInterval);
    list(query);
    const was = restored.get(key);
    if (was) {
      restored.delete(key);
      restore(query, was.data, was.validator);
    }
    host.idle(query); // Let go if whoever asked does not use it.
    return query;
  };
  const restore = (query: CachedQuery, data: Uint8Array, validator: Uint8Array | undefined) => {
    try {
      query.restore(fromBinary(query.method.output, data), validator);
    } catch {
      // Of another schema: it is asked for anew.
    }
  };

  return {
    query: (method, input, { minInterval } = {}) => {
      if (minInterval) return find(method, input, minInterval) as never;
      let query = byInput.get(input as object);
      if (query?.method === method && query.isListed) {
        // In development only: a bundler drops it from others.
        if (typeof process !== "undefined" && process.env.NODE_ENV !== "production" && keyOf(method, input) !== query.key) {
          throw new Error(`the input of ${method.name} was changed after it was used; make another object`);
        }
        return query as never;
      }
      query = find(method, input);
      const isDevelopment = typeof process !== "undefined" && process.env.NODE_ENV !== "production";
      if ("$typeName" in (input as object) || isDevelopment) byInput.set(input as object, query);
      return query as never;
    },
    computed: (compute, options) => new Computed(batch, compute, options?.equals),
    mutate: async (method, input, { optimistic, signal } = {}) => {
      const end = optimistic && layers.add(optimistic);
      try {
        const { message } = await transport.unary(method, signal, undefined, undefined, input);
        end?.(true);
        return message;
      } catch (error) {
        end?.(false);
        throw error;
      }
    },
    dehydrate: () => {
      // What was restored and nobody has asked for yet goes on, too.
      const entries = [...restored].map(([key, was]) => ({ key: bytesOf(key)!, ...was }));
      for (const { key, base, method, named } of queries.values()) {
        if (base.status !== "success") continue;
        const data = toBinary(method.output, base.data as MessageShape<DescMessage>);
        entries.push({ key: bytesOf(key)!, data, validator: named === undefined ? undefined : bytesOf(named) });
      }
      return toText(writeEntries(entries));
    },
    hydrate: (state) => {
      for (const { key, data, validator } of readEntries(fromText(state))) {
        const name = latin1(key);
        const query = queries.get(name);
        if (query) restore(query, data, validator);
        else restored.set(name, { data: data.slice(), validator: validator?.slice() });
      }
    },
    clear: () => {
      restored.clear();
      for (const query of queries.values()) query.reset();
    },
    resetErrors: () => {
      for (const query of queries.values()) if (query.base.status === "error") query.reset();
    },
    inspect: () =>
      [...queries.values()].map(({ method, input, isUsed, answers, last, getSnapshot }) => {
        return { method: `${method.parent.typeName}.${method.name}`, input, state: getSnapshot(), isUsed, answers, last };
      }),
    connection: "connection" in transport ? (transport.connection as Store<ConnectionState>) : NO_CONNECTION,
  };
}
