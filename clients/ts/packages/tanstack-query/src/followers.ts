/** The watches of a cache: one for each query that somebody uses, ended when it is removed. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import { hashKey, type QueryClient, type QueryKey } from "@tanstack/query-core";
import type { LiveTransport } from "@tidewire/live";

interface Follower {
  /** It ended in an error that was told: whoever comes next asks anew. */
  isSpent(): boolean;
  end(): void;
  /** The answer of the watch, once it is current. */
  current(): Promise<any>;
}

const followers = new WeakMap<QueryClient, Map<string, Follower>>();

/** The followers of a cache; they go with its queries. */
function followersOf(client: QueryClient): Map<string, Follower> {
  let all = followers.get(client);
  if (all) return all;
  const made = (all = new Map<string, Follower>());
  followers.set(client, made);
  client.getQueryCache().subscribe(({ type, query }) => {
    if (type !== "removed") return;
    made.get(query.queryHash)?.end();
    made.delete(query.queryHash);
  });
  return made;
}

/** Follows a query, or finds who does: the promise is for its current answer. */
export function follow<I extends DescMessage, O extends DescMessage>(
  transport: LiveTransport,
  client: QueryClient,
  queryKey: QueryKey,
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I>,
): Promise<MessageShape<O>> {
  const all = followersOf(client);
  const hash = hashKey(queryKey);
  let follower = all.get(hash);
  if (follower?.isSpent()) {
    follower.end();
    follower = undefined;
  }
  if (!follower) {
    follower = begin(transport, client, queryKey, method, input, () => all.delete(hash));
    all.set(hash, follower);
  }
  return follower.current();
}

function begin<I extends DescMessage, O extends DescMessage>(
  transport: LiveTransport,
  client: QueryClient,
  queryKey: QueryKey,
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I>,
  forget: () => void,
): Follower {
  let data: MessageShape<O> | undefined;
  let error: ConnectError | undefined;
  let isCurrent = false;
  let isTold = false;
  let waiting: [(data: MessageShape<O>) => void, (error: ConnectError) => void][] = [];
  const settle = () => {
    if (waiting.length) isTold = true;
    const all = waiting;
    waiting = [];
    for (const [resolve, reject] of all) error ? reject(error) : resolve(data!);
  };
  const end = transport.watch(method, input, {
    next(answer) {
      const isFirst = waiting.length > 0;
      data = answer;
      error = undefined;
      isCurrent = true;
      isTold = false;
      // A fetch that waits sets it itself; else it is pushed.
      if (!isFirst) client.setQueryData(queryKey, answer);
      settle();
    },
    stale: () => void (isCurrent = false),
    fresh() {
      isCurrent = true;
      settle();
    },
    error(said) {
      error = said;
      isCurrent = true;
      isTold = false;
      const isFirst = waiting.length > 0;
      settle();
      if (isFirst) return;
      // The cache learns of errors by fetching: the fetch gives this one.
      void client.refetchQueries({ queryKey, exact: true });
    },
  });
  return {
    end() {
      end();
      forget();
    },
    isSpent: () => !!error && isTold,
    current: async () => {
      if (!isCurrent) return new Promise((resolve, reject) => waiting.push([resolve, reject]));
      isTold = true;
      if (error) throw error;
      return data!;
    },
  };
}

/** A promise that an abort leaves, which leaves the watch to others. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject);
  });
}
