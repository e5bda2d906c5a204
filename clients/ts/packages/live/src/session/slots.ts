/** Stream numbers as slots of a table: the one freed last is taken first (section 3.1). */
import { CREDIT, END, putFrame } from "../wire/frame.ts";
import type { Hello } from "../wire/hello.ts";
import { type Call, CANCELLED, ENDED, SENT, WATCHING } from "./call.ts";
import type { Session } from "./session.ts";

const boundOf = (peer: Hello): number => peer.callsMax + peer.watchesMax;
const NOTHING = new Uint8Array([0]);

export class Slots {
  private table: (Call | undefined)[] = [];
  private free: number[] = [];
  /** Calls that count against `calls_max`: sent, and not answered as a watch. */
  open = 0;

  at(stream: number): Call | undefined {
    return stream % 2 ? this.table[(stream - 1) / 2] : undefined;
  }

  *all(): Generator<Call> {
    for (const call of this.table) if (call) yield call;
  }

  /** Whether the callee takes this call now: it is not one too many, and has a slot, or finds one. */
  hasRoom(call: Call, peer: Hello): boolean {
    const isFree = call.stream > 0 || this.free.length > 0 || this.table.length < boundOf(peer);
    return isFree && this.open < peer.callsMax;
  }

  /** Another session begins: calls whose slots it does not have take others when they are sent. */
  fit(peer: Hello): void {
    const bound = boundOf(peer);
    for (const call of this.table.splice(bound)) if (call) call.stream = 0;
    this.free = this.free.filter((slot) => slot < bound);
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
  uncount(call: Call, state: number): void {
    if (this.counts(call)) this.open--;
    call.state = state;
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
