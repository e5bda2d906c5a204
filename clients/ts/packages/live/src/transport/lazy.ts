/**
 * What not every page needs is loaded when it is first used: calls with interceptors, calls with
 * streams, and HTTP in place of WebSockets.
 */
import { ConnectError } from "@connectrpc/connect";
import { NOT_RUN } from "../session/event.ts";
import { CODE_UNAVAILABLE } from "../wire/code.ts";
import { withOutcome } from "./errors.ts";

/** Loads once; what could not be loaded is tried again with the next use. */
function lazy<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined;
  return () =>
    (loading ??= load().catch((error) => {
      loading = undefined;
      throw withOutcome(ConnectError.from(error, CODE_UNAVAILABLE), NOT_RUN);
    }));
}

export const loadIntercepted: () => Promise<typeof import("./intercepted.ts")> = lazy(() => import("./intercepted.ts"));
export const loadStream: () => Promise<typeof import("./stream.ts")> = lazy(() => import("./stream.ts"));
export const loadFallback: () => Promise<typeof import("./fallback.ts")> = lazy(() => import("./fallback.ts"));
