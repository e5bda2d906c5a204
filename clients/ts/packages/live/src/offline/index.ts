/** `@tidewire/live/offline`: data that outlive the page, and commands made without a connection. */
export { createOffline, type Offline, type OfflineOptions } from "./offline.ts";
export type { Outcome, OutboxEntry } from "./outbox.ts";
export { indexedDbStorage, type OfflineStorage } from "./storage.ts";
