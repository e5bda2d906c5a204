// Frames of the live protocol, as bytes: what their parts are called, how they are read and written.
"use strict";

// -- errors ---------------------------------------------------------------------------------------

const CODES = (
  "ok canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied " +
  "resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable " +
  "data_loss unauthenticated"
).split(" ");
const NOT_RUN = 1;
const UNKNOWN = 2;
const RAN = 3;
const GAVE_UP = "the caller gave up";

/** Why a call failed: thrown by handlers for their callers, and by calls of the gateway. */
class TidewireError extends Error {
  constructor(code, message = "", { details = [], headers = [], outcome } = {}) {
    super(message);
    this.name = "TidewireError";
    this.code = CODES.indexOf(code) > 0 ? code : "unknown";
    Object.assign(this, { details, headers, outcome });
  }
}

/** The gateway broke a rule of the protocol: which of REASONS, and a text. */
class Violation extends Error {
  constructor(reason, text) {
    super(text);
    this.reason = reason;
  }
}

function must(condition, reason, text) {
  if (!condition) throw new Violation(reason, text);
}

// -- frames ---------------------------------------------------------------------------------------

const KINDS = (
  "hello auth request reply error items end cancel credit ping pong goaway stale resume resumed ready " +
  "busy log changed seen descriptors"
).split(" ");
const REASONS = (
  "drain magic version feature tooLarge malformed metadataMax unexpected unknownStream streamInUse " +
  "streamNumber callsMax credit unknownMethod methodsMax commandId"
).split(" ");
const FLAG = { end: 1, zstd: 2, http: 4, more: 8, watched: 16, unchanged: 32 };
const TAG = {
  ...{ method: 1, name: 2, command: 3, code: 8, message: 9, detail: 10, outcome: 11, verb: 12 },
  ...{
    target: 13,
    status: 14,
    depends: 15,
    reason: 16,
    level: 17,
    key: 18,
    parent: 19,
    trailers: 7,
  },
};
const HEADERS = (
  "content-type authorization cookie set-cookie accept accept-encoding accept-language user-agent host " +
  "origin referer content-length content-encoding cache-control etag if-none-match if-modified-since " +
  "last-modified location vary date expires x-forwarded-for x-forwarded-proto x-request-id traceparent " +
  "tracestate baggage"
).split(" ");
const HEADER_TAGS = new Map(HEADERS.map((name, number) => [name, 64 + number]));
const LEVELS = ["trace", "debug", "info", "warn", "error"];
const MAGIC = Buffer.from("TWLV").readUInt32LE();
const PAYLOAD_MAX = 65536;
const PIECE = 16384;
const SMALL_MAX = 16376;
const BODY_MAX = 64 << 20;
const EMPTY = Buffer.alloc(0);

function putVarint(value) {
  const bytes = [];
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push(value % 0x80 | 0x80);
  bytes.push(value);
  return Buffer.from(bytes);
}

function putString(value) {
  const bytes = Buffer.from(value);
  return Buffer.concat([putVarint(bytes.length), bytes]);
}

function putField(tag, value) {
  return Buffer.concat([
    Buffer.from([tag]),
    putString(typeof value === "number" ? putVarint(value) : value),
  ]);
}

/** Headers as pairs of a name and a text or bytes; what the protocol cannot carry is left out. */
const isToken = (name) => /^[a-z0-9!#$%&'*+.^_`|~-]{1,256}$/.test(name);

/** A field of a line in the log, as a header can be: nothing of it is left out. */
function logField([name, value]) {
  const token = name.toLowerCase().slice(0, 256).replace(/[^a-z0-9!#$%&'*+.^_`|~-]/g, "-");
  const escaped = (sign) => ({ "\n": "\\n", "\r": "\\r" })[sign] ?? `\\u{${sign.charCodeAt(0).toString(16)}}`;
  return [token || "field", String(value).replace(/[\0-\x08\n-\x1f\x7f-\x9f]/g, escaped)];
}

function putHeaders(headers) {
  const out = [];
  for (const [said, value] of headers) {
    const name = String(said).toLowerCase();
    const bytes = value instanceof Uint8Array ? value : Buffer.from(String(value));
    const isSafe = ![0, 10, 13].some((byte) => bytes.includes(byte));
    if (!isToken(name) || !isSafe) continue;
    const tag = HEADER_TAGS.get(name);
    out.push(tag ? putField(tag, bytes) : Buffer.concat([putField(0, name), putString(bytes)]));
  }
  return Buffer.concat(out);
}

/**
 * What an answer was made of, in at most so many bytes: every key, or else the sources, as any key of theirs
 * may be one of it, or else that it cannot be told; the answer is not kept then.
 */
function putDepends(depends, room) {
  for (const parts of [2, 1]) {
    const out = new Map();
    let size = 0;
    for (const named of depends) {
      const field = putField(TAG.depends, Buffer.concat(named.slice(0, parts).map(putString)));
      const known = field.toString("latin1");
      if (!out.has(known)) size += field.length;
      out.set(known, field);
      if (size > room) break;
    }
    if (size <= room) return Buffer.concat([...out.values()]);
  }
  return putField(TAG.depends, EMPTY);
}

/** The beginning of a text in at most so many bytes. */
function cut(text, size) {
  const bytes = Buffer.from(text);
  while (bytes.length > size && (bytes[size] & 0xc0) === 0x80) size--;
  return bytes.subarray(0, size);
}

function putFrame(name, stream = 0, flags = 0, metadata = EMPTY, payload = EMPTY, deadline = 0) {
  const head = Buffer.allocUnsafe(16);
  head.writeUInt32LE(metadata.length + payload.length, 0);
  head.writeUInt32LE(stream, 4);
  head[8] = KINDS.indexOf(name) + 1;
  head[9] = flags;
  head.writeUInt16LE(metadata.length, 10);
  head.writeUInt32LE(deadline, 12);
  return Buffer.concat([head, metadata, payload]);
}

/** Reads numbers and strings of a buffer, in order. */
class Reader {
  constructor(data) {
    this.data = data;
    this.at = 0;
  }

  get hasMore() {
    return this.at < this.data.length;
  }

  byte() {
    must(this.hasMore, "malformed", "bytes are cut off");
    return this.data[this.at++];
  }

  varint() {
    let value = 0;
    for (let scale = 1; scale < 2 ** 56; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80 && value <= Number.MAX_SAFE_INTEGER) return value;
    }
    throw new Violation("malformed", "a number that is too large");
  }

  string() {
    const length = this.varint();
    must(this.data.length - this.at >= length, "malformed", "a string is cut off");
    this.at += length;
    return this.data.subarray(this.at - length, this.at);
  }
}

/** One frame that came: its head, its payload, and of its metadata fields by tag, headers, details. */
class Frame {
  constructor(data, length) {
    this.stream = data.readUInt32LE(4);
    this.name = KINDS[data[8] - 1] ?? "unknown";
    this.flags = data[9];
    this.deadline = data.readUInt32LE(12);
    const payload = 16 + data.readUInt16LE(10);
    this.payload = data.subarray(payload, 16 + length);
    this.fields = new Map();
    this.headers = [];
    this.details = [];
    // A character of a page's header is a byte, as for node:http and fetch; else headers are UTF-8.
    const encoding = this.has(FLAG.http) ? "latin1" : "utf8";
    const reader = new Reader(data.subarray(16, payload));
    while (reader.hasMore) {
      const tag = reader.byte();
      const name = tag === 0 ? reader.string().toString("latin1") : HEADERS[tag - 64];
      const value = reader.string();
      if (name !== undefined) this.headers.push([name, value.toString(encoding)]);
      else if (tag === TAG.detail) this.details.push(value);
      else {
        const isNew = !this.fields.has(tag) || tag === 6 || tag === TAG.depends || tag > 21;
        must(isNew, "malformed", `field ${tag} comes twice`);
        this.fields.set(tag, value);
      }
    }
  }

  has(flag) {
    return (this.flags & flag) !== 0;
  }

  text(tag) {
    return (this.fields.get(tag) ?? "").toString();
  }

  number(tag, otherwise) {
    return numberOf(this.fields, tag, otherwise);
  }
}

function numberOf(fields, tag, otherwise) {
  return fields.has(tag) ? wholeNumber(fields.get(tag)) : otherwise;
}

/** The number that is all there is. */
function wholeNumber(data) {
  const reader = new Reader(data);
  const value = reader.varint();
  must(!reader.hasMore, "malformed", "something follows a number");
  return value;
}

/** The key of a source as text, the same in each language: its parts joined by `/`. */
function keyText(parts) {
  return parts.map(partText).join("/");
}

/** Equal values have equal text, of whatever type; what is no value of a key is a TypeError. */
function partText(part) {
  if (part === null || part === undefined) return "%_";
  if (typeof part === "string") return part.replaceAll("%", "%25").replaceAll("/", "%2F");
  if (typeof part === "boolean" || typeof part === "bigint") return String(part);
  if (Number.isInteger(part)) return BigInt(part).toString();
  if (Number.isFinite(part)) return positional(part);
  if (ArrayBuffer.isView(part)) return Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString("hex");
  const what = typeof part === "number" ? part : `${typeof part === "object" ? "an" : "a"} ${typeof part}`;
  throw new TypeError(`${what} is no part of a key; text, numbers, bytes, a boolean or null are`);
}

/** The shortest digits that read back, without an exponent. */
function positional(number) {
  const [digits, exponent] = String(Math.abs(number)).split("e-");
  const text = exponent ? `0.${"0".repeat(exponent - 1)}${digits.replace(".", "")}` : digits;
  return number < 0 ? `-${text}` : text;
}

module.exports = {
  CODES,
  NOT_RUN,
  UNKNOWN,
  RAN,
  GAVE_UP,
  TidewireError,
  Violation,
  must,
  REASONS,
  FLAG,
  TAG,
  LEVELS,
  MAGIC,
  PAYLOAD_MAX,
  PIECE,
  SMALL_MAX,
  BODY_MAX,
  EMPTY,
  putVarint,
  putString,
  putField,
  putHeaders,
  isToken,
  logField,
  putDepends,
  cut,
  putFrame,
  Reader,
  Frame,
  numberOf,
  wholeNumber,
  keyText,
};
