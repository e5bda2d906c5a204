/** The state of the connection, as a store that views subscribe to. */
import type { ConnectError } from "@connectrpc/connect";
import { apart } from "./apart.ts";

/** A value that changes, and word of it. */
export interface Store<T> {
  getSnapshot(): T;
  subscribe(onChange: () => void): () => void;
}

/**
 * - `idle`: nothing was called yet.
 * - `connecting`: being dialed, or waiting until `retryAt` (milliseconds since 1970).
 * - `open`: calls and watches go over the socket.
 * - `fallback`: WebSockets do not open here; calls go over HTTP, watches are polled. With an `error`
 *   nothing is reached that way either, for now.
 * - `unauthenticated`: the credential is refused; `wake()` tries again.
 * - `closed`: by `close()`, or by a server that this client cannot speak to.
 */
export interface ConnectionState {
  status: "idle" | "connecting" | "open" | "fallback" | "unauthenticated" | "closed";
  error?: ConnectError;
  retryAt?: number;
}

export class State implements Store<ConnectionState> {
  private value: ConnectionState = { status: "idle" };
  private readonly listeners: Set<() => void> = new Set();

  // Properties, so that they may be passed on without their object.
  readonly getSnapshot = (): ConnectionState => this.value;
  readonly subscribe = (onChange: () => void): (() => void) => {
    this.listeners.add(onChange);
    return () => void this.listeners.delete(onChange);
  };

  /** Shown in place of `connecting` while a fallback is used. */
  instead: ConnectionState | undefined;

  set(value: ConnectionState): void {
    if (this.instead && value.status === "connecting") value = this.instead;
    const { status, error, retryAt } = this.value;
    if (value.status === status && value.error === error && value.retryAt === retryAt) return;
    this.value = value;
    for (const listener of [...this.listeners]) apart(listener);
  }
}
