/** What a session tells its owner. A cancelled call is not heard of. */
import type { Hello } from "../wire/hello.ts";
import type { Metadata } from "../wire/metadata.ts";
import type { Call } from "./call.ts";

export const NOT_RUN = 1;
export const UNKNOWN = 2;
export const BEHIND = 4;

export interface ReplyEvent {
  type: "reply";
  call: Call;
  payload: Uint8Array;
  meta: Metadata;
  then: "nothing" | "watch" | "items";
  isUnchanged: boolean;
  isSuspect: boolean;
  /** The answer is over 64 KiB: its validator names it, and it is asked for by a call of its own. */
  isLarge: boolean;
}

export interface FailedEvent {
  type: "failed";
  call: Call;
  code: number;
  outcome: number | undefined;
  message: string;
  /** The answer of a watch, which goes on. */
  isWatched: boolean;
  isSuspect: boolean;
  meta: Metadata | undefined;
  /** The session ended, not the call: who still wants it asks again. */
  isLost: boolean;
}

export type CallEvent =
  | ReplyEvent
  | FailedEvent
  | { type: "items"; call: Call; items: Uint8Array[]; bytes: number }
  | { type: "piece"; call: Call; bytes: number; item: Uint8Array | undefined }
  | { type: "end"; call: Call; meta: Metadata }
  | { type: "stop" | "room" | "stale" | "suspect" | "confirmed"; call: Call };

export type SessionEvent =
  | CallEvent
  | { type: "connected"; resumed: boolean; hello: Hello }
  /** Of the connection, not of the session; `isRefused` when it was never open. */
  | { type: "lost"; isRefused: boolean; reason: number | undefined; message: string }
  | { type: "unsure" | "sure" }
  | { type: "closed"; reason: number; message: string }
  | { type: "draining"; graceMs: number; afterMs: number }
  | { type: "credential"; expiresMs: number; refused: number | undefined; message: string };
