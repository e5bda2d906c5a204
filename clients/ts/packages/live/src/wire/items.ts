/**
 * The items that this side sends on one stream: cut into frames of at most 16 KiB, kept until the
 * peer has taken them, sent again from where it stopped.
 */
import { CREDIT_REASON, MALFORMED, violation } from "./reason.ts";
import { Reader, Writer } from "./varint.ts";

export const PIECE = 16_384;

interface Chunk {
  begin: number;
  data: Uint8Array;
  more: boolean;
}

export class Outgoing {
  private chunks: Chunk[] = [];
  private open: Writer | undefined;
  private at = 0;
  private total = 0;
  sent = 0;
  credited = 0;
  /** The application sends nothing more; that was told. */
  isFinished = false;
  isFinishSent = false;

  /** Bytes that were pushed and not sent. */
  get waiting(): number {
    return this.total + (this.open?.at ?? 0) - this.sent;
  }

  push(item: Uint8Array): void {
    if (item.length > PIECE) {
      this.close();
      for (let at = 0; at < item.length; at += PIECE) {
        this.add(item.subarray(at, at + PIECE), at + PIECE < item.length);
      }
      return;
    }
    if (this.open && this.open.at + item.length + 8 > PIECE) this.close();
    this.open ??= new Writer();
    this.open.string(item);
  }

  /** The peer wants no more: what was not sent is dropped. */
  stop(): void {
    this.open = undefined;
    this.chunks.length = this.at;
    this.total = this.sent;
    this.isFinished = true;
  }

  /** The next frame's payload, if the window lets it go. */
  take(window: number): Chunk | undefined {
    if (this.at === this.chunks.length) this.close();
    const chunk = this.chunks[this.at];
    if (!chunk || this.sent - this.credited >= window) return undefined;
    this.at++;
    this.sent += chunk.data.length;
    return chunk;
  }

  get isDrained(): boolean {
    return this.at === this.chunks.length && !this.open;
  }

  credit(amount: number): void {
    if (amount > this.sent - this.credited) throw violation(CREDIT_REASON);
    this.credited += amount;
    this.drop();
  }

  /** The peer has taken `received` bytes over an earlier connection, and credited some. */
  rewind(received: number, credited: number): void {
    this.close();
    let at = this.chunks.findIndex((chunk) => chunk.begin === received);
    if (at < 0 && received === this.total) at = this.chunks.length;
    const fits = this.credited <= credited && credited <= received && received <= this.sent;
    if (at < 0 || !fits) throw violation(MALFORMED);
    this.at = at;
    this.sent = received;
    this.credited = credited;
    this.isFinishSent = false;
    this.drop();
  }

  private close(): void {
    const { open } = this;
    this.open = undefined;
    if (open) this.add(open.take(), false);
  }

  private add(data: Uint8Array, more: boolean): void {
    this.chunks.push({ begin: this.total, data, more });
    this.total += data.length;
  }

  private drop(): void {
    let count = 0;
    for (const { begin, data } of this.chunks) {
      if (count === this.at || begin + data.length > this.credited) break;
      count++;
    }
    this.chunks.splice(0, count);
    this.at -= count;
  }
}

/** The items of a frame. */
export function readItems(payload: Uint8Array): Uint8Array[] {
  const reader = new Reader(payload);
  const items: Uint8Array[] = [];
  while (reader.hasMore) items.push(reader.string());
  if (!items.length) throw violation(MALFORMED);
  return items;
}
