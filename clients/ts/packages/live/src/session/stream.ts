/** Items in both directions, and the credit that bounds them (section 4). */
import * as F from "../wire/frame.ts";
import type { Frame } from "../wire/frame.ts";
import { readItems } from "../wire/items.ts";
import { readMetadata } from "../wire/metadata.ts";
import * as R from "../wire/reason.ts";
import { numberOf, Writer } from "../wire/varint.ts";
import { openCall } from "./answers.ts";
import { type Call, CANCELLED, ENDED, SENT } from "./call.ts";
import type { Session } from "./session.ts";

const TURNS_BYTES = 32_768;

/** Credit of the connection, and the streams that have something to send. */
export class Flow {
  /** Received and not taken; taken and not credited; sent and not credited. */
  held = 0;
  owed = 0;
  outstanding = 0;
  line: Call[] = [];

  forget(): void {
    this.owed = this.outstanding = 0;
  }

  lineUp(call: Call): void {
    if (!call.outgoing || call.isInLine) return;
    call.isInLine = true;
    this.line.push(call);
  }

  /** A quarter of a window that is taken is given back. */
  consumed(session: Session, call: Call, bytes: number): void {
    const { incoming } = call;
    if (!incoming || call.state === ENDED) return; // Given back when it ended.
    incoming.consumed += bytes;
    const owed = incoming.consumed - incoming.returned;
    if (session.isLive && owed >= Math.ceil(session.own.streamCredit / 4)) {
      putCredit(session.control, call.stream, owed);
      incoming.returned = incoming.consumed;
    }
    this.giveBack(session, bytes);
  }

  giveBack(session: Session, bytes: number): void {
    this.held -= bytes;
    if (session.phase !== "open") return; // The next connection begins with what is held.
    this.owed += bytes;
    if (this.owed < Math.ceil(session.own.connectionCredit / 4)) return;
    putCredit(session.control, 0, this.owed);
    this.owed = 0;
  }

  /** A call is over: what was received and not taken is given back. */
  leave(session: Session, call: Call): void {
    const { incoming } = call;
    if (incoming) this.giveBack(session, incoming.received - incoming.consumed);
    call.incoming = undefined;
  }
}

function putCredit(writer: Writer, stream: number, bytes: number): void {
  const at = F.beginFrame(writer, F.CREDIT, stream, 0);
  writer.varint(bytes);
  F.endFrame(writer, at);
}

/** A turn of one frame for each stream, until enough is written. */
export function putTurns(session: Session): void {
  const { flow, main, peer } = session;
  const begin = main.at;
  const blocked: Call[] = [];
  while (flow.line.length && main.at - begin < TURNS_BYTES) {
    const call = flow.line.shift()!;
    const { outgoing, state } = call;
    if (!outgoing || state !== SENT) {
      call.isInLine = state < SENT;
      if (call.isInLine) blocked.push(call); // It waits to be sent.
      continue;
    }
    const chunk = flow.outstanding < peer!.connectionCredit ? outgoing.take(peer!.streamCredit) : undefined;
    if (chunk) {
      flow.outstanding += chunk.data.length;
      F.putFrame(main, F.ITEMS, call.stream, chunk.more ? F.MORE : 0, chunk.data);
    }
    if (outgoing.isDrained && outgoing.isFinished && !outgoing.isFinishSent) {
      outgoing.isFinishSent = true;
      F.putFrame(main, F.STREAM_END, call.stream);
    }
    if (call.wantsRoom && outgoing.waiting < TURNS_BYTES) {
      call.wantsRoom = false;
      session.emit({ type: "room", call });
    }
    call.isInLine = !outgoing.isDrained;
    if (call.isInLine) (chunk ? flow.line : blocked).push(call);
  }
  flow.line.push(...blocked);
}

export function onItems(session: Session, frame: Frame): void {
  const { flow, own } = session;
  const payload = F.payloadOf(frame);
  const size = payload.length;
  if (flow.held + flow.owed >= own.connectionCredit) throw R.violation(R.CREDIT_REASON);
  flow.held += size;
  if (frame.stream % 2 === 0) return flow.giveBack(session, size); // A call that was refused.
  const call = openCall(session, frame.stream);
  if (!call.hasHead) throw R.violation(R.UNEXPECTED);
  const incoming = (call.incoming ??= { received: 0, consumed: 0, returned: 0, pieces: [], pieceBytes: 0 });
  if (incoming.received - incoming.returned >= own.streamCredit) throw R.violation(R.CREDIT_REASON);
  incoming.received += size;
  const isMore = (frame.flags & F.MORE) > 0;
  if (isMore || incoming.pieceBytes) {
    if (!size) throw R.violation(R.MALFORMED);
    incoming.pieceBytes += size;
    if (incoming.pieceBytes > own.bodyMax) throw R.violation(R.TOO_LARGE);
    incoming.pieces.push(payload);
    // Taken at once: an item over the credit would never be whole. `bodyMax` bounds it.
    flow.consumed(session, call, size);
    const item = isMore ? undefined : joined(incoming);
    if (!call.isCancelled) session.emit({ type: "piece", call, bytes: size, item });
    return;
  }
  const items = readItems(payload);
  if (call.isCancelled) return flow.consumed(session, call, size);
  session.emit({ type: "items", call, items, bytes: size });
}

function joined(incoming: { pieces: Uint8Array[]; pieceBytes: number }): Uint8Array {
  const whole = new Uint8Array(incoming.pieceBytes);
  let at = 0;
  for (const piece of incoming.pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  incoming.pieces = [];
  incoming.pieceBytes = 0;
  return whole;
}

export function onStreamEnd(session: Session, frame: Frame): void {
  const meta = readMetadata(frame);
  if (frame.stream % 2 === 0) return;
  const call = openCall(session, frame.stream);
  if (!call.hasHead) throw R.violation(R.UNEXPECTED);
  const isHeard = !call.isCancelled;
  session.slots.terminated(session, call);
  if (isHeard) session.emit({ type: "end", call, meta });
}

/** The callee wants no more items. On stream 0, or on its own calls, there is nothing to cancel. */
export function onStop(session: Session, frame: Frame): void {
  if (frame.stream % 2 === 0) return;
  const call = openCall(session, frame.stream);
  const { outgoing } = call;
  if (!outgoing || outgoing.isFinishSent || outgoing.isFinished) return;
  outgoing.stop();
  session.flow.lineUp(call);
  if (call.state !== CANCELLED) session.emit({ type: "stop", call });
}

export function onCallerCredit(session: Session, frame: Frame): void {
  const amount = numberOf(F.payloadOf(frame));
  const { flow } = session;
  if (frame.stream === 0) {
    if (amount > flow.outstanding) throw R.violation(R.CREDIT_REASON);
    flow.outstanding -= amount;
  } else if (frame.stream % 2) {
    const call = openCall(session, frame.stream);
    if (frame.flags & F.END) throw R.violation(R.UNEXPECTED);
    call.outgoing?.credit(amount);
  }
}
