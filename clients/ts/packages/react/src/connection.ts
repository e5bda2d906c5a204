/** Whether the page is connected, for a line that says so. */
import type { ConnectionState } from "@tidewire/live/replica";
import { useLiveClient } from "./provider.ts";
import { useStore } from "./store.ts";

export function useConnectionState(): ConnectionState {
  return useStore(useLiveClient().connection);
}
