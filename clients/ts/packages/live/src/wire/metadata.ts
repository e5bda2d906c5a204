/**
 * Metadata: the protocol's fields and the call's headers. Headers are pairs of strings whose
 * characters are bytes, as in HTTP and as `Headers` wants them.
 */
import { getTextEncoding } from "@bufbuild/protobuf/wire";
import type { Frame } from "./frame.ts";
import { FEATURE, MALFORMED, violation } from "./reason.ts";
import { AFTER, CODE, DEPENDS, DETAIL, EXPIRES, MAX_AGE, MESSAGE, OUTCOME, REASON, TOKEN, TRAILERS, VALIDATOR } from "./tags.ts";
import { bytesOf, latin1, numberOf, Reader, type Writer } from "./varint.ts";

export * from "./tags.ts";

/** Headers by number, from tag 64 on. */
const HEADERS = (
  "content-type authorization cookie set-cookie accept accept-encoding accept-language user-agent " +
  "host origin referer content-length content-encoding cache-control etag if-none-match " +
  "if-modified-since last-modified location vary date expires x-forwarded-for x-forwarded-proto " +
  "x-request-id traceparent tracestate baggage"
).split(" ");

export type Header = [name: string, value: string];
export interface Detail {
  type: string;
  value: Uint8Array;
}

/** What a frame says beside its payload. Absent fields are undefined. */
export interface Metadata {
  headers: Header[];
  trailers: Header[];
  details: Detail[];
  validator?: string;
  maxAge?: number;
  token?: Uint8Array;
  code?: number;
  message?: string;
  outcome?: number;
  reason?: number;
  after?: number;
  expires?: number;
}

const NONE: Metadata = { headers: [], trailers: [], details: [] };

export function utf8(bytes: Uint8Array): string {
  return getTextEncoding().decodeUtf8(bytes);
}
export function utf8Bytes(text: string): Uint8Array {
  return getTextEncoding().encodeUtf8(text);
}

/** Reads the metadata of a frame; fields that mean nothing here are skipped. */
export function readMetadata(frame: Frame): Metadata {
  if (frame.metaAt === frame.payloadAt) return NONE;
  const meta: Metadata = { headers: [], trailers: [], details: [] };
  const reader = new Reader(frame.data, frame.metaAt, frame.payloadAt);
  let headers = meta.headers;
  let seen = 0;
  while (reader.hasMore) {
    const tag = reader.byte();
    const name = tag ? HEADERS[tag - 64] : nameOf(reader.string());
    const value = reader.string();
    if (name || tag === 0) {
      const text = latin1(value);
      if (/[\r\n\0]/.test(text)) throw violation(MALFORMED);
      headers.push([name!, text]);
      continue;
    }
    if (tag === DEPENDS) throw violation(FEATURE); // Only hosted programs name dependencies.
    if (tag === DETAIL) {
      const inner = new Reader(value);
      meta.details.push({ type: utf8(inner.string()), value: value.slice(inner.at) });
      continue;
    }
    if (tag > 31) continue;
    if (tag !== TOKEN && seen & (1 << tag)) throw violation(MALFORMED);
    seen |= 1 << tag;
    if (tag === VALIDATOR) {
      if (value.length !== 16) throw violation(MALFORMED);
      meta.validator = latin1(value);
    } else if (tag === TOKEN) {
      if (value.length > 256) throw violation(MALFORMED);
      meta.token = value.slice();
    } else if (tag === TRAILERS) {
      headers = meta.trailers;
    } else if (tag === MESSAGE) {
      meta.message = utf8(value);
    } else {
      const field = NUMBERS[tag];
      if (field) meta[field] = numberOf(value);
    }
  }
  return meta;
}

// The build shortens names of properties: these are such.
const NUMBERS: Partial<
  Record<number, "maxAge" | "code" | "outcome" | "reason" | "after" | "expires">
> = {
  [MAX_AGE]: /* @__KEY__ */ "maxAge",
  [CODE]: /* @__KEY__ */ "code",
  [OUTCOME]: /* @__KEY__ */ "outcome",
  [REASON]: /* @__KEY__ */ "reason",
  [AFTER]: /* @__KEY__ */ "after",
  [EXPIRES]: /* @__KEY__ */ "expires",
};

const TOKEN_CHARACTERS = /^[a-z0-9!#$%&'*+\-.^_`|~]{1,256}$/;

function nameOf(bytes: Uint8Array): string {
  const name = latin1(bytes);
  if (!TOKEN_CHARACTERS.test(name)) throw violation(MALFORMED);
  return name;
}

/** Writes a field whose value is a number. */
export function putNumber(writer: Writer, tag: number, value: number): void {
  writer.byte(tag);
  const at = writer.room(1);
  writer.varint(value);
  writer.buffer[at] = writer.at - at - 1; // At most 8 bytes.
}

export function putField(writer: Writer, tag: number, value: Uint8Array): void {
  writer.byte(tag);
  writer.string(value);
}

/** Writes headers; those that do not fit the protocol are left out. */
export function putHeaders(writer: Writer, headers: Iterable<readonly [string, string]>): void {
  for (const [given, text] of headers) {
    const name = given.toLowerCase();
    const value = bytesOf(text);
    if (!value || !TOKEN_CHARACTERS.test(name) || /[\r\n\0]/.test(text)) continue;
    const number = HEADERS.indexOf(name);
    writer.byte(number < 0 ? 0 : 64 + number);
    if (number < 0) writer.string(bytesOf(name)!);
    writer.string(value);
  }
}
