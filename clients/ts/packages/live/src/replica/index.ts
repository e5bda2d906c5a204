/** `@tidewire/live/replica`: queries whose data are kept, and current. */
export type { ConnectionState, Store } from "../socket/state.ts";
export { createLiveClient, type LiveClient, type LiveClientOptions, type MutateOptions, type QueryInfo, type QueryOptions } from "./client.ts";
export type { DataOf, Get } from "./computed.ts";
export type { OptimisticStore } from "./optimistic.ts";
export type { Query, QueryState } from "./query.ts";
