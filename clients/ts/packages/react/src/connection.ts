/** Whether the page is connected, for a line that says so. */
import type { ConnectionState } from "@tidewire/live/replica";
import { useSyncExternalStore } from "react";
import { useLiveClient } from "./provider.ts";

export function useConnectionState(): ConnectionState {
  const { subscribe, getSnapshot } = useLiveClient().connection;
  return useSyncExternalStore(subscribe, getSnapshot, getSnapshot);
}
