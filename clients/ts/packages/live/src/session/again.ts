/** A session that is lost: what may be asked again is, the rest ends (section 6.2). */
import { type Call, WAITING, WATCHING } from "./call.ts";
import { giveUp, mayRepeat, sendLater } from "./caller.ts";
import { CODE_UNAVAILABLE } from "../wire/code.ts";
import type { Session } from "./session.ts";


/** The peer knows nothing of what was sent in the session `was`. */
export function loseSession(session: Session, was: Uint8Array | undefined): void {
  const { slots, commands } = session;
  const waiting: Call[] = [];
  for (const call of session.sent()) {
    const { kind, isStreaming } = call.options;
    if (call.isCancelled) {
      slots.end(session, call);
    } else if (call.hasHead || isStreaming || (kind === "command" && !((was || call.key) && mayRepeat(session, call)))) {
      giveUp(session, call, CODE_UNAVAILABLE, "the connection was lost, and its session with it", false);
    } else {
      if (call.isCommand && was) call.key ??= { session: was, id: call.command };
      const wasWatching = call.state === WATCHING;
      slots.uncount(call, WAITING);
      call.command = 0;
      call.isRepeated = true;
      call.incoming = undefined;
      call.load();
      waiting.push(call);
      if (wasWatching && !call.isSuspect) {
        call.isSuspect = true;
        session.say({ type: "suspect", call });
      }
    }
  }
  slots.fit(session.peer!);
  commands.clear();
  session.again = [];
  session.later = [];
  sendLater(session, waiting);
}
