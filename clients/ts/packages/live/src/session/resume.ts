/** After reconnecting each side lists its open calls once, the other says which go on (6.1). */
import * as F from "../wire/frame.ts";
import type { Frame } from "../wire/frame.ts";
import * as R from "../wire/reason.ts";
import { bytesOf, Reader, Writer } from "../wire/varint.ts";
import { suspect } from "./answers.ts";
import { type Call, WAITING, WATCHING } from "./call.ts";
import { giveUp, sendLater, tellCancelled } from "./caller.ts";
import { CODE_UNAVAILABLE } from "../wire/code.ts";
import type { Session } from "./session.ts";


/** Lists the calls of this side that were sent. */
export function putResume(session: Session): void {
  session.listed = [...session.slots.all()].filter((call) => call.state !== WAITING);
  const body = new Writer();
  body.varint(session.flow.held);
  body.varint(session.requests);
  body.varint(session.listed.length);
  let previous = 0;
  for (const call of session.listed) {
    body.varint(call.stream - previous);
    previous = call.stream;
    if (call.isStream) {
      body.byte(2);
      body.varint(call.nth);
      body.byte(call.hasHead ? 1 : 0);
      body.varint(call.incoming?.received ?? 0);
      body.varint(call.incoming?.returned ?? 0);
    } else if (call.state === WATCHING) {
      body.byte(1);
      body.bytes(bytesOf(call.validator!)!);
    } else {
      body.byte(0);
      body.varint(call.nth);
    }
  }
  putParts(session, F.RESUME, body.take());
}

function putParts(session: Session, kind: number, payload: Uint8Array): void {
  let at = 0;
  for (; payload.length - at > F.PAYLOAD_MAX; at += F.PAYLOAD_MAX) {
    F.putFrame(session.control, kind, 0, F.MORE, payload.subarray(at, at + F.PAYLOAD_MAX));
  }
  F.putFrame(session.control, kind, 0, 0, payload.subarray(at));
}

/** The payload of frames that belong together; undefined while more is to come. */
function whole(session: Session, frame: Frame, isDue: boolean): Uint8Array | undefined {
  if (!isDue || session.phase !== "open") throw R.violation(R.UNEXPECTED);
  const { parts } = session;
  if (parts && parts.kind !== frame.kind) throw R.violation(R.MALFORMED);
  const all = parts?.payload ?? new Writer();
  all.bytes(F.payloadOf(frame));
  session.parts = frame.flags & F.MORE ? { kind: frame.kind, payload: all } : undefined;
  return session.parts ? undefined : all.take();
}

/** The peer lists its own calls: none of them is held here. */
export function onResume(session: Session, frame: Frame): void {
  const payload = whole(session, frame, !session.isPeerLive);
  if (!payload) return;
  const reader = new Reader(payload);
  session.flow.outstanding = reader.varint();
  reader.varint();
  const entries = reader.varint();
  if (entries > payload.length) throw R.violation(R.MALFORMED);
  session.isPeerLive = true;
  putParts(session, F.RESUMED, new Uint8Array(Math.ceil(entries / 8)));
  if (session.isLive) session.connected(true);
}

/** Which of the calls that were listed go on. */
export function onResumed(session: Session, frame: Frame): void {
  const payload = whole(session, frame, !session.isLive);
  if (!payload) return;
  const reader = new Reader(payload);
  const bits = reader.take(Math.ceil(session.listed.length / 8)).slice();
  session.isLive = true;
  // What was to be sent again when the connection was lost still is.
  const again = session.again.filter((call) => call.state === WAITING);
  const later: Call[] = [];
  session.listed.forEach((call, index) => {
    const goesOn = (bits[index >> 3]! >> (index & 7)) & 1;
    if (goesOn) {
      const isStream = call.isStream;
      const flags = isStream ? reader.byte() : 0;
      const received = isStream ? reader.varint() : 0;
      goOn(session, call, flags, received, isStream ? reader.varint() : 0);
    } else {
      startOver(session, call, again, later);
    }
  });
  reader.done();
  session.listed = [];
  // Commands in the order of their ids, since one that comes after later ones counts as forgotten.
  again.sort((one, other) => rank(one) - rank(other) || one.stream - other.stream);
  session.again = again;
  sendLater(session, later);
  if (session.isPeerLive) session.connected(true);
}

const rank = (call: Call): number => call.command || Infinity;

function goOn(session: Session, call: Call, flags: number, received: number, credited: number): void {
  if (call.outgoing) {
    call.outgoing.rewind(received, credited);
    call.outgoing.isFinishSent = (flags & 2) > 0;
    session.flow.lineUp(call);
  }
  if (call.isCancelled) return tellCancelled(session, call);
  if (!call.isSuspect || call.state !== WATCHING) return;
  call.isSuspect = false;
  session.emit({ type: "confirmed", call });
}

/** The callee does not hold the call: it never came, or its answer was lost. */
function startOver(session: Session, call: Call, again: Call[], later: Call[]): void {
  if (call.isCancelled) return session.slots.end(session, call);
  const { isStreaming } = call.options;
  if (call.hasHead || (isStreaming && call.outgoing!.credited)) {
    return giveUp(session, call, CODE_UNAVAILABLE, "the server does not hold the stream any more");
  }
  if (isStreaming) call.outgoing!.rewind(0, 0);
  else call.load();
  const wasWatching = call.state === WATCHING;
  session.slots.uncount(call);
  if (!wasWatching) {
    again.push(call);
    return;
  }
  later.push(call);
  suspect(session, call);
}
