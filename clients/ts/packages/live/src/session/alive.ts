/** Whether the peer is there: handshake time, pings, and what a pause of this side means (5.6, 8). */
import { PING, PONG, putFrame } from "../wire/frame.ts";
import { MALFORMED, violation } from "../wire/reason.ts";
import type { Writer } from "../wire/varint.ts";
import type { Session } from "./session.ts";

const HANDSHAKE = 10_000;
const PING_AFTER = 10_000;
const DROP_AFTER = 25_000;
const WAKE_PATIENCE = 3_000;

export class Alive {
  private heardAt = 0;
  private pingedAt: number | undefined;
  private wokeAt: number | undefined;
  private wakes = 0;
  private pongPayload: Uint8Array | undefined;

  begin(now: number): void {
    this.heardAt = now;
  }

  forget(): void {
    this.pingedAt = this.wokeAt = this.pongPayload = undefined;
  }

  heard(now: number): void {
    this.heardAt = now;
    this.pingedAt = undefined;
  }

  /** Answers are suspect until a ping that was sent since waking is answered. */
  get isAsleep(): boolean {
    return this.wokeAt !== undefined;
  }

  wake(session: Session): void {
    const payload = new Uint8Array(8);
    new DataView(payload.buffer).setUint32(0, ++this.wakes, true);
    // This ping is the keep-alive, too: a peer may answer the last of several alone.
    this.wokeAt = this.pingedAt = session.now;
    putFrame(session.control, PING, 0, 0, payload);
    session.emit({ type: "unsure" });
  }

  ping(payload: Uint8Array): void {
    if (payload.length > 64) throw violation(MALFORMED);
    this.pongPayload = payload.slice(); // Of pings not yet answered the last alone is.
  }

  pong(session: Session, payload: Uint8Array): void {
    const isLast = payload.length === 8 && new DataView(payload.slice().buffer).getUint32(0, true) === this.wakes;
    if (!this.isAsleep || !isLast) return;
    this.wokeAt = undefined;
    session.emit({ type: "sure" });
  }

  putPong(writer: Writer): void {
    if (this.pongPayload) putFrame(writer, PONG, 0, 0, this.pongPayload);
    this.pongPayload = undefined;
  }

  deadline(phase: Session["phase"]): number {
    if (phase === "idle") return Infinity;
    if (phase === "wait") return this.heardAt + HANDSHAKE;
    const silence = this.heardAt + PING_AFTER;
    const drop = this.pingedAt === undefined ? silence : this.pingedAt + DROP_AFTER - PING_AFTER;
    return this.wokeAt === undefined ? drop : Math.min(drop, this.wokeAt + WAKE_PATIENCE);
  }

  /**
   * Asks after silence, and says whether the connection is lost. Patience counts from the ping, not
   * from what was heard last: a timer that came late has asked nobody yet.
   */
  timeout(session: Session): boolean {
    const { now, phase } = session;
    if (phase === "idle" || now < this.deadline(phase)) return false;
    if (phase === "wait" || this.pingedAt !== undefined) return true;
    if (this.wokeAt !== undefined && now >= this.wokeAt + WAKE_PATIENCE) return true;
    this.pingedAt = now;
    putFrame(session.control, PING);
    return false;
  }
}
