/** Where a call stands. */

export const WAITING = 0;
export const SENT = 1;
export const WATCHING = 2;
export const CANCELLED = 3;
export const ENDED = 4;
/** A watch that was answered and is not wanted any more. */
export const DROPPED = 5;
