/** Queries that suspend until they have data, once: with data a component never waits again. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { DataOf, Query } from "@tidewire/live/replica";
import { useMemo } from "react";
import { useLiveClient } from "./provider.ts";
import { useQueryState, useStore } from "./store.ts";

export interface SuspenseResult<T> {
  data: T;
  isStale: boolean;
}

export function useSuspenseQuery<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I>,
): SuspenseResult<MessageShape<O>> {
  const query = useLiveClient().query(method, input);
  const state = useQueryState(query);
  if (state.status === "success") return state as SuspenseResult<MessageShape<O>>;
  throw state.error ?? waitFor(query);
}

/** Several queries, asked for at once. */
export function useSuspenseQueries<const Q extends readonly Query<unknown>[]>(queries: Q): DataOf<Q> {
  // One subscription for all; the state is read below.
  const all = useMemo(
    () => ({
      subscribe: (onChange: () => void) => {
        const ends = queries.map((query) => query.subscribe(onChange));
        return () => ends.forEach((end) => end());
      },
      getSnapshot: snapshots(queries),
    }),
    queries,
  );
  useStore(all);
  const states = queries.map((query) => query.getSnapshot());
  const waiting = queries.filter((_, at) => states[at]!.status === "pending").map(waitFor);
  const failed = states.find(({ status }) => status === "error");
  if (failed) throw failed.error;
  if (waiting.length) throw Promise.all(waiting);
  return states.map(({ data }) => data) as DataOf<Q>;
}

/** A snapshot of several queries that stays the same while theirs do. */
function snapshots(queries: readonly Query<unknown>[]): () => readonly unknown[] {
  let last: readonly unknown[] = [];
  return () => {
    const now = queries.map((query) => query.getSnapshot());
    if (now.length !== last.length || now.some((state, at) => state !== last[at])) last = now;
    return last;
  };
}

const waits = new WeakMap<Query<any>, Promise<unknown>>();

/** What to throw: a promise that is the same until the query has data. */
function waitFor(query: Query<any>): Promise<unknown> {
  let wait = waits.get(query);
  if (!wait) {
    const done = () => void waits.delete(query);
    waits.set(query, (wait = query.fetch().then(done, done)));
  }
  return wait;
}
