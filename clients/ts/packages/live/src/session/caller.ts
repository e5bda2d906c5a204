/** Sends requests: in which order, within which bounds, and what this side ends itself. */
import * as F from "../wire/frame.ts";
import { DURABLE_FEATURE, WATCH_FEATURE } from "../wire/kinds.ts";
import { COMMAND, KEY, putField, VALIDATOR } from "../wire/metadata.ts";
import { bytesOf, Writer } from "../wire/varint.ts";
import { type Call, CANCELLED, DROPPED, ENDED, WAITING, WATCHING } from "./call.ts";
import { NOT_RUN, UNKNOWN } from "./event.ts";
import { CODE_ABORTED, CODE_DEADLINE_EXCEEDED, CODE_FAILED_PRECONDITION, CODE_RESOURCE_EXHAUSTED } from "../wire/code.ts";
import type { Session } from "./session.ts";


/** Between two calls that are sent again after a lost session, in milliseconds. */
const SPACING = 1;

/** Sends what may be sent: first what is sent again at once, then what is new, then the rest. */
export function pump(session: Session): void {
  session.again = sendFrom(session, session.again);
  if (session.isDraining) return;
  session.queue = sendFrom(session, session.queue);
  session.later = sendFrom(session, session.later, SPACING);
}

/** Sends what has room, and says what has not: it waits in its order, others pass it. */
function sendFrom(session: Session, line: Call[], spacing = 0): Call[] {
  const { slots, commands } = session;
  const peer = session.peer!;
  const held: Call[] = [];
  let at = 0;
  for (; at < line.length && slots.open < peer.callsMax && !(spacing && session.laterAt > session.now); at++) {
    const call = line[at]!;
    if (call.state !== WAITING) continue;
    if (slots.has(call) && (!call.isCommand || call.command || commands.hasRoom(peer))) {
      send(session, call);
      session.laterAt += spacing;
    } else {
      held.push(call);
    }
  }
  line.splice(0, at);
  return held.length ? held.concat(line) : line;
}

/** Puts calls into the line that is sent after a random delay and at a bounded rate (6.2). */
export function sendLater(session: Session, calls: Call[]): void {
  if (!calls.length) return;
  session.later.push(...calls);
  session.laterAt = session.now + session.options.random() * 500;
}

function send(session: Session, call: Call): void {
  const { main, commands, features } = session;
  const { options } = call;
  const peer = session.peer!;
  if (call.key && options.kind === "command" && !mayRepeat(session, call)) {
    call.wasSent ||= call.isRepeated;
    const [code, text] = call.wasSent
      ? [CODE_ABORTED, "the command may have run before, and no key can tell"]
      : [CODE_FAILED_PRECONDITION, "the server keeps no keys of commands"];
    failed(session, call, code, text);
    return session.slots.end(session, call);
  }
  const size = options.body?.length ?? 0;
  if (size > peer.bodyMax) return tooLarge(session, call, "request has", size, peer.bodyMax);
  if (call.isCommand && !call.command) {
    call.command = commands.take();
    call.firstSent ??= session.now;
  }
  const begin = main.at;
  const hasAll = !call.outgoing;
  const watch = hasAll && features & WATCH_FEATURE ? (options.watch ?? 0) : 0;
  session.slots.begin(call);
  const left = call.deadline === undefined ? 0 : Math.max(1, Math.ceil(call.deadline - session.now));
  const at = F.beginFrame(main, F.REQUEST, call.stream, (hasAll ? F.END : 0) | watch, left);
  session.methods.put(main, options.path, peer.methodsMax);
  if (call.command) {
    const ids = new Writer();
    ids.varint(call.command);
    ids.varint(commands.done);
    putField(main, COMMAND, ids.take());
  }
  if (call.validator) putField(main, VALIDATOR, bytesOf(call.validator)!);
  if (call.key && features & DURABLE_FEATURE) {
    const key = new Writer();
    key.bytes(call.key.session);
    key.varint(call.key.id);
    putField(main, KEY, key.take());
  }
  if (options.headers) main.bytes(options.headers);
  const metadata = main.at - at - 16;
  if (metadata > peer.metadataMax) {
    main.at = begin; // The number of a method that was named here is taken back with it.
    session.methods.clear();
    return tooLarge(session, call, "headers have", metadata, peer.metadataMax);
  }
  F.endMetadata(main, at);
  main.bytes(call.body);
  F.endFrame(main, at);
  call.nth = session.requests++;
  call.wasSent = true;
  options.sent?.(call, session.id);
  session.flow.lineUp(call);
}

/** Whether its key lets a command be sent again: keys are in force, and not older than half their time. */
export function mayRepeat(session: Session, call: Call): boolean {
  const age = session.now - (call.firstSent ?? session.now);
  return (session.features & DURABLE_FEATURE) > 0 && age <= session.commands.keysMs / 2;
}

function tooLarge(session: Session, call: Call, what: string, size: number, max: number): void {
  failed(session, call, CODE_RESOURCE_EXHAUSTED, `the ${what} ${size} bytes, the server takes ${max}`);
  session.slots.end(session, call);
}

/** The application wants no more of a call. */
export function cancel(session: Session, call: Call): void {
  const { state } = call;
  if (state === ENDED || call.isCancelled) return;
  session.timed.delete(call);
  if (state === WAITING || (session.phase !== "open" && !call.runsOn)) {
    // What waits to be sent again may have run; nobody wants to know.
    return session.slots.end(session, call);
  }
  call.state = state === WATCHING ? DROPPED : CANCELLED;
  if (session.isLive) tellCancelled(session, call);
}

/** Asks the callee to end a call. */
export function tellCancelled(session: Session, call: Call): void {
  if (call.state === DROPPED) session.unwatch.add(call.stream);
  else F.putFrame(session.main, F.CANCEL, call.stream);
  call.outgoing?.stop();
}

/** Ends calls whose deadline has passed. */
export function expire(session: Session): void {
  if (session.timedAt > session.now) return;
  session.timedAt = Infinity;
  for (const call of session.timed) {
    if (call.deadline! > session.now) {
      session.timedAt = Math.min(session.timedAt, call.deadline!);
      continue;
    }
    failed(session, call, CODE_DEADLINE_EXCEEDED, "the operation timed out");
    cancel(session, call);
  }
}

/** Tells that a call ended without an answer, and what is known of it. */
export function failed(
  session: Session,
  call: Call,
  code: number,
  message: string,
  isLost = false,
): void {
  session.emit({
    type: "failed",
    call,
    code,
    // Of one that an earlier page sent this side knows nothing; under its key it is sent again.
    outcome: call.wasSent ? UNKNOWN : call.isRepeated ? undefined : NOT_RUN,
    message,
    isWatched: false,
    isSuspect: false,
    meta: undefined,
    isLost,
  });
}

/** Ends calls because their session, or the attempt to connect, is over. */
export function endAll(
  session: Session,
  calls: Call[],
  code: number,
  message: string,
  isLost = false,
): void {
  for (const call of calls) giveUp(session, call, code, message, isLost);
}

export function giveUp(
  session: Session,
  call: Call,
  code: number,
  message: string,
  isLost = false,
): void {
  if (call.state !== ENDED && !call.isCancelled) {
    const isUnknown = call.wasSent && call.isCommand;
    failed(session, call, isUnknown ? CODE_ABORTED : code, message, isLost);
  }
  session.slots.end(session, call);
}
