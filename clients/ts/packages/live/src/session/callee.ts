/** Calls of the server: there is nothing here that it could call. */
import * as F from "../wire/frame.ts";
import type { Frame } from "../wire/frame.ts";
import { CODE, OUTCOME, putNumber, readMetadata } from "../wire/metadata.ts";
import * as R from "../wire/reason.ts";
import { NOT_RUN } from "./event.ts";
import { CODE_UNIMPLEMENTED } from "../wire/code.ts";
import type { Session } from "./session.ts";


export function onRequest(session: Session, frame: Frame): void {
  const { stream } = frame;
  if (stream % 2 || stream > 2 * session.own.callsMax) throw R.violation(R.STREAM_NUMBER);
  readMetadata(frame);
  const { main } = session;
  const at = F.beginFrame(main, F.ERROR, stream, 0);
  putNumber(main, CODE, CODE_UNIMPLEMENTED);
  putNumber(main, OUTCOME, NOT_RUN);
  F.endMetadata(main, at);
  F.endFrame(main, at);
}
