/** Stream numbers as slots of a table: the one freed last is taken first (section 3.1). */
import { CREDIT, END, putFrame } from "../wire/frame.ts";
import type { Hello } from "../wire/hello.ts";
import { type Call, CANCELLED, ENDED, SENT, WAITING, WATCHING } from "./call.ts";
import type { Session } from "./session.ts";

const NOTHING = new Uint8Array([0]);

export class Slots {
  private table: (Call | undefined)[] = [];
  private free: number[] = [];
  private slotsMax = 0;
  /** Calls that count against `calls_max`: sent, and not answered as a watch. */
  open = 0;

  at(stream: number): Call | undefined {
    return stream % 2 ? this.table[(stream - 1) / 2] : undefined;
  }

  *all(): Generator<Call> {
    for (const call of this.table) if (call) yield call;
  }

  /** Whether the call has a slot, or finds one that the callee has, too. */
  has(call: Call): unknown {
    return call.stream || this.free.length || this.table.length < this.slotsMax;
  }

  /** Another session begins: calls whose slots it does not have take others when they are sent. */
  fit(peer: Hello): void {
    this.slotsMax = peer.callsMax + peer.watchesMax;
    for (const call of this.table.splice(this.slotsMax)) if (call) call.stream = 0;
    this.free = this.free.filter((slot) => slot < this.slotsMax);
  }

  /** Gives a call its slot, if it has none, and counts it. */
  begin(call: Call): void {
    if (!call.stream) {
      const slot = this.free.pop() ?? this.table.length;
      this.table[slot] = call;
      call.stream = 2 * slot + 1;
    }
    call.state = SENT;
    this.open++;
  }

  /** The call is answered as a watch, and counts no more. */
  granted(call: Call): void {
    if (call.state === SENT) {
      call.state = WATCHING;
      this.open--;
    }
  }

  /** The terminal frame came: what is known of the stream is told, and its slot is free. */
  terminated(session: Session, call: Call): void {
    if (call.isStream && session.phase === "open") {
      putFrame(session.control, CREDIT, call.stream, END, NOTHING);
    }
    this.end(session, call);
  }

  /** Frees the slot of a call that is over. */
  end(session: Session, call: Call): void {
    if (call.state === ENDED) return;
    session.flow.leave(session, call);
    session.unwatch.delete(call.stream);
    session.seen.delete(call.stream);
    session.timed.delete(call);
    if (call.command) session.commands.ended(call.command);
    if (this.counts(call)) this.open--;
    call.state = ENDED;
    if (!call.stream) return;
    const slot = (call.stream - 1) / 2;
    this.table[slot] = undefined;
    this.free.push(slot);
  }

  /** After a loss nothing is sent; what is sent again is counted again. */
  uncount(call: Call): void {
    if (this.counts(call)) this.open--;
    call.state = WAITING;
  }

  clear(): void {
    this.table = [];
    this.free = [];
    this.open = 0;
  }

  private counts(call: Call): boolean {
    return call.state === SENT || call.state === CANCELLED;
  }
}
