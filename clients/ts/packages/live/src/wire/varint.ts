/**
 * Numbers and byte strings: a writer over one growing buffer and a reader over a message.
 * Numbers reach 2^53-1, so they are plain JavaScript numbers; bit operations serve those below 2^31.
 */
import { MALFORMED, violation } from "./reason.ts";

/** Appends to one buffer, which is kept for the next message. */
export class Writer {
  buffer: Uint8Array = new Uint8Array(256);
  at = 0;

  /** Makes room for `count` more bytes and says where they begin. */
  room(count: number): number {
    const { at, buffer } = this;
    if (at + count > buffer.length) {
      const grown = new Uint8Array(Math.max(2 * buffer.length, at + count));
      grown.set(buffer);
      this.buffer = grown;
    }
    this.at = at + count;
    return at;
  }

  byte(value: number): void {
    const at = this.room(1); // May replace the buffer.
    this.buffer[at] = value;
  }

  bytes(value: Uint8Array): void {
    const at = this.room(value.length); // May replace the buffer.
    this.buffer.set(value, at);
  }

  varint(value: number): void {
    while (value > 0x7f) {
      this.byte((value % 0x80) | 0x80);
      value = Math.floor(value / 0x80);
    }
    this.byte(value);
  }

  /** A length and that many bytes. */
  string(value: Uint8Array): void {
    this.varint(value.length);
    this.bytes(value);
  }

  /** What was written, as a copy; the buffer is empty afterwards. */
  take(): Uint8Array {
    const taken = this.buffer.slice(0, this.at);
    this.at = 0;
    return taken;
  }
}

/** Reads numbers and strings; what is cut off or too large is a violation. */
export class Reader {
  readonly data: Uint8Array;
  at: number;
  readonly end: number;

  constructor(data: Uint8Array, at = 0, end: number = data.length) {
    this.data = data;
    this.at = at;
    this.end = end;
  }

  get hasMore(): boolean {
    return this.at < this.end;
  }

  byte(): number {
    if (this.at >= this.end) throw violation(MALFORMED);
    return this.data[this.at++]!;
  }

  varint(): number {
    let value = 0;
    for (let scale = 1, count = 0; ; scale *= 0x80) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (++count > 8 || value > Number.MAX_SAFE_INTEGER) throw violation(MALFORMED);
      if (byte < 0x80) return value;
    }
  }

  take(count: number): Uint8Array {
    const at = this.at;
    if (this.end - at < count) throw violation(MALFORMED);
    this.at = at + count;
    return this.data.subarray(at, at + count);
  }

  string(): Uint8Array {
    return this.take(this.varint());
  }

  /** Refuses bytes that follow what was read. */
  done(): void {
    if (this.hasMore) throw violation(MALFORMED);
  }
}

/** A value that is one number. */
export function numberOf(data: Uint8Array): number {
  const reader = new Reader(data);
  const value = reader.varint();
  reader.done();
  return value;
}

/** Writes ascending numbers as differences. */
export function putNumbers(writer: Writer, numbers: Iterable<number>): void {
  let previous = 0;
  for (const number of numbers) {
    writer.varint(number - previous);
    previous = number;
  }
}

/** Reads ascending numbers without repeats. */
export function readNumbers(data: Uint8Array): number[] {
  const reader = new Reader(data);
  const numbers: number[] = [];
  let last = 0;
  while (reader.hasMore) {
    const step = reader.varint();
    last += step;
    if (step === 0 || last > 0xffff_ffff) throw violation(MALFORMED);
    numbers.push(last);
  }
  return numbers;
}

/** Bytes as a string with one character each: small to keep, quick to compare. */
export function latin1(bytes: Uint8Array): string {
  // Piece by piece, since an engine takes only so many arguments; not one by one, which makes a
  // tree of strings; and not by spreading, which is slow.
  const text = (part: Uint8Array) => String.fromCharCode.apply(null, part as unknown as number[]);
  if (bytes.length <= PIECE) return text(bytes);
  let all = "";
  for (let at = 0; at < bytes.length; at += PIECE) all += text(bytes.subarray(at, at + PIECE));
  return all;
}

const PIECE = 4_096;

/** The bytes of such a string; undefined when a character is not one byte. */
export function bytesOf(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code > 0xff) return undefined;
    bytes[at] = code;
  }
  return bytes;
}
