/** What queries and computed values share: their listeners, whether two states are one, the wait for a current one. */
import type { Input, QueryState } from "./query.ts";

/** Who listens: a list that is replaced, not changed; of one it takes the least memory. */
export interface ListenerList {
  listeners: readonly (() => void)[];
}

export const NOBODY: readonly never[] = [];

/** Adds a listener, which may be there already; what it returns takes it away, and says whether it did. */
export function listen(list: ListenerList, one: () => void): () => boolean {
  let isOver = false;
  list.listeners = [...list.listeners, one];
  return () => {
    if (isOver) return false;
    const at = list.listeners.indexOf(one);
    list.listeners = list.listeners.filter((_, index) => index !== at);
    return (isOver = true);
  };
}

export function isSame(one: QueryState<unknown>, other: QueryState<unknown>): boolean {
  return (
    one.status === other.status && one.data === other.data && one.error === other.error && one.isStale === other.isStale
  );
}

/** The data once they are current. The state `old` is known to be one that does not count. */
export function current<T>(input: Input<T>, signal: AbortSignal | undefined, old?: QueryState<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let end = () => {};
    const over = () => {
      end();
      signal?.removeEventListener("abort", abort);
    };
    const abort = () => {
      over();
      reject(signal!.reason);
    };
    const look = () => {
      const state = input.getSnapshot();
      const { status, data, error, isStale } = state;
      if (state === old || status === "pending" || (status === "success" && isStale)) return;
      over();
      if (status === "error") reject(error);
      else resolve(data as T);
    };
    if (signal?.aborted) return reject(signal.reason);
    signal?.addEventListener("abort", abort);
    end = input.depend(look);
    look();
  });
}
