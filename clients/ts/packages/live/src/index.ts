/** `@tidewire/live`: a ConnectRPC transport over one WebSocket, whose queries can be watched. */
export type { GetHeaders, Why } from "./socket/credentials.ts";
export type { ConnectionState, Store } from "./socket/state.ts";
export { isNotRun, isOutcomeUnknown } from "./transport/errors.ts";
export { createLiveTransport, type LiveOptions, type LiveTransport, type Watcher } from "./transport/transport.ts";
export type { WatchOptions } from "./transport/watches.ts";
