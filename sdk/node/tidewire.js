// Serve methods and pages behind a Tidewire gateway: one file, no packages, Node.js 18 and newer.
//
//     const { serve } = require("tidewire");
//
//     serve({
//       "shop.v1.Shop/GetItem": (request, context) => {
//         context.depends("items", request.id); // the answer is kept until this item changes
//         return { name: "tea" };
//       },
//       fetch: (request) => new Response("a page"),
//     });
//
// The gateway starts the program, passes calls on a socket that it inherits (TIDEWIRE_FD), and ends it.
// Messages are objects where tidewire.toml says codec = "json", else Uint8Arrays. What a program prints
// is in the gateway's log.
//
//  bytes ─▶ Session: frames, tables of calls, credit ─▶ App: handlers ─▶ Session ─▶ bytes
"use strict";

const net = require("node:net");

const VERSION = "0.1.0";

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

/** The gateway broke a rule of the protocol: the number of the reason, and a text. */
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

const KIND = {
  ...{ hello: 1, request: 3, reply: 4, error: 5, items: 6, end: 7, cancel: 8, credit: 9 },
  ...{ ping: 10, pong: 11, goaway: 12, ready: 16, busy: 17, log: 18, changed: 19 },
};
const FLAG = { end: 1, zstd: 2, http: 4, more: 8, watched: 16, unchanged: 32 };
const RECEIVES = {
  ...{ 1: "onHello", 3: "onRequest", 4: "onReply", 5: "onError", 6: "onItems", 7: "onEnd", 8: "onCancel" },
  ...{ 9: "onCredit", 10: "onPing", 12: "onGoaway" },
};
/** What a process, which watches and resumes nothing, is never sent, with the reasons. */
const NEVER = new Map([
  [13, 8],
  [14, 7],
  [15, 7],
]);
const REASON = {
  ...{ magic: 1, version: 2, feature: 3, tooLarge: 4, malformed: 5, unexpected: 7, unknownStream: 8 },
  ...{ metadataMax: 6, streamInUse: 9, streamNumber: 10, credit: 12, unknownMethod: 13, methodsMax: 14 },
  ...{ commandId: 15 },
};
const TAG = {
  ...{ method: 1, name: 2, command: 3, code: 8, message: 9, detail: 10, outcome: 11, verb: 12 },
  ...{ target: 13, status: 14, depends: 15, reason: 16, level: 17, key: 18, parent: 19, trailers: 7 },
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
const HOSTED = 32;
const PAYLOAD_MAX = 65536;
const PIECE = 16384;
const SMALL_MAX = 16376;
const BODY_MAX = 64 << 20;
const STREAM_CREDIT = 262144;
const CONNECTION_CREDIT = 1 << 20;
const METADATA_MAX = 16384;
const CALLS_MAX = 1024;
const METHODS_MAX = 1024;
const OUTPUT_MAX = 1 << 20;
const EMPTY = Buffer.alloc(0);

function putVarint(value) {
  const bytes = [];
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push((value % 0x80) | 0x80);
  bytes.push(value);
  return Buffer.from(bytes);
}

function putString(value) {
  const bytes = Buffer.from(value);
  return Buffer.concat([putVarint(bytes.length), bytes]);
}

function putField(tag, value) {
  return Buffer.concat([Buffer.from([tag]), putString(typeof value === "number" ? putVarint(value) : value)]);
}

/** Headers as pairs; what the protocol cannot carry is left out. */
function putHeaders(headers) {
  const out = [];
  for (const [said, value] of headers) {
    const name = String(said).toLowerCase();
    const text = String(value);
    if (!/^[a-z0-9!#$%&'*+.^_`|~-]{1,256}$/.test(name) || /[\r\n\0]/.test(text)) continue;
    const tag = HEADER_TAGS.get(name);
    out.push(tag ? putField(tag, text) : Buffer.concat([putField(0, name), putString(text)]));
  }
  return Buffer.concat(out);
}

function putFrame(kind, stream = 0, flags = 0, metadata = EMPTY, payload = EMPTY, deadline = 0) {
  const head = Buffer.allocUnsafe(16);
  head.writeUInt32LE(metadata.length + payload.length, 0);
  head.writeUInt32LE(stream, 4);
  head[8] = kind;
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
    must(this.hasMore, REASON.malformed, "bytes are cut off");
    return this.data[this.at++];
  }

  varint() {
    let value = 0;
    for (let scale = 1; scale < 2 ** 56; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80 && value <= Number.MAX_SAFE_INTEGER) return value;
    }
    throw new Violation(REASON.malformed, "a number that is too large");
  }

  string() {
    const length = this.varint();
    must(this.data.length - this.at >= length, REASON.malformed, "a string is cut off");
    this.at += length;
    return this.data.subarray(this.at - length, this.at);
  }
}

/** One frame that came: its head, its payload, and of its metadata fields by tag, headers, details. */
class Frame {
  constructor(data, length) {
    this.stream = data.readUInt32LE(4);
    this.kind = data[8];
    this.flags = data[9];
    this.deadline = data.readUInt32LE(12);
    const payload = 16 + data.readUInt16LE(10);
    this.payload = data.subarray(payload, 16 + length);
    this.fields = new Map();
    this.headers = [];
    this.details = [];
    const reader = new Reader(data.subarray(16, payload));
    while (reader.hasMore) {
      const tag = reader.byte();
      const name = tag === 0 ? reader.string().toString("latin1") : HEADERS[tag - 64];
      const value = reader.string();
      if (name !== undefined) this.headers.push([name, value.toString()]);
      else if (tag === TAG.detail) this.details.push(value);
      else {
        const isNew = !this.fields.has(tag) || tag === 6 || tag === TAG.depends || tag > 21;
        must(isNew, REASON.malformed, `field ${tag} comes twice`);
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
  must(!reader.hasMore, REASON.malformed, "something follows a number");
  return value;
}

/** The key of a source as text: its parts joined by `/`. */
function keyText(parts) {
  const text = (part) => {
    if (part === null || part === undefined) return "%_";
    if (part instanceof Uint8Array) return Buffer.from(part).toString("hex");
    return String(part).replaceAll("%", "%25").replaceAll("/", "%2F");
  };
  return parts.map(text).join("/");
}

// -- session --------------------------------------------------------------------------------------

/** One call, of either side: what came of it, and what is to be sent. */
class Call {
  constructor(number) {
    this.number = number;
    this.isOurs = number % 2 === 1;
    this.isOpen = true;
    this.isCancelled = false;
    this.headers = [];
    this.waiting = [];
    this.gone = new AbortController();
    // What comes: items with what each counts as, and pieces of one that is not complete.
    this.items = [];
    this.partial = EMPTY;
    this.partialBytes = 0;
    this.received = 0;
    this.owed = 0;
    this.hasHead = false;
    this.isStreaming = false;
    this.isWhole = false;
    // What goes: payloads of items, and the frame after the last.
    this.out = [];
    this.queued = 0;
    this.last = undefined;
    this.outstanding = 0;
    this.isStopped = false;
  }

  wake() {
    const waiting = this.waiting;
    this.waiting = [];
    for (const wake of waiting) wake();
  }

  /** Adds a piece to those of an item; copied, since a view of what was read keeps all of that. */
  addPiece(piece) {
    const size = this.partialBytes + piece.length;
    if (size > this.partial.length) {
      const grown = Buffer.allocUnsafe(Math.max(size, 2 * this.partial.length));
      this.partial.copy(grown);
      this.partial = grown;
    }
    piece.copy(this.partial, this.partialBytes);
    this.partialBytes = size;
  }

  /** Waits until something came, went, or ended. */
  change() {
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}

/** This side of the protocol without a socket: bytes in, bytes and calls out. */
class Session {
  constructor({ begin = () => {}, agent = "tidewire-node/" + VERSION, windows = {} } = {}) {
    this.begins = begin;
    this.windows = { stream: STREAM_CREDIT, connection: CONNECTION_CREDIT, ...windows };
    this.data = EMPTY;
    this.control = [];
    this.main = [];
    this.isGreeted = false;
    this.isDraining = false;
    this.closed = undefined;
    this.calls = new Map();
    this.asked = new Set();
    this.free = [];
    this.room = new Call(0);
    this.methods = [];
    this.called = new Map();
    this.line = [];
    this.outstanding = 0;
    this.received = 0;
    this.owed = 0;
    this.running = new Set();
    this.pong = undefined;
    this.nextCommand = 1;
    const hello = [putField(1, [1, 0, 1, 0]), putField(2, 2 | HOSTED), putField(3, HOSTED)];
    hello.push(putField(4, BODY_MAX), putField(16, agent));
    this.control.push(putFrame(KIND.hello, 0, 0, EMPTY, Buffer.concat(hello), MAGIC));
  }

  // What comes.

  /** Takes bytes that came; what is wrong with them ends the session. */
  feed(data) {
    data = this.data.length ? Buffer.concat([this.data, data]) : data;
    try {
      while (this.closed === undefined && data.length >= 16) {
        const length = data.readUInt32LE(0);
        const metadata = data.readUInt16LE(10);
        must(metadata <= length, REASON.malformed, "metadata over its frame");
        must(length - metadata <= PAYLOAD_MAX, REASON.tooLarge, "a frame over the limit");
        const isShort = metadata <= METADATA_MAX || !this.isGreeted;
        must(isShort, REASON.metadataMax, "metadata over the limit");
        if (data.length < 16 + length) break;
        const frame = new Frame(data, length);
        data = data.subarray(16 + length);
        this.receive(frame);
      }
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      const said = [putField(TAG.message, error.message), putField(TAG.reason, error.reason)];
      this.main.push(putFrame(KIND.goaway, 0, 0, Buffer.concat(said)));
      this.close(error.message);
    }
    this.data = data;
  }

  receive(frame) {
    const isFirst = frame.kind === KIND.hello || frame.kind === KIND.goaway;
    must(this.isGreeted || isFirst, REASON.magic, "the first frame is not a hello");
    const isOfCalls = frame.kind >= KIND.request && frame.kind <= KIND.end;
    const isOfBoth = frame.kind === KIND.cancel || frame.kind === KIND.credit || frame.kind > 21;
    const isPlaced = isOfBoth || isOfCalls === frame.stream > 0;
    must(isPlaced, REASON.malformed, `kind ${frame.kind} on stream ${frame.stream}`);
    must(!NEVER.has(frame.kind), NEVER.get(frame.kind), `kind ${frame.kind} for a process`);
    must(!isOfCalls || !frame.has(FLAG.zstd), REASON.feature, "compression was not offered");
    const receive = RECEIVES[frame.kind];
    if (receive) this[receive](frame, this.find(frame));
  }

  /** The call of a frame; undefined for one of the gateway that is over. */
  find({ stream, kind }) {
    if (stream === 0 || kind === KIND.request) return this.calls.get(stream);
    const isOurs = stream % 2 === 1;
    must(isOurs || stream <= 2 * CALLS_MAX, REASON.streamNumber, `stream ${stream} is over the bound`);
    const call = this.calls.get(stream);
    must(call || !isOurs, REASON.unknownStream, `stream ${stream} is not open`);
    const isAnswer = kind === KIND.reply || kind === KIND.error;
    must(isOurs || !isAnswer, REASON.streamNumber, `an answer on stream ${stream}`);
    return call;
  }

  onHello(frame) {
    must(!this.isGreeted, REASON.unexpected, "a second hello");
    must(frame.deadline === MAGIC, REASON.magic, "not a hello");
    const said = new Map();
    for (const reader = new Reader(frame.payload); reader.hasMore;) {
      const tag = reader.byte();
      must(!said.has(tag), REASON.malformed, `field ${tag} of a hello comes twice`);
      said.set(tag, reader.string());
    }
    must(said.get(1)?.length === 4, REASON.malformed, "a hello without versions");
    const isVersion = said.get(1)?.equals(Buffer.from([1, 0, 1, 0]));
    must(isVersion, REASON.version, "this side speaks version 1");
    must(numberOf(said, 2, 0) & HOSTED, REASON.feature, "the gateway hosts no processes");
    this.peer = {
      bodyMax: numberOf(said, 4, 4 << 20),
      callsMax: numberOf(said, 5, 1024),
      methodsMax: numberOf(said, 7, 1024),
      streamCredit: numberOf(said, 8, STREAM_CREDIT),
      connectionCredit: numberOf(said, 9, CONNECTION_CREDIT),
      metadataMax: numberOf(said, 10, 16384),
    };
    this.isGreeted = true;
    this.control.push(putFrame(KIND.ready));
    this.room.wake();
  }

  onPing(frame) {
    must(frame.payload.length <= 64, REASON.malformed, "a long ping");
    this.pong = frame.payload; // Of pings not yet answered the last alone is.
  }

  onGoaway(frame) {
    const reason = frame.number(TAG.reason, 0);
    this.isDraining = true;
    if (reason || !this.isGreeted) this.close(frame.text(TAG.message) || `reason ${reason}`);
  }

  onRequest(frame, before) {
    const { stream } = frame;
    const isSlot = stream % 2 === 0 && stream <= 2 * CALLS_MAX;
    must(isSlot, REASON.streamNumber, `a request on stream ${stream}`);
    must(!before, REASON.streamInUse, `a request on stream ${stream}`);
    must(!frame.fields.has(TAG.key), REASON.feature, "keys were not offered");
    const call = new Call(stream);
    call.headers = frame.headers;
    call.isWhole = frame.has(FLAG.end);
    must(call.isWhole || !frame.payload.length, REASON.malformed, "a payload before items");
    call.isStreaming = !call.isWhole;
    if (frame.deadline) call.deadline = performance.now() + frame.deadline;
    if (frame.payload.length) call.items.push([frame.payload, 0]);
    if (frame.has(FLAG.http)) {
      const hasBoth = frame.fields.has(TAG.verb) && frame.fields.has(TAG.target);
      must(hasBoth, REASON.malformed, "HTTP without method or target");
      call.verb = frame.text(TAG.verb);
      call.path = frame.text(TAG.target);
    } else [call.isJson, call.path] = this.method(frame);
    if (frame.fields.has(TAG.command)) {
      call.command = new Reader(frame.fields.get(TAG.command)).varint();
      const isNew = call.command > 0 && !this.running.has(call.command);
      must(isNew, REASON.commandId, `command ${call.command}`);
      this.running.add(call.command);
    }
    this.calls.set(stream, call);
    this.begins(call);
  }

  /** Whether it is JSON, and the path: what a request names, or named before. */
  method(frame) {
    const name = frame.fields.get(TAG.name);
    const number = frame.number(TAG.method);
    must(name?.length || number !== undefined, REASON.malformed, "a request without a method");
    if (name) {
      const named = [name[0] === 1, name.subarray(1).toString().replace(/^\//, "")];
      if (number === undefined) return named;
      const isDue = number === this.methods.length && number < METHODS_MAX;
      must(isDue, REASON.methodsMax, "a method's number out of turn");
      this.methods.push(named);
    }
    must(number < this.methods.length, REASON.unknownMethod, `method ${number} was not named`);
    return this.methods[number];
  }

  onItems(frame, call) {
    const size = frame.payload.length;
    for (const flow of call ? [call, this] : [this]) {
      const window = flow === this ? this.windows.connection : this.windows.stream;
      must(flow.received < window, REASON.credit, "items without credit");
      flow.received += size;
    }
    if (!call || (call.isOurs && call.isCancelled)) return this.consumed(size, call);
    const isDue = !call.isWhole && (call.hasHead || !call.isOurs);
    must(isDue, REASON.unexpected, "items out of place");
    must(size, REASON.malformed, "items without an item");
    if (frame.has(FLAG.more) || call.partialBytes) {
      call.addPiece(frame.payload);
      must(call.partialBytes <= BODY_MAX, REASON.tooLarge, "an item over body_max");
      if (!frame.has(FLAG.more)) {
        call.items.push([call.partial.subarray(0, call.partialBytes), 0]);
        call.partial = EMPTY;
        call.partialBytes = 0;
      }
      // Else an item over the credit would never be whole; body_max bounds it.
      this.consumed(size, call);
    } else {
      for (const reader = new Reader(frame.payload); reader.hasMore;) {
        const begin = reader.at;
        const item = reader.string();
        call.items.push([item, reader.at - begin]);
      }
    }
    call.wake();
  }

  onEnd(_, call) {
    if (call?.isOurs) {
      must(call.hasHead, REASON.unexpected, "an end before the answer");
      this.end(call);
    } else if (call) {
      must(!call.isWhole, REASON.unexpected, "a second end");
      call.isWhole = true;
      call.wake();
    }
  }

  onCredit(frame, call) {
    const amount = wholeNumber(frame.payload);
    const credited = frame.stream === 0 ? this : call;
    if (!credited) return;
    must(!frame.has(FLAG.end), REASON.unexpected, "an end is seen that was not sent");
    must(amount <= credited.outstanding, REASON.credit, "credit for what was not sent");
    credited.outstanding -= amount;
  }

  onCancel(_, call) {
    if (!call || call.isCancelled) return;
    if (call.isOurs) {
      call.isStopped = true;
      return call.wake();
    }
    call.isCancelled = true;
    if (call.command && !call.isStreaming && !call.hasHead) return;
    const metadata = Buffer.concat([putField(TAG.code, 1), putField(TAG.message, GAVE_UP)]);
    this.main.push(putFrame(KIND.error, call.number, 0, metadata));
    this.end(call);
  }

  onReply(frame, call) {
    const isSecond = call.hasHead && !frame.has(FLAG.end);
    const wasAsked = !isSecond && !frame.has(FLAG.watched);
    must(wasAsked, REASON.unexpected, "a reply that was not asked for");
    must(!frame.has(FLAG.unchanged), REASON.malformed, "nothing to be unchanged from");
    const isEnd = frame.has(FLAG.end);
    must(isEnd || !frame.payload.length, REASON.malformed, "a payload before items");
    call.hasHead = true;
    call.headers = frame.headers;
    if (!isEnd) {
      call.isStreaming = true;
      return;
    }
    call.items.push([frame.payload, 0]);
    this.end(call);
  }

  onError(frame, call) {
    const code = frame.number(TAG.code);
    must(!frame.has(FLAG.watched), REASON.unexpected, "a watch that was not asked for");
    must(code, REASON.malformed, "an error without a code");
    const details = frame.details.map((detail) => {
      const reader = new Reader(detail);
      return [reader.string().toString(), detail.subarray(reader.at)];
    });
    const more = { details, headers: frame.headers, outcome: frame.number(TAG.outcome) };
    this.end(call, new TidewireError(CODES[code], frame.text(TAG.message), more));
  }

  // The end of calls and of the session.

  /** A call is over: its last frame came, is being sent, or never will be. */
  end(call, error) {
    if (!call.isOpen) return;
    this.calls.delete(call.number);
    Object.assign(call, { isOpen: false, error, out: [], last: undefined });
    this.consumed(call.received - call.owed);
    this.running.delete(call.command);
    if (call.isOurs) {
      this.asked.delete(call);
      this.free.push(call.number);
      if (call.isStreaming && this.closed === undefined) {
        this.control.push(putFrame(KIND.credit, call.number, FLAG.end, EMPTY, putVarint(0)));
      }
      this.room.wake();
    } else if (call.isCancelled) call.gone.abort(new TidewireError("canceled", GAVE_UP));
    call.wake();
  }

  /** The session is over: whoever waits is told. */
  close(why) {
    if (this.closed !== undefined) return;
    this.closed = why;
    for (const call of [...this.calls.values()]) {
      const code = call.command ? "aborted" : "unavailable";
      call.isCancelled ||= !call.isOurs;
      this.end(call, new TidewireError(code, "the gateway is gone: " + why, { outcome: UNKNOWN }));
    }
    this.room.wake();
  }

  // What goes.

  /** The bytes to be written now: connection frames, calls, then a turn for each stream. */
  take() {
    const out = [...this.control, ...this.main];
    if (this.pong) out.push(putFrame(KIND.pong, 0, 0, EMPTY, this.pong));
    this.pong = undefined;
    let bytes = out.reduce((sum, frame) => sum + frame.length, 0);
    this.control = [];
    this.main = [];
    const waiting = [];
    while (this.line.length && bytes < PAYLOAD_MAX) {
      const call = this.line.shift();
      const frame = this.turn(call);
      if (frame) bytes += out.push(frame) && frame.length;
      if (call.out.length || call.last) (frame ? this.line : waiting).push(call);
    }
    this.line.push(...waiting);
    return out.length === 1 ? out[0] : Buffer.concat(out);
  }

  /** Whether so much is to be written that no more is to be read; who waits for answers reads on. */
  isFull() {
    const waiting = [...this.control, ...this.main].reduce((sum, { length }) => sum + length, 0);
    return waiting > (this.asked.size ? BODY_MAX : OUTPUT_MAX);
  }

  /** The next frame of a call; nothing while it has no credit. */
  turn(call) {
    if (!call.out.length) {
      const { last } = call;
      call.last = undefined;
      if (!call.isOurs) this.end(call);
      return last;
    }
    const { connectionCredit, streamCredit } = this.peer;
    if (this.outstanding >= connectionCredit || call.outstanding >= streamCredit) return undefined;
    const { parts, size, flags } = call.out.shift();
    call.queued -= size;
    call.outstanding += size;
    this.outstanding += size;
    call.wake();
    return putFrame(KIND.items, call.number, flags, EMPTY, Buffer.concat(parts));
  }

  /** A call that has something to send takes turns. */
  enlist(call) {
    if (!call.out.length && !call.last) this.line.push(call);
  }

  /** Items were taken: the peer may send as much again. */
  consumed(size, call) {
    const credit = (of, number, window) => {
      of.owed += size;
      if (of.owed * 4 < window) return;
      this.control.push(putFrame(KIND.credit, number, 0, EMPTY, putVarint(of.owed)));
      of.received -= of.owed;
      of.owed = 0;
    };
    if (call) credit(call, call.number, call.isWhole ? Infinity : this.windows.stream);
    credit(this, 0, this.windows.connection);
  }

  /** The next item of a call that came. */
  takeItem(call) {
    const [item, size] = call.items.shift();
    if (call.isOpen) this.consumed(size, call);
    return item;
  }

  /** The metadata of an answer. */
  metadata(fields, headers = [], depends = [], trailers = []) {
    const out = [...fields, putHeaders(headers)];
    for (const [source, key] of depends) {
      out.push(putField(TAG.depends, Buffer.concat([putString(source), putString(key)])));
    }
    if (trailers.length) out.push(putField(TAG.trailers, EMPTY), putHeaders(trailers));
    const metadata = Buffer.concat(out);
    if (metadata.length <= this.peer.metadataMax) return metadata;
    throw new TidewireError("internal", `headers are over metadata_max = ${this.peer.metadataMax}`);
  }

  /** Sends the head of an answer whose items follow, or the whole answer. */
  begin(call, { status, headers, depends, trailers } = {}, whole = undefined) {
    if (!call.isOpen || call.hasHead) return;
    const fields = status && status !== 200 ? [putField(TAG.status, status)] : [];
    const metadata = this.metadata(fields, headers, depends, whole ? trailers : []);
    const flags = (whole ? FLAG.end : 0) | (call.verb ? FLAG.http : 0);
    call.hasHead = true;
    this.main.push(putFrame(KIND.reply, call.number, flags, metadata, whole));
    if (whole) this.end(call);
  }

  /** Queues an item; there is room for more while `queued` is small. */
  push(call, item) {
    if (!call.isOpen || call.isStopped) return;
    this.enlist(call);
    if (item.length > PIECE) {
      for (let at = 0; at < item.length; at += PIECE) {
        const piece = item.subarray(at, at + PIECE);
        const flags = at + PIECE < item.length ? FLAG.more : 0;
        call.out.push({ parts: [piece], size: piece.length, flags, isPiece: true });
      }
      call.queued += item.length;
      return;
    }
    const encoded = putString(item);
    const shared = call.out[call.out.length - 1];
    if (shared && !shared.isPiece && shared.size + encoded.length <= PIECE) {
      shared.parts.push(encoded);
      shared.size += encoded.length;
    } else call.out.push({ parts: [encoded], size: encoded.length, flags: 0 });
    call.queued += encoded.length;
  }

  /** No more items: ends a call of the gateway, or the request of one of this side. */
  finish(call, trailers = []) {
    if (!call.isOpen || call.last) return;
    this.enlist(call);
    call.last = putFrame(KIND.end, call.number, 0, putHeaders(trailers));
  }

  /** Answers a call whole. */
  reply(call, payload, said = {}) {
    const { bodyMax } = this.peer;
    if (payload.length > bodyMax) {
      const text = `a reply of ${payload.length} bytes is over body_max = ${bodyMax}`;
      this.fail(call, new TidewireError("resource_exhausted", text, { outcome: RAN }));
    } else if (call.isCancelled) {
      this.fail(call, new TidewireError("canceled", GAVE_UP));
    } else if (payload.length > SMALL_MAX) {
      this.begin(call, said);
      this.push(call, payload);
      this.finish(call, said.trailers);
    } else this.begin(call, said, payload);
  }

  /** Ends a call with an error. */
  fail(call, error, depends = []) {
    if (!call.isOpen) return;
    // A command whose caller gave up ran to its end.
    if (call.isCancelled) error = new TidewireError("canceled", GAVE_UP, { outcome: RAN });
    const fields = [putField(TAG.code, CODES.indexOf(error.code))];
    if (error.message) fields.push(putField(TAG.message, error.message.slice(0, 2048)));
    for (const [name, value] of error.details) {
      fields.push(putField(TAG.detail, Buffer.concat([putString(name), value])));
    }
    if (error.outcome) fields.push(putField(TAG.outcome, error.outcome));
    const metadata = this.metadata(fields, error.headers, depends);
    this.enlist(call);
    call.last = putFrame(KIND.error, call.number, 0, metadata);
  }

  /** Calls the gateway; undefined while no call is free. */
  ask(path, isJson, payload, { headers = [], parent, query = false, deadline } = {}) {
    if (this.closed !== undefined || this.isDraining) {
      throw new TidewireError("unavailable", "the gateway takes no calls any more", { outcome: NOT_RUN });
    }
    if (!this.isGreeted || this.asked.size >= this.peer.callsMax) return undefined;
    if (payload.length > this.peer.bodyMax) {
      const text = `over body_max = ${this.peer.bodyMax}`;
      throw new TidewireError("resource_exhausted", text, { outcome: NOT_RUN });
    }
    const said = this.metadata([], headers);
    const codec = Number(isJson);
    const name = Buffer.from([codec, ...Buffer.from("/" + path.replace(/^\//, ""))]);
    const key = name.toString();
    const isNew = !this.called.has(key);
    if (isNew && this.called.size < this.peer.methodsMax) this.called.set(key, this.called.size);
    const fields = this.called.has(key) ? [putField(TAG.method, this.called.get(key))] : [];
    if (isNew) fields.push(putField(TAG.name, name));
    const call = new Call(this.free.pop() ?? 2 * this.asked.size + 1);
    this.calls.set(call.number, call);
    this.asked.add(call);
    if (!query) {
      call.command = this.nextCommand++;
      // A set is in the order of its entries, so that the first command is the oldest.
      const [{ command: done }] = [...this.asked].filter(({ command }) => command);
      fields.push(putField(TAG.command, Buffer.concat([putVarint(call.command), putVarint(done)])));
    }
    if (parent !== undefined) fields.push(putField(TAG.parent, parent));
    const left = deadline === undefined ? 0 : Math.max(1, Math.ceil(deadline - performance.now()));
    const metadata = Buffer.concat([...fields, said]);
    call.isStreaming = payload.length > SMALL_MAX;
    const flags = call.isStreaming ? 0 : FLAG.end;
    const body = call.isStreaming ? EMPTY : payload;
    this.main.push(putFrame(KIND.request, call.number, flags, metadata, body, left));
    if (call.isStreaming) {
      this.push(call, payload);
      this.finish(call);
    }
    return call;
  }

  /** Gives a call of this side up; its end is not waited for. */
  cancel(call) {
    if (!call.isOpen || call.isCancelled) return;
    call.isCancelled = true;
    this.main.push(putFrame(KIND.cancel, call.number));
  }

  // What a process says by itself.

  changed(source, key) {
    const payload = Buffer.concat([putString(source), putString(key)]);
    this.main.push(putFrame(KIND.changed, 0, 0, EMPTY, payload));
  }

  log(level, text, fields) {
    const metadata = this.metadata([putField(TAG.level, LEVELS.indexOf(level) + 1 || 3)], fields);
    const payload = Buffer.from(String(text)).subarray(0, PAYLOAD_MAX);
    this.control.push(putFrame(KIND.log, 0, 0, metadata, payload));
  }

  busy(jobs) {
    this.control.push(putFrame(KIND.busy, 0, 0, EMPTY, putVarint(jobs)));
  }
}

// -- application ----------------------------------------------------------------------------------

const decode = (data, isJson) => (isJson ? JSON.parse(data.toString()) : data);

function encode(value, isJson) {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (isJson) return Buffer.from(JSON.stringify(value ?? {}));
  throw new TypeError(
    'a message is bytes; write codec = "json" for this service in tidewire.toml to send objects',
  );
}

/** What surrounds a call: who asks, until when, and what the answer is made of. */
class Context {
  #app;
  #call;

  constructor(app, call) {
    this.#app = app;
    this.#call = call;
    this.headers = call.headers;
    this.replyHeaders = [];
    this.replyTrailers = [];
    this.sources = [];
  }

  /** The first value of a header. */
  header(name) {
    return this.headers.find(([known]) => known === name.toLowerCase())?.[1];
  }

  /** Aborted when the caller gave up, its deadline passed among the reasons; a command runs on. */
  get signal() {
    return this.#call.gone.signal;
  }

  /** Milliseconds until the deadline; undefined without one. */
  get remaining() {
    const { deadline } = this.#call;
    return deadline === undefined ? undefined : Math.max(0, deadline - performance.now());
  }

  /** The answer was made of this, and is kept until it changes. */
  depends(source, ...key) {
    this.sources.push([source, keyText(key)]);
  }

  /** This changed: whoever asks after this call is answered sees it. */
  changed(source, ...key) {
    this.#app.changed(source, ...key);
  }

  /** A line in the gateway's log. */
  log(level, text, fields) {
    this.#app.log(level, text, fields);
  }

  /** Calls a method of the gateway as part of this call. */
  call(path, request, options = {}) {
    return this.#app.call(path, request, { deadline: this.#call.deadline, ...options, within: this.#call });
  }

  get said() {
    return { headers: this.replyHeaders, trailers: this.replyTrailers, depends: this.sources };
  }
}

/** Marks a handler that is given an asynchronous iterator of requests. */
function streaming(handler) {
  return Object.assign((...args) => handler(...args), { streams: true });
}

class App {
  #session = new Session({ begin: (call) => this.#begin(call) });
  #handlers;
  #socket;
  #isFlushing = false;
  #isBlocked = false;
  #jobs = 0;

  constructor(handlers) {
    const named = Object.entries(handlers).map(([path, handler]) => [path.replace(/^\//, ""), handler]);
    this.#handlers = new Map(named);
  }

  start() {
    const fd = Number(process.env.TIDEWIRE_FD);
    if (!fd) {
      throw new Error(
        "this program is started by Tidewire: write a [[service]] with run = [...] into tidewire.toml, " +
          "and call it through `tidewire serve`",
      );
    }
    delete process.env.TIDEWIRE_FD;
    this.#socket = new net.Socket({ fd, readable: true, writable: true });
    this.#socket.on("data", (data) => {
      this.#session.feed(data);
      this.flush();
      if (this.#isBlocked && this.#session.isFull()) this.#socket.pause();
    });
    this.#socket.on("error", (error) => this.#session.close(error.message));
    this.#socket.on("close", () => {
      this.#session.close("it closed the socket");
      // What was printed is on its way; whatever else would keep the program alive has nobody left.
      setTimeout(() => process.exit(), 200).unref();
    });
    this.flush();
    return this;
  }

  /** Writes what is queued, at the end of this turn: what arises together leaves together. */
  flush() {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    queueMicrotask(() => this.#write());
  }

  #write() {
    for (let data = this.#session.take(); data.length; data = this.#session.take()) {
      if (!this.#socket.write(data)) return void this.#wait();
    }
    this.#isFlushing = false;
    const { closed, isDraining, calls } = this.#session;
    if (closed !== undefined || (isDraining && !calls.size)) this.#socket.destroySoon();
  }

  /** The gateway does not read: what is to be written waits here. */
  #wait() {
    this.#isBlocked = true;
    this.#socket.once("drain", () => {
      this.#isBlocked = false;
      this.#socket.resume();
      this.#write();
    });
  }

  async #begin(call) {
    const context = new Context(this, call);
    try {
      await this.#answer(call, context);
    } catch (error) {
      let failed = error;
      if (!(error instanceof TidewireError)) {
        if (call.isOpen) console.error(error);
        failed = new TidewireError("internal", "the handler failed; its log says why");
      }
      this.#session.fail(call, failed, context.sources);
    }
    this.flush();
  }

  async #answer(call, context) {
    const pages = ["http", "fetch"].find((name) => this.#handlers.has(name));
    const handler = call.verb ? this.#handlers.get(pages) : this.#handlers.get(call.path);
    if (!handler) {
      throw new TidewireError("unimplemented", `this program does not serve ${call.path}`, {
        outcome: NOT_RUN,
      });
    }
    if (call.verb) return pages === "http" ? this.#listen(call, handler) : this.#fetch(call, handler);
    const request = handler.streams ? this.#requests(call) : decode(await this.#whole(call), call.isJson);
    const answer = await handler(request, context);
    if (answer?.[Symbol.asyncIterator] || (answer?.[Symbol.iterator] && answer.next)) {
      for await (const item of answer) {
        this.#session.begin(call, context.said);
        await this.#push(call, encode(item, call.isJson));
      }
      this.#session.begin(call, context.said);
      this.#session.finish(call, context.replyTrailers);
    } else this.#session.reply(call, encode(answer, call.isJson), context.said);
  }

  /** What the caller sends, item by item. */
  async *#items(call) {
    for (;;) {
      if (call.items.length) {
        yield this.#session.takeItem(call);
        this.flush();
      } else if (call.isWhole) return;
      else if (!call.isOpen) throw new TidewireError("canceled", GAVE_UP);
      else await call.change();
    }
  }

  async *#requests(call) {
    for await (const item of this.#items(call)) yield decode(item, call.isJson);
  }

  async #whole(call) {
    for await (const item of this.#items(call)) return item;
    return EMPTY;
  }

  /** Sends an item, and waits until there is room for another. */
  async #push(call, item) {
    if (!call.isOpen) throw new TidewireError("canceled", GAVE_UP);
    this.#session.push(call, item);
    this.flush();
    while (call.queued >= PAYLOAD_MAX && call.isOpen && !call.isStopped) await call.change();
  }

  /** Calls a method of the gateway. */
  async call(path, request, options = {}) {
    const isJson = !(request instanceof Uint8Array);
    const payload = encode(request, isJson);
    const { signal, deadline } = options;
    let call;
    for (;;) {
      const { within } = options;
      const parent = within?.isOpen && !within.hasHead ? within.number : undefined;
      if ((call = this.#session.ask(path, isJson, payload, { ...options, parent }))) break;
      await this.#session.room.change();
    }
    this.flush();
    const stops = () => {
      this.#session.cancel(call);
      call.wake();
      this.flush();
    };
    const timer =
      deadline === undefined ? undefined : setTimeout(stops, Math.max(0, deadline - performance.now()));
    signal?.addEventListener("abort", stops, { once: true });
    while (call.isOpen && !call.isCancelled && call.items.length < 2) await call.change();
    signal?.removeEventListener("abort", stops);
    clearTimeout(timer);
    if (signal?.aborted) throw signal.reason;
    if (call.isCancelled)
      throw new TidewireError("deadline_exceeded", "no answer in time", { outcome: UNKNOWN });
    if (call.error) throw call.error;
    if (call.items.length > 1) {
      stops();
      throw new TidewireError("unimplemented", `${path} streams its replies`, { outcome: UNKNOWN });
    }
    return decode(call.items.length ? call.items[0][0] : EMPTY, isJson);
  }

  /** Says that a source changed: no answer that was made of it is given any more. */
  changed(source, ...key) {
    this.#session.changed(source, keyText(key));
    this.flush();
  }

  /** A line in the gateway's log. */
  log(level, text, fields = {}) {
    this.#session.log(level, text, Object.entries(fields));
    this.flush();
  }

  /** Work that is no call: until the promise ends the program is neither frozen nor ended. */
  async busy(work) {
    const count = (more) => {
      this.#jobs += more;
      this.#session.busy(this.#jobs);
      this.flush();
    };
    count(1);
    return Promise.resolve(work).finally(() => count(-1));
  }

  // Pages.

  /** Sends a page: its head, and its body as it comes. */
  async #page(call, status, headers, body) {
    const hopByHop = ["connection", "keep-alive", "transfer-encoding"];
    this.#session.begin(call, { status, headers: headers.filter(([name]) => !hopByHop.includes(name)) });
    for await (const chunk of body ?? []) {
      for (let at = 0; at < chunk.length; at += PAYLOAD_MAX) {
        await this.#push(call, Buffer.from(chunk.subarray(at, at + PAYLOAD_MAX)));
      }
    }
    this.#session.finish(call);
  }

  /** A page of a handler in the manner of `fetch`. */
  async #fetch(call, handler) {
    const header = (name) => call.headers.find(([known]) => known === name)?.[1];
    const host = header("x-forwarded-host") || header("host") || "localhost";
    const items = this.#items(call);
    const body = new ReadableStream({
      async pull(controller) {
        const { done, value } = await items.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
    });
    const hasBody = call.verb !== "GET" && call.verb !== "HEAD";
    const request = new Request(`${header("x-forwarded-proto") || "http"}://${host}${call.path}`, {
      ...{ method: call.verb, headers: call.headers, signal: call.gone.signal },
      ...(hasBody ? { body, duplex: "half" } : {}),
    });
    const response = await handler(request);
    const cookies = response.headers.getSetCookie?.().map((cookie) => ["set-cookie", cookie]);
    const others = [...response.headers].filter(([name]) => !cookies || name !== "set-cookie");
    await this.#page(call, response.status, [...others, ...(cookies ?? [])], response.body);
  }

  /** A page of a listener of node:http, such as an Express application: through a server and a client of
   * node:http, which a pair of streams connects in place of a network. */
  async #listen(call, listener) {
    const { createServer, request } = require("node:http");
    const { pipeline } = require("node:stream");
    this.#server ??= createServer({ requireHostHeader: false }, listener);
    const [near, far] = streamPair();
    this.#server.emit("connection", far);
    const headers = {};
    for (const [name, value] of call.headers) (headers[name] ??= []).push(value);
    const options = {
      method: call.verb,
      path: call.path,
      headers,
      setHost: false,
      createConnection: () => near,
    };
    const asking = request({ ...options, signal: call.gone.signal });
    const answered = new Promise((resolve, reject) => asking.on("response", resolve).on("error", reject));
    pipeline(this.#items(call), asking, () => {});
    const response = await answered;
    const pairs = response.rawHeaders.flatMap((name, at, all) =>
      at % 2 ? [] : [[name.toLowerCase(), all[at + 1]]],
    );
    await this.#page(call, response.statusCode, pairs, response);
  }

  #server;
}

/** Two streams; what is written to one is read from the other. */
function streamPair() {
  const { Duplex } = require("node:stream");
  const ends = [0, 1].map(
    (own) =>
      new Duplex({
        read() {
          const taken = this.taken;
          this.taken = undefined;
          taken?.();
        },
        write(chunk, _, done) {
          ends[1 - own].taken = done;
          ends[1 - own].push(chunk);
        },
        final(done) {
          ends[1 - own].push(null);
          done();
        },
      }),
  );
  return ends;
}

/** Serves methods by their paths; `fetch` or `http` serve the pages of the program's `route`. */
function serve(handlers) {
  return new App(handlers).start();
}

module.exports = { serve, streaming, TidewireError, Session, Frame, putFrame, keyText, CODES };
