/** Errors of calls: as connect-web gives them, and what is known of a command that failed. */
import { Code, ConnectError } from "@connectrpc/connect";
import { type Call, ENDED } from "../session/call.ts";
import { type FailedEvent, NOT_RUN, UNKNOWN } from "../session/event.ts";
import type { Header } from "../wire/metadata.ts";
import { CODE_CANCELED, CODE_DEADLINE_EXCEEDED } from "../wire/code.ts";
import { toHeaders } from "./headers.ts";

const OUTCOME = Symbol.for("tidewire.outcome");

/**
 * Whether an error leaves open that a command ran: it was sent, and nobody knows what became of it.
 * Ask the server before you send it again.
 */
export function isOutcomeUnknown(error: unknown): boolean {
  return (error as { [OUTCOME]?: number } | undefined)?.[OUTCOME] === UNKNOWN;
}

/** Whether it is certain that no handler saw the call: sending it again is safe. */
export function isNotRun(error: unknown): boolean {
  return (error as { [OUTCOME]?: number } | undefined)?.[OUTCOME] === NOT_RUN;
}

export function withOutcome(error: ConnectError, outcome: number | undefined): ConnectError {
  if (outcome !== undefined) Object.defineProperty(error, OUTCOME, { value: outcome });
  return error;
}

/** The error that the callee, or the session, ended a call with, after the headers `before`. */
export function toError(event: FailedEvent, before: Header[] = []): ConnectError {
  const { meta, code, message, outcome } = event;
  const { headers = [], trailers = [], details = [] } = meta ?? {};
  const error = new ConnectError(message, code as Code, toHeaders(before, headers, trailers));
  error.details = details; // As connect-web gives them: undecoded, until somebody looks.
  return withOutcome(error, outcome);
}

/** The error of a call that this side gave up. */
export function abortError(reason: unknown, call: Call | undefined): ConnectError {
  return markAborted(ConnectError.from(reason, CODE_CANCELED), call);
}

/** Says of an error, if nobody did, what is known of the call that this side gave up. */
export function markAborted(error: ConnectError, call: Call | undefined): ConnectError {
  if (OUTCOME in error || (call && call.state !== ENDED && !call.isCancelled)) return error;
  if (!call?.wasSent) return withOutcome(error, NOT_RUN);
  const wasAborted = error.code === CODE_CANCELED || error.code === CODE_DEADLINE_EXCEEDED;
  return withOutcome(error, call.isCommand && wasAborted ? UNKNOWN : undefined);
}
