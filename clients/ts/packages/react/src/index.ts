/** `@tidewire/react`: hooks whose data are always current. */
export { HydrationBoundary, LiveProvider, useLiveClient } from "./provider.ts";
export { skipToken, type QueryHookOptions, type QueryResult, useQuery } from "./query.ts";
export { useComputed } from "./computed.ts";
export { useSuspenseQueries, useSuspenseQuery, type SuspenseResult } from "./suspense.ts";
export { type MutationHookOptions, type MutationResult, useMutation } from "./mutation.ts";
export { useConnectionState } from "./connection.ts";
