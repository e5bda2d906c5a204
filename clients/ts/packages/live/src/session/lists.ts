/** Numbers that are gathered and written as one frame. */
import * as F from "../wire/frame.ts";
import { putNumbers } from "../wire/varint.ts";
import type { Session } from "./session.ts";

/** Of one frame, so that it is never too long. */
const NUMBERS_MAX = 8_192;

export function putList(session: Session, kind: number, streams: Set<number>): void {
  if (!streams.size) return;
  const { main } = session;
  const list = [...streams].sort((one, other) => one - other);
  streams.clear();
  for (let from = 0; from < list.length; from += NUMBERS_MAX) {
    const at = F.beginFrame(main, kind, 0, 0);
    putNumbers(main, list.slice(from, from + NUMBERS_MAX));
    F.endFrame(main, at);
  }
}
