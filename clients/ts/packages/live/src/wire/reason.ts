/** Why a connection ends (docs/live-protocol.md, section 8), and the error that carries it. */

export const DRAIN = 0;
export const MAGIC_REASON = 1;
export const VERSION = 2;
export const FEATURE = 3;
export const TOO_LARGE = 4;
export const MALFORMED = 5;
export const METADATA_MAX = 6;
export const UNEXPECTED = 7;
export const UNKNOWN_STREAM = 8;
export const STREAM_IN_USE = 9;
export const STREAM_NUMBER = 10;
export const CALLS_MAX = 11;
export const CREDIT_REASON = 12;
export const HANDSHAKE_TIMEOUT = 17;
export const KEEP_ALIVE = 18;
export const UNAUTHENTICATED_REASON = 19;
export const INTERNAL = 21;
export const BYE = 22;
export const TAKEN_OVER = 23;

/** A rule that the peer broke. The number is all that is sent. */
export class Violation extends Error {
  readonly reason: number;

  constructor(reason: number) {
    super(`live protocol: reason ${reason}`);
    this.reason = reason;
  }
}

export function violation(reason: number): Violation {
  return new Violation(reason);
}

/** The connection ends, the session stays. */
export function parks(reason: number): boolean {
  return reason === HANDSHAKE_TIMEOUT || reason === KEEP_ALIVE || reason === TAKEN_OVER;
}

/** A client may dial again by itself; 19 needs another credential. A number not listed is like 21. */
export function allowsAgain(reason: number): boolean {
  return reason === DRAIN || parks(reason) || reason === INTERNAL || reason > TAKEN_OVER;
}
