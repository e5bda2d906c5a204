/** What a callee answers: replies, errors, values of watches, and word that they are stale. */
import * as F from "../wire/frame.ts";
import type { Frame } from "../wire/frame.ts";
import { type Metadata, readMetadata } from "../wire/metadata.ts";
import * as R from "../wire/reason.ts";
import { readNumbers } from "../wire/varint.ts";
import { type Call, ENDED, WAITING, WATCHING } from "./call.ts";
import { BEHIND, NOT_RUN, UNKNOWN } from "./event.ts";
import type { Session } from "./session.ts";

/** The call whose answer this is. */
export function openCall(session: Session, stream: number): Call {
  const call = session.slots.at(stream);
  if (!call || call.state === WAITING || call.state === ENDED || !session.isLive) {
    throw R.violation(R.UNKNOWN_STREAM);
  }
  const { commands } = session;
  commands.heard = Math.max(commands.heard, call.command);
  return call;
}

export function onReply(session: Session, frame: Frame): void {
  const { flags, stream } = frame;
  if (stream % 2 === 0) throw R.violation(R.STREAM_NUMBER);
  if (flags & F.HTTP) throw R.violation(R.FEATURE);
  const meta = readMetadata(frame);
  const call = openCall(session, stream);
  const payload = F.payloadOf(frame);
  const isEnd = (flags & F.END) > 0;
  const isWatched = (flags & F.WATCHED) > 0;
  const isUnchanged = (flags & F.UNCHANGED) > 0;
  const isSuspect = isWatched && (flags & F.SUSPECT) > 0;
  const isLarge = isWatched && (flags & F.MORE) > 0;
  if (call.hasHead) throw R.violation(R.UNEXPECTED);
  if ((isUnchanged && payload.length) || (isEnd && isWatched)) throw R.violation(R.MALFORMED);
  checkWatched(call, isWatched, isSuspect, meta);
  const mayHavePayload = isEnd || (isWatched && !isLarge);
  if (payload.length && !mayHavePayload) throw R.violation(R.MALFORMED);
  if (!isEnd && !isWatched && call.state === WATCHING) throw R.violation(R.UNEXPECTED);
  if (isUnchanged && call.validator === undefined) throw R.violation(R.MALFORMED);
  const isHeard = !call.isCancelled;
  const then = isEnd ? "nothing" : isWatched ? "watch" : "items";
  if (isEnd) {
    session.slots.terminated(session, call);
  } else if (isWatched) {
    granted(session, call, meta.validator!, isSuspect);
  } else {
    call.hasHead = true;
  }
  if (isHeard) {
    session.emit({ type: "reply", call, payload, meta, then, isUnchanged, isSuspect, isLarge });
  }
}

export function onError(session: Session, frame: Frame): void {
  const { flags, stream } = frame;
  if (stream % 2 === 0) throw R.violation(R.STREAM_NUMBER);
  const meta = readMetadata(frame);
  const call = openCall(session, stream);
  const isWatched = (flags & F.WATCHED) > 0;
  const isSuspect = isWatched && (flags & F.SUSPECT) > 0;
  if (meta.code === undefined) throw R.violation(R.MALFORMED);
  checkWatched(call, isWatched, isSuspect, meta);
  const isHeard = !call.isCancelled;
  let { outcome } = meta;
  if (outcome !== undefined && (outcome < NOT_RUN || outcome > BEHIND)) outcome = UNKNOWN;
  if (call.isRepeated && (outcome === NOT_RUN || outcome === BEHIND)) outcome = UNKNOWN;
  if (isWatched) granted(session, call, meta.validator!, isSuspect);
  else session.slots.terminated(session, call);
  if (!isHeard) return;
  const code = meta.code >= 1 && meta.code <= 16 ? meta.code : 2;
  const { message = "" } = meta;
  session.emit({ type: "failed", call, code, outcome, message, isWatched, isSuspect, meta, isLost: false });
}

function checkWatched(call: Call, isWatched: boolean, isSuspect: boolean, meta: Metadata): void {
  if (!isWatched) return;
  const { watch } = call.options;
  const isNotify = watch === F.NOTIFY;
  const isSecond = isNotify && call.state === WATCHING;
  if (!watch || call.isStream || isSecond || (isNotify && isSuspect)) throw R.violation(R.UNEXPECTED);
  if (meta.validator === undefined) throw R.violation(R.MALFORMED);
}

function granted(session: Session, call: Call, validator: string, isSuspect: boolean): void {
  call.validator = validator;
  call.isSuspect = isSuspect;
  if (call.isCancelled) return;
  session.slots.granted(call);
  session.timed.delete(call); // A deadline ends with the first answer.
  if (call.options.watch === F.VALUES && !call.holdsSeen) session.seen.add(call.stream);
}

export function onStale(session: Session, frame: Frame): void {
  const isKept = (frame.flags & F.KEEP) > 0;
  for (const stream of readNumbers(F.payloadOf(frame))) {
    if (stream % 2 === 0) throw R.violation(R.MALFORMED);
    const call = session.slots.at(stream);
    const isWatching = call?.state === WATCHING;
    if (!call || (!isWatching && !call.isCancelled)) throw R.violation(R.UNKNOWN_STREAM);
    if (!isKept) {
      session.slots.end(session, call);
      if (isWatching) session.emit({ type: "stale", call });
      continue;
    }
    if (!isWatching) continue;
    if (call.options.watch === F.NOTIFY) throw R.violation(R.UNEXPECTED);
    suspect(session, call);
  }
}

/** What is shown of a watch passes as current no more. */
export function suspect(session: Session, call: Call): void {
  if (call.isSuspect) return;
  call.isSuspect = true;
  session.emit({ type: "suspect", call });
}
