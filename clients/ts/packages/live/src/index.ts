/** `@tidewire/live`: a ConnectRPC transport over one WebSocket, whose queries can be watched. */
export type { GetHeaders, Why } from "./socket/credentials.ts";
export type { ConnectionState, Store } from "./socket/state.ts";
export { createLiveTransport, isNotRun, isOutcomeUnknown } from "./core.ts";
export type { LiveOptions, LiveTransport, Watcher } from "./transport/transport.ts";
export type { WatchOptions } from "./transport/watches.ts";
