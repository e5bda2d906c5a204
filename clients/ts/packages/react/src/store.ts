/** A query as a view sees it: subscribed to after it is shown, read while it renders. */
import type { Query, QueryState, Store } from "@tidewire/live/replica";
import { useRef, useSyncExternalStore } from "react";

const NOTHING: Store<QueryState<never>> = { getSnapshot: () => IDLE, subscribe: () => () => {} };
const IDLE: QueryState<never> = { status: "pending", isStale: true };

export function useStore<T>({ subscribe, getSnapshot }: Store<T>): T {
  return useSyncExternalStore(subscribe, getSnapshot, getSnapshot);
}

export function useQueryState<T>(query: Query<T> | undefined): QueryState<T> {
  return useStore(query ?? (NOTHING as Store<QueryState<T>>));
}

/** The same, with a part of the data: what does not change that part does not render. */
export function useSelected<T, S>(query: Query<T> | undefined, select: ((data: T) => S) | undefined): QueryState<S> {
  const last = useRef<{ state: QueryState<T>; select: unknown; result: QueryState<S> } | undefined>(undefined);
  const { subscribe, getSnapshot } = query ?? (NOTHING as Store<QueryState<T>>);
  const selected = (): QueryState<S> => {
    const state = getSnapshot();
    if (!select) return state as unknown as QueryState<S>;
    const before = last.current;
    if (before?.state === state && before.select === select) return before.result;
    const { status, data, error, isStale } = state;
    const part = status === "success" ? select(data as T) : undefined;
    const was = before?.result;
    const isSame =
      was?.status === status && was.error === error && was.isStale === isStale && Object.is(was.data, part);
    const result = isSame ? was : { ...state, data: part };
    last.current = { state, select, result };
    return result;
  };
  return useStore({ subscribe, getSnapshot: selected });
}
