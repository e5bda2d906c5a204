/** Ids of commands: counted from 1, never reused, known to have ended up to `done` (section 6.4). */
import type { Hello } from "../wire/hello.ts";

export class Commands {
  private nextId = 1;
  private ended_: Set<number> = new Set();
  /** The highest id of which the callee has sent a frame. */
  heard = 0;
  /** Every id below it has ended for this side. */
  done = 1;
  /** Counts commands that were sent or have ended: what was asked for before is not to be kept. */
  writes = 0;
  /** The shortest time for which this side was told that keys are kept. */
  keysMs = 86_400_000;

  /** Whether the callee takes one more: not too far ahead of the last that it has answered. */
  hasRoom(peer: Hello): boolean {
    return this.nextId - Math.max(this.done - 1, this.heard) <= peer.repliesKeptMax + peer.callsMax;
  }

  take(): number {
    this.writes++;
    return this.nextId++;
  }

  ended(id: number): void {
    this.writes++;
    this.ended_.add(id);
    while (this.ended_.delete(this.done)) this.done++;
  }

  /** Another session begins its ids anew. */
  clear(): void {
    this.nextId = this.done = 1;
    this.heard = 0;
    this.ended_.clear();
  }
}
