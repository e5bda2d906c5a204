/** `useComputed`: a value made of several queries, shown once for all that changed together. */
import type { Get, QueryState } from "@tidewire/live/replica";
import { type DependencyList, useMemo } from "react";
import { useLiveClient } from "./provider.ts";
import { useQueryState } from "./store.ts";

/** `deps` are those of `useMemo`: what `compute` uses of the component. */
export function useComputed<T>(compute: (get: Get) => T, deps: DependencyList): QueryState<T> {
  const client = useLiveClient();
  return useQueryState(useMemo(() => client.computed(compute), [client, ...deps]));
}
