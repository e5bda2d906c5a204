/** `@tidewire/tanstack-query`: TanStack Query whose queries are told of changes. */
export { liveQueryOptions, type LiveQueryOptions } from "./options.ts";
export { withQueryClient } from "./with-query-client.ts";
