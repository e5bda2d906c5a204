/** Frames: a head of 16 bytes, metadata, payload. */
import { HELLO, PAYLOAD_MAX } from "./kinds.ts";
import { MALFORMED, METADATA_MAX, TOO_LARGE, violation } from "./reason.ts";
import type { Writer } from "./varint.ts";

// In a file of its own, without imports: so a bundler puts the numbers where they are used.
export * from "./kinds.ts";

export const EMPTY: Uint8Array = new Uint8Array(0);

/** One frame of a message that was received; `data` belongs to the message. */
export interface Frame {
  kind: number;
  stream: number;
  flags: number;
  deadlineMs: number;
  data: Uint8Array;
  /** Where metadata, payload and the next frame begin. */
  metaAt: number;
  payloadAt: number;
  end: number;
}

export function payloadOf(frame: Frame): Uint8Array {
  return frame.data.subarray(frame.payloadAt, frame.end);
}

/** Reads the frame at `at`. A message holds whole frames only. */
export function readFrame(data: Uint8Array, at: number, metadataMax: number): Frame {
  if (data.length - at < 16) throw violation(MALFORMED);
  const length = u32(data, at);
  const kind = data[at + 8]!;
  const metaLength = data[at + 10]! | (data[at + 11]! << 8);
  if (metaLength > length) throw violation(MALFORMED);
  const sizeMax = kind === HELLO ? PAYLOAD_MAX - metaLength : PAYLOAD_MAX;
  if (length - metaLength > sizeMax) throw violation(TOO_LARGE);
  if (metaLength > metadataMax) throw violation(METADATA_MAX);
  const end = at + 16 + length;
  if (end > data.length) throw violation(MALFORMED);
  return {
    kind,
    stream: u32(data, at + 4),
    flags: data[at + 9]!,
    deadlineMs: u32(data, at + 12),
    data,
    metaAt: at + 16,
    payloadAt: at + 16 + metaLength,
    end,
  };
}

/** How many bytes of whole frames come first and fit into `max`; at least one frame. */
export function wholeFrames(data: Uint8Array, at: number, max: number): number {
  let end = at;
  do {
    const next = end + 16 + u32(data, end);
    if (end > at && next - at > max) break;
    end = next;
  } while (end < data.length);
  return end;
}

/** Begins a frame; metadata follows, then the payload, each of any length. */
export function beginFrame(
  writer: Writer,
  kind: number,
  stream: number,
  flags: number,
  deadlineMs = 0,
): number {
  const at = writer.room(16);
  const { buffer } = writer;
  putU32(buffer, at + 4, stream);
  buffer[at + 8] = kind;
  buffer[at + 9] = flags;
  buffer[at + 10] = buffer[at + 11] = 0;
  putU32(buffer, at + 12, deadlineMs);
  return at;
}

/** The metadata of the frame that began at `at` is written. */
export function endMetadata(writer: Writer, at: number): void {
  const length = writer.at - at - 16;
  writer.buffer[at + 10] = length;
  writer.buffer[at + 11] = length >> 8;
}

/** The frame that began at `at` is written. */
export function endFrame(writer: Writer, at: number): void {
  putU32(writer.buffer, at, writer.at - at - 16);
}

/** A frame without metadata. */
export function putFrame(
  writer: Writer,
  kind: number,
  stream = 0,
  flags = 0,
  payload: Uint8Array = EMPTY,
): void {
  const at = beginFrame(writer, kind, stream, flags);
  writer.bytes(payload);
  endFrame(writer, at);
}

function u32(data: Uint8Array, at: number): number {
  return (data[at]! | (data[at + 1]! << 8) | (data[at + 2]! << 16) | (data[at + 3]! << 24)) >>> 0;
}

function putU32(data: Uint8Array, at: number, value: number): void {
  data[at] = value;
  data[at + 1] = value >>> 8;
  data[at + 2] = value >>> 16;
  data[at + 3] = value >>> 24;
}
