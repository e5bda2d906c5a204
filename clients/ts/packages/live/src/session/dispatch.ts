/** What each kind of frame does, and where it may stand (section 1.1). */
import * as F from "../wire/frame.ts";
import type { Frame } from "../wire/frame.ts";
import { readMetadata } from "../wire/metadata.ts";
import * as R from "../wire/reason.ts";
import { onError, onReply, onStale } from "./answers.ts";
import { onRequest } from "./callee.ts";
import { onResume, onResumed } from "./resume.ts";
import type { Session } from "./session.ts";
import { onCallerCredit, onItems, onStop, onStreamEnd } from "./stream.ts";

/** Takes a frame: checks where it stands, then does what its kind says. */
export function dispatch(session: Session, frame: Frame): void {
  const { kind, stream } = frame;
  if (session.phase === "wait" && kind !== F.HELLO && kind !== F.GOAWAY) throw R.violation(R.MAGIC_REASON);
  if (kind === 0 || kind > F.DESCRIPTORS) return;
  const isOfCalls = kind >= F.REQUEST && kind <= F.STREAM_END;
  const isOfBoth = kind === F.CANCEL || kind === F.CREDIT;
  if (!isOfBoth && isOfCalls !== stream > 0) throw R.violation(R.MALFORMED);
  if (isOfCalls && frame.flags & F.ZSTD && kind !== F.ERROR && kind !== F.STREAM_END) {
    throw R.violation(R.FEATURE);
  }
  if (kind >= F.READY && kind !== F.SEEN) throw R.violation(R.FEATURE);
  ON[kind]?.(session, frame);
}

const ON: Partial<Record<number, (session: Session, frame: Frame) => void>> = {
  [F.HELLO]: (session, frame) => session.greet(frame),
  [F.AUTH]: (session, frame) => {
    const { code: refused, expires: expiresMs = 0, message = "" } = readMetadata(frame);
    session.emit({ type: "credential", expiresMs, refused, message });
  },
  [F.REQUEST]: onRequest,
  [F.REPLY]: onReply,
  [F.ERROR]: onError,
  [F.ITEMS]: onItems,
  [F.STREAM_END]: onStreamEnd,
  [F.CANCEL]: onStop,
  [F.CREDIT]: onCallerCredit,
  [F.PING]: (session, frame) => session.alive.ping(F.payloadOf(frame)),
  [F.PONG]: (session, frame) => session.alive.pong(session, F.payloadOf(frame)),
  [F.GOAWAY]: (session, frame) => session.goAway(frame),
  [F.STALE]: onStale,
  [F.RESUME]: onResume,
  [F.RESUMED]: onResumed,
  [F.SEEN]: () => {
    throw R.violation(R.MALFORMED); // It names watches of the peer's, which has none here.
  },
};
