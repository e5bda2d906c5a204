/**
 * What not every page needs is loaded when it is first used: calls with interceptors, calls with
 * streams, and HTTP in place of WebSockets.
 */
import { ConnectError } from "@connectrpc/connect";
import { NOT_RUN } from "../session/event.ts";
import { CODE_DEADLINE_EXCEEDED, CODE_UNAVAILABLE } from "../wire/code.ts";
import { abortError, withOutcome } from "./errors.ts";

/** Loads once; what could not be loaded is tried again with the next use. */
function lazy<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined;
  return () =>
    (loading ??= load().catch((error) => {
      loading = undefined;
      throw withOutcome(ConnectError.from(error, CODE_UNAVAILABLE), NOT_RUN);
    }));
}

/** Waits for what is loaded no longer than its call may last. */
export function whileAllowed<T>(loading: Promise<T>, signal: AbortSignal | undefined, timeoutMs: number | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = (reason: unknown) => reject(abortError(reason, undefined));
    const abort = () => end(signal!.reason);
    const timer = timeoutMs! > 0 ? setTimeout(end, timeoutMs, new ConnectError("timed out", CODE_DEADLINE_EXCEEDED)) : undefined;
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    loading.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    });
  });
}

export const loadInterceptors: () => Promise<typeof import("./interceptors.ts")> = lazy(() => import("./interceptors.ts"));
export const loadStream: () => Promise<typeof import("./stream.ts")> = lazy(() => import("./stream.ts"));
export const loadFallback: () => Promise<typeof import("./fallback.ts")> = lazy(() => import("./fallback.ts"));
