/** A session that is lost: what may be asked again is, the rest ends (section 6.2). */
import { suspect } from "./answers.ts";
import { type Call, WATCHING } from "./call.ts";
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
      giveUp(session, call, CODE_UNAVAILABLE, "the session was lost");
    } else {
      if (call.isCommand && was) call.key ??= { session: was, id: call.command };
      const wasWatching = call.state === WATCHING;
      slots.uncount(call);
      call.command = 0;
      call.isRepeated = true;
      call.incoming = undefined;
      call.load();
      waiting.push(call);
      if (wasWatching) suspect(session, call);
    }
  }
  slots.fit(session.peer!);
  commands.clear();
  session.again = [];
  session.later = [];
  sendLater(session, waiting);
}
