/** For TanStack Query without connect-query: options of a query that is watched. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { createConnectQueryKey } from "@connectrpc/connect-query-core";
import type { QueryClient, QueryFunctionContext } from "@tanstack/query-core";
import type { LiveTransport } from "@tidewire/live";
import { abortable, follow } from "./followers.ts";

export interface LiveQueryOptions<T> {
  queryKey: readonly unknown[];
  queryFn(context: QueryFunctionContext): Promise<T>;
  staleTime: number;
  structuralSharing: false;
}

/** What `useQuery`, `prefetchQuery` and the like of TanStack Query take. */
export function liveQueryOptions<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I>,
  { transport }: { transport: LiveTransport },
): LiveQueryOptions<MessageShape<O>> {
  const queryKey = createConnectQueryKey({ schema: method, input, transport, cardinality: "finite" });
  return {
    queryKey,
    queryFn: ({ client, signal }) =>
      abortable(follow(transport, client as QueryClient, queryKey, method, input), signal),
    staleTime: Infinity,
    // Equal answers are one object already.
    structuralSharing: false,
  };
}
