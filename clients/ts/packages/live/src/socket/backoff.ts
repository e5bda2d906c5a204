/** When to dial again: after 0.5 s, doubling to 30 s, with full jitter. */

const FIRST = 500;
const LAST = 30_000;
/** A connection that held for so long, or was of use, resets the backoff; a server that accepts and ends does not. */
const HELD = 5_000;
const BETWEEN = 1_000;
/** A connection on which a session was resumed, or a call answered. */
export const OF_USE: number = -Infinity;

export class Backoff {
  private readonly random: () => number;
  private connectedAt: number | undefined;
  private begunAt = 0;
  failures = 0;

  constructor(random: () => number) {
    this.random = random;
  }

  reset(): void {
    this.failures = 0;
  }

  begin(now: number): void {
    this.begunAt = now;
    this.connectedAt = undefined;
  }

  /** Since when, or `OF_USE`. */
  connected(since: number): void {
    this.connectedAt = since;
  }

  /** The soonest moment at which a call may dial, whatever the backoff says. */
  get soonest(): number {
    return this.begunAt + BETWEEN;
  }

  /** The connection is lost, or was never there: the moment of the next attempt. */
  next(now: number, after: number): number {
    if (this.connectedAt !== undefined && now - this.connectedAt >= HELD) this.failures = 0;
    const delay = this.random() * Math.min(LAST, FIRST * 2 ** Math.min(this.failures, 10));
    this.failures++;
    return now + Math.max(after, delay);
  }
}
