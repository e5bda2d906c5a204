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
// Messages are objects where tidewire.toml says codec = "json", else Uint8Arrays. What a program prints is
// in the gateway's log.
//
//  bytes ─▶ Session: frames, tables of calls, credit ─▶ App: handlers ─▶ Session ─▶ bytes
"use strict";

const http = require("node:http");
const net = require("node:net");

const VERSION = "0.1.0";
const CODES = ("ok canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied " +
  "resource_exhausted failed_precondition aborted out_of_range unimplemented internal unavailable data_loss " +
  "unauthenticated").split(" ");
const HEADERS = ("content-type authorization cookie set-cookie accept accept-encoding accept-language user-agent host " +
  "origin referer content-length content-encoding cache-control etag if-none-match if-modified-since last-modified " +
  "location vary date expires x-forwarded-for x-forwarded-proto x-request-id traceparent tracestate baggage").split(" ");
const TAGS = new Map(HEADERS.map((name, number) => [name, 64 + number]));
const LEVELS = { trace: 1, debug: 2, info: 3, warn: 4, error: 5 };
const HELLO = 1, REQUEST = 3, REPLY = 4, ERROR = 5, ITEMS = 6, ENDS = 7, CANCEL = 8, CREDIT = 9, PING = 10, PONG = 11,
  GOAWAY = 12, READY = 16, BUSY = 17, LOG = 18, CHANGED = 19;
const END = 1, HTTP = 4, MORE = 8, WATCHED = 16;
const MAGIC = 0x564c5754, PAYLOAD_MAX = 65536, PIECE = 16384, SMALL_MAX = 16376, BODY_MAX = 64 << 20;
const STREAM_CREDIT = 262144, CONNECTION_CREDIT = 1 << 20;
const MALFORMED = 5, UNEXPECTED = 7;
const NOT_RUN = 1, UNKNOWN = 2, RAN = 3;
const EMPTY = Buffer.alloc(0), CANCELED = 1, GAVE_UP = Buffer.from("the caller gave up");

/** Why a call failed: thrown by handlers for their callers, and by calls of the gateway. */
class TidewireError extends Error {
  constructor(code, message = "", { details = [], headers = [], trailers = [], outcome } = {}) {
    super(message);
    this.name = "TidewireError";
    this.code = CODES.includes(code) ? code : "unknown";
    Object.assign(this, { details, headers, trailers, outcome });
  }
}

/** The gateway broke a rule of the protocol. */
class Violation extends Error {
  constructor(reason, text) {
    super(text);
    this.reason = reason;
  }
}

// ------------------------------------------------------------------------------------------------ frames

function varint(value) {
  if (value < 0x80) return Buffer.from([value]);
  const bytes = [];
  while (value >= 0x80) {
    bytes.push((value % 0x80) | 0x80);
    value = Math.floor(value / 0x80);
  }
  bytes.push(value);
  return Buffer.from(bytes);
}

/** Reads numbers and strings of a buffer, in order. */
class Reader {
  constructor(data) {
    this.data = data;
    this.at = 0;
  }

  get isDone() {
    return this.at >= this.data.length;
  }

  byte() {
    if (this.isDone) throw new Violation(MALFORMED, "bytes are cut off");
    return this.data[this.at++];
  }

  varint() {
    let value = 0;
    for (let scale = 1; scale < 2 ** 56; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (value > Number.MAX_SAFE_INTEGER) break;
        return value;
      }
    }
    throw new Violation(MALFORMED, "a number that is too large");
  }

  string() {
    const length = this.varint();
    if (this.data.length - this.at < length) throw new Violation(MALFORMED, "a string is cut off");
    this.at += length;
    return this.data.subarray(this.at - length, this.at);
  }
}

const string = (value) => [varint(value.length), value];
const field = (tag, value) => Buffer.concat([Buffer.from([tag]), ...string(value)]);
const number = (tag, value) => field(tag, varint(value));
const numberOf = (fields, tag) => (fields.has(tag) ? new Reader(fields.get(tag)).varint() : undefined);

/** Headers as pairs; what the protocol cannot carry is left out. */
function putHeaders(headers) {
  const out = [];
  for (let [name, value] of headers) {
    name = String(name).toLowerCase();
    value = Buffer.isBuffer(value) ? value : Buffer.from(String(value));
    if (!/^[a-z0-9!#$%&'*+\-.^_`|~]{1,256}$/.test(name) || value.some((byte) => byte === 13 || byte === 10 || byte === 0)) continue;
    const tag = TAGS.get(name);
    if (tag) out.push(field(tag, value));
    else out.push(Buffer.from([0]), ...string(Buffer.from(name)), ...string(value));
  }
  return out.length ? Buffer.concat(out) : EMPTY;
}

function frame(kind, stream = 0, flags = 0, metadata = EMPTY, payload = EMPTY, deadline = 0) {
  const out = Buffer.allocUnsafe(16 + metadata.length + payload.length);
  out.writeUInt32LE(metadata.length + payload.length, 0);
  out.writeUInt32LE(stream, 4);
  out[8] = kind;
  out[9] = flags;
  out.writeUInt16LE(metadata.length, 10);
  out.writeUInt32LE(deadline, 12);
  metadata.copy(out, 16);
  payload.copy(out, 16 + metadata.length);
  return out;
}

/** The fields of a frame by their tags, its headers and its trailers. */
function readMetadata(data) {
  const fields = new Map(), headers = [], trailers = [], details = [];
  const reader = new Reader(data);
  let into = headers;
  while (!reader.isDone) {
    const tag = reader.byte();
    const name = tag === 0 ? reader.string().toString("latin1") : HEADERS[tag - 64];
    const value = reader.string();
    if (tag === 0 || (tag >= 64 && name)) into.push([name, value.toString("utf8")]);
    else if (tag === 7) into = trailers;
    else if (tag === 10) details.push(value);
    else fields.set(tag, value);
  }
  return { fields, headers, trailers, details };
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

const named = (source, key) => Buffer.concat([...string(Buffer.from(source)), ...string(Buffer.from(key))]);

// ----------------------------------------------------------------------------------------------- session

/** One call, of either side: what came of it, and what is to be sent. */
class Stream {
  constructor(number) {
    Object.assign(this, {
      number, isOpen: true, isCancelled: false, waiting: [],
      // What the peer sends: items with what each costs, pieces of one that is not complete.
      items: [], partial: [], partialBytes: 0, isStreaming: false, isWhole: false, held: 0, owed: 0, gathers: false,
      // What this side sends: chunks of items, then the frame that ends it.
      chunks: [], lastIsOpen: false, outstanding: 0, last: null, queued: 0, isStopped: false, isBlocked: false,
    });
  }

  ring() {
    const waiting = this.waiting;
    this.waiting = [];
    for (const wake of waiting) wake();
  }

  /** Waits until something came, went, or ended. */
  change() {
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}

/** This side of the protocol without a socket: bytes in, bytes and events out. */
class Session {
  constructor({ agent = "tidewire-node/" + VERSION, bodyMax = BODY_MAX, now = () => performance.now() } = {}) {
    Object.assign(this, {
      bodyMax, now, events: [], data: EMPTY, control: [], main: [], isGreeted: false, isDraining: false, closed: null,
      methods: [], called: new Map(), calls: new Map(), asked: new Map(), free: [], slots: 0, line: [], blocked: new Set(),
      connectionOut: 0, connectionOwed: 0, nextCommand: 1, ended: new Set(), done: 1,
    });
    const hello = [Buffer.from([1, 4, 1, 0, 1, 0]), number(2, 2 | 32), number(3, 32)];
    if (bodyMax !== 4 << 20) hello.push(number(4, bodyMax));
    hello.push(field(16, Buffer.from(agent)));
    this.control.push(frame(HELLO, 0, 0, EMPTY, Buffer.concat(hello), MAGIC));
  }

  /** Takes bytes that came; what is wrong with them ends the session. */
  feed(data) {
    this.data = this.data.length ? Buffer.concat([this.data, data]) : data;
    let at = 0;
    try {
      while (this.closed === null && this.data.length - at >= 16) {
        const length = this.data.readUInt32LE(at), meta = this.data.readUInt16LE(at + 10);
        if (meta > length || length - meta > PAYLOAD_MAX) throw new Violation(4, "a frame over the limit");
        if (this.data.length - at < 16 + length) break;
        const body = at + 16, head = at;
        at = body + length;
        this.receive(this.data[head + 8], this.data.readUInt32LE(head + 4), this.data[head + 9],
          this.data.subarray(body, body + meta), this.data.subarray(body + meta, at), this.data.readUInt32LE(head + 12));
      }
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      this.leave(error.reason, error.message);
    }
    this.data = at === this.data.length ? EMPTY : this.data.subarray(at);
  }

  /** The bytes to be written now: connection frames, calls, then a turn for each stream. */
  take() {
    const out = [...this.control, ...this.main];
    this.control = [];
    this.main = [];
    let bytes = out.reduce((sum, part) => sum + part.length, 0);
    const put = (part) => {
      out.push(part);
      bytes += part.length;
    };
    while (this.line.length && bytes < 64 << 10) {
      const stream = this.line.shift();
      if (stream.chunks.length) {
        if (stream.outstanding >= this.peer.streamCredit || this.connectionOut >= this.peer.connectionCredit) {
          stream.isBlocked = true;
          this.blocked.add(stream);
          continue;
        }
        const { parts, size, more } = stream.chunks.shift();
        stream.lastIsOpen = stream.lastIsOpen && stream.chunks.length > 0;
        stream.queued -= size;
        stream.outstanding += size;
        this.connectionOut += size;
        put(frame(ITEMS, stream.number, more ? MORE : 0, EMPTY, parts.length === 1 ? parts[0] : Buffer.concat(parts)));
        stream.ring();
        if (stream.chunks.length) {
          this.line.push(stream);
          continue;
        }
      }
      if (stream.last) {
        put(stream.last);
        stream.last = null;
        if (!stream.isAsked) this.forget(stream);
      }
    }
    return out.length === 1 ? out[0] : Buffer.concat(out);
  }

  leave(reason, text) {
    if (this.closed !== null) return;
    this.main.push(frame(GOAWAY, 0, 0, Buffer.concat([text ? field(9, Buffer.from(text)) : EMPTY, number(16, reason)])));
    this.close(text || `reason ${reason}`);
  }

  /** The session is over: whoever waits is told. */
  close(why) {
    if (this.closed !== null) return;
    this.closed = why;
    for (const call of [...this.asked.values()]) {
      const outcome = call.command ? UNKNOWN : NOT_RUN;
      this.endAsked(call, new TidewireError("unavailable", "the gateway is gone: " + why, { outcome }));
    }
    for (const call of [...this.calls.values()]) this.giveUp(call);
    this.events.push(["closed"]);
  }

  receive(kind, stream, flags, metadata, payload, deadline) {
    if (!this.isGreeted && kind !== HELLO && kind !== GOAWAY) throw new Violation(1, "the first frame is not a hello");
    if (kind === REQUEST) this.onRequest(stream, flags, metadata, payload, deadline);
    else if (kind === ITEMS) this.onItems(this.find(stream), flags, payload);
    else if (kind === ENDS) this.onEnd(this.find(stream), metadata);
    else if (kind === CANCEL) this.onCancel(this.find(stream));
    else if (kind === CREDIT) this.onCredit(stream, payload);
    else if (kind === REPLY || kind === ERROR) this.onAnswer(kind, stream, flags, metadata, payload);
    else if (kind === PING) this.control.push(frame(PONG, 0, 0, EMPTY, payload));
    else if (kind === HELLO) this.onHello(payload, deadline);
    else if (kind === GOAWAY) {
      const { fields } = readMetadata(metadata);
      const reason = numberOf(fields, 16) || 0;
      if (reason || !this.isGreeted) return this.close((fields.get(9) || "").toString() || `reason ${reason}`);
      this.isDraining = true;
    }
  }

  find(stream) {
    if (stream % 2 === 0) return this.calls.get(stream);
    const call = this.asked.get(stream);
    if (!call) throw new Violation(8, `stream ${stream} is not open`);
    return call;
  }

  onHello(payload, magic) {
    if (this.isGreeted) throw new Violation(UNEXPECTED, "a second hello");
    if (magic !== MAGIC) throw new Violation(1, "not a hello");
    const said = new Map(), reader = new Reader(payload);
    while (!reader.isDone) said.set(reader.byte(), reader.string());
    if (!said.get(1)?.equals(Buffer.from([1, 0, 1, 0]))) throw new Violation(2, "this side speaks version 1");
    if (!((numberOf(said, 2) || 0) & 32)) throw new Violation(3, "the gateway hosts no processes");
    this.peer = {
      bodyMax: numberOf(said, 4) ?? 4 << 20, callsMax: numberOf(said, 5) ?? 1024, methodsMax: numberOf(said, 7) ?? 1024,
      streamCredit: numberOf(said, 8) ?? STREAM_CREDIT, connectionCredit: numberOf(said, 9) ?? CONNECTION_CREDIT,
      metadataMax: numberOf(said, 10) ?? 16384,
    };
    this.isGreeted = true;
    this.events.push(["ready"]);
  }

  onRequest(stream, flags, metadata, payload, deadline) {
    if (stream === 0 || stream % 2) throw new Violation(10, `a request on stream ${stream}`);
    if (this.calls.has(stream)) throw new Violation(9, `a request on stream ${stream}`);
    const { fields, headers } = readMetadata(metadata);
    const call = new Stream(stream);
    if (flags & HTTP) {
      if (!fields.has(12) || !fields.has(13)) throw new Violation(MALFORMED, "HTTP without method or target");
      [call.verb, call.path] = [fields.get(12).toString("latin1"), fields.get(13).toString("latin1")];
    } else [call.isJson, call.path] = this.method(fields);
    Object.assign(call, {
      headers, payload, deadline: deadline ? this.now() + deadline : undefined, isCommand: fields.has(3),
      isStreaming: !(flags & END), isWhole: Boolean(flags & END), hasHead: false,
    });
    this.calls.set(stream, call);
    this.events.push(["request", call]);
  }

  method(fields) {
    const name = fields.get(2), known = numberOf(fields, 1);
    const said = name && [name[0] === 1, name.subarray(1).toString().replace(/^\//, "")];
    if (known === undefined) {
      if (!said) throw new Violation(MALFORMED, "a request without a method");
      return said;
    }
    if (said) {
      if (known !== this.methods.length) throw new Violation(14, "a method's number out of turn");
      this.methods.push(said);
    }
    if (known >= this.methods.length) throw new Violation(13, `method ${known} was not named`);
    return this.methods[known];
  }

  onItems(call, flags, payload) {
    if (!call || !call.isOpen) return this.consumed(null, payload.length);
    if (call.isWhole) throw new Violation(UNEXPECTED, "items where no stream is open");
    call.held += payload.length;
    if (flags & MORE || call.partial.length) {
      call.partial.push(Buffer.from(payload));
      call.partialBytes += payload.length;
      if (call.partialBytes > this.bodyMax) throw new Violation(4, "an item over body_max");
      // What is put together here is taken at once: it is bounded by body_max.
      this.consumed(call, payload.length);
      if (!(flags & MORE)) {
        call.items.push([Buffer.concat(call.partial), 0]);
        [call.partial, call.partialBytes] = [[], 0];
      }
    } else {
      const reader = new Reader(Buffer.from(payload));
      while (!reader.isDone) {
        const item = reader.string();
        call.items.push([item, reader.isDone ? payload.length : 0]);
      }
      if (call.gathers) this.consumed(call, payload.length);
    }
    call.ring();
  }

  onEnd(call, metadata) {
    if (!call) return;
    if (call.isAsked) {
      call.trailers = readMetadata(metadata).headers;
      return this.endAsked(call, null);
    }
    call.isWhole = true;
    call.ring();
  }

  onCredit(stream, payload) {
    const amount = new Reader(payload).varint();
    if (stream === 0) {
      this.connectionOut = Math.max(0, this.connectionOut - amount);
      for (const call of this.blocked) this.unblock(call);
      return;
    }
    const call = this.find(stream);
    if (!call) return;
    call.outstanding = Math.max(0, call.outstanding - amount);
    if (call.isBlocked) this.unblock(call);
  }

  unblock(call) {
    this.blocked.delete(call);
    call.isBlocked = false;
    this.line.push(call);
  }

  onCancel(call) {
    if (!call) return;
    if (call.isAsked) {
      call.isStopped = true;
      return call.ring();
    }
    if (call.isCancelled) return;
    call.isCancelled = true;
    if (!call.isCommand || call.isStreaming || call.hasHead) {
      this.main.push(frame(ERROR, call.number, 0, Buffer.concat([number(8, CANCELED), field(9, GAVE_UP)])));
      this.giveUp(call);
    }
  }

  giveUp(call) {
    this.forget(call);
    call.isCancelled = true;
    this.events.push(["cancelled", call]);
    call.ring();
  }

  /** A call of the gateway is over. */
  forget(call) {
    if (!this.calls.delete(call.number)) return;
    call.isOpen = false;
    this.drop(call);
    call.ring();
  }

  /** Nothing of a call is read or sent any more. */
  drop(call) {
    if (call.held) this.consumed(null, call.held);
    Object.assign(call, { held: 0, chunks: [], last: null, isBlocked: false });
    this.blocked.delete(call);
  }

  onAnswer(kind, stream, flags, metadata, payload) {
    const call = this.asked.get(stream);
    if (!call) throw new Violation(stream % 2 ? 8 : 10, `an answer on stream ${stream}`);
    const { fields, headers, trailers, details } = readMetadata(metadata);
    if (flags & WATCHED || (kind === REPLY && call.reply && !(flags & END))) {
      throw new Violation(UNEXPECTED, "an answer that was not asked for");
    }
    if (kind === ERROR) {
      const code = CODES[numberOf(fields, 8)] || "unknown";
      const of = (detail) => {
        const reader = new Reader(detail);
        return [reader.string().toString(), Buffer.from(detail.subarray(reader.at))];
      };
      return this.endAsked(call, new TidewireError(code, (fields.get(9) || "").toString(),
        { details: details.map(of), headers, trailers, outcome: numberOf(fields, 11) }));
    }
    Object.assign(call, { reply: Buffer.from(payload), headers });
    if (flags & END) {
      call.trailers = trailers;
      return this.endAsked(call, null);
    }
    call.isStreamCall = true;
    call.ring();
  }

  endAsked(call, error) {
    if (!call.isOpen) return;
    Object.assign(call, { isOpen: false, isWhole: true, error, chunks: [], last: null });
    if (call.isStreamCall && this.closed === null) this.control.push(frame(CREDIT, call.number, END, EMPTY, varint(0)));
    this.asked.delete(call.number);
    this.free.push(call.number);
    this.blocked.delete(call);
    if (call.command) {
      this.ended.add(call.command);
      while (this.ended.delete(this.done)) this.done += 1;
    }
    this.events.push(["room"]);
    call.ring();
  }

  // -- what the application does

  /** Items were taken: the peer may send as much again. */
  consumed(call, size) {
    this.connectionOwed += size;
    if (this.connectionOwed * 4 >= CONNECTION_CREDIT) {
      this.control.push(frame(CREDIT, 0, 0, EMPTY, varint(this.connectionOwed)));
      this.connectionOwed = 0;
    }
    if (!call) return;
    call.held -= size;
    call.owed += size;
    if (call.owed * 4 >= STREAM_CREDIT && !call.isWhole) {
      this.control.push(frame(CREDIT, call.number, 0, EMPTY, varint(call.owed)));
      call.owed = 0;
    }
  }

  takeItem(call) {
    const [item, cost] = call.items.shift();
    if (cost && call.held && !call.gathers) this.consumed(call, cost);
    return item;
  }

  ready() {
    this.control.push(frame(READY));
  }

  busy(jobs) {
    this.control.push(frame(BUSY, 0, 0, EMPTY, varint(jobs)));
  }

  log(level, text, fields) {
    const metadata = Buffer.concat([number(17, LEVELS[level] || 3), putHeaders(fields)]);
    if (metadata.length < 16000) this.control.push(frame(LOG, 0, 0, metadata, Buffer.from(text).subarray(0, PAYLOAD_MAX)));
  }

  changed(source, key) {
    this.main.push(frame(CHANGED, 0, 0, EMPTY, named(source, key)));
  }

  head({ headers = [], trailers = [], depends = [], status, maxAge }) {
    const parts = [];
    if (maxAge !== undefined) parts.push(number(5, maxAge));
    if (status !== undefined && status !== 200) parts.push(number(14, status));
    parts.push(putHeaders(headers), ...depends.map(([source, key]) => field(15, named(source, key))));
    if (trailers.length) parts.push(field(7, EMPTY), putHeaders(trailers));
    const metadata = Buffer.concat(parts);
    if (metadata.length > this.peer.metadataMax) throw new TidewireError("internal", "headers are over metadata_max");
    return metadata;
  }

  /** Answers a call whole. */
  reply(call, payload, said = {}) {
    if (!call.isOpen) return;
    if (payload.length > this.peer.bodyMax) {
      const text = `a reply of ${payload.length} bytes is over body_max = ${this.peer.bodyMax}`;
      return this.fail(call, new TidewireError("resource_exhausted", text, { outcome: RAN }));
    }
    if (call.isCancelled) return this.fail(call, null);
    if (payload.length > SMALL_MAX) {
      this.begin(call, { ...said, trailers: [] });
      this.push(call, payload);
      return this.finish(call, said.trailers);
    }
    this.main.push(frame(REPLY, call.number, END | (call.verb ? HTTP : 0), this.head(said), payload));
    this.forget(call);
  }

  /** Sends the head of an answer whose items follow. */
  begin(call, said = {}) {
    if (!call.isOpen || call.hasHead) return;
    const metadata = this.head(said);
    call.hasHead = true;
    this.main.push(frame(REPLY, call.number, call.verb ? HTTP : 0, metadata));
  }

  /** Queues an item; there is room for more while `queued` is small. */
  push(call, item) {
    if (!call.isOpen || call.isStopped) return;
    const wasIdle = call.chunks.length === 0;
    if (item.length > PIECE) {
      for (let at = 0; at < item.length; at += PIECE) {
        const part = item.subarray(at, at + PIECE);
        call.chunks.push({ parts: [part], size: part.length, more: at + PIECE < item.length });
      }
      call.queued += item.length;
      call.lastIsOpen = false;
    } else {
      const parts = string(item), size = parts[0].length + item.length;
      const last = call.chunks[call.chunks.length - 1];
      if (call.lastIsOpen && last && last.size + size <= PIECE) {
        last.parts.push(...parts);
        last.size += size;
      } else call.chunks.push({ parts, size, more: false });
      call.lastIsOpen = true;
      call.queued += size;
    }
    if (wasIdle && !call.isBlocked) this.line.push(call);
  }

  /** No more items: ends a call of the gateway, or the request of one of this side. */
  finish(call, trailers = []) {
    if (!call.isOpen || call.last) return;
    call.last = frame(ENDS, call.number, 0, putHeaders(trailers));
    if (!call.chunks.length) this.line.push(call);
  }

  /** Ends a call with an error; null for a command whose caller gave up. */
  fail(call, error) {
    if (!call.isOpen) return;
    const parts = [];
    if (call.isCancelled) parts.push(number(8, CANCELED), field(9, GAVE_UP), number(11, RAN));
    else {
      parts.push(number(8, CODES.indexOf(error.code) || 2));
      if (error.message) parts.push(field(9, Buffer.from(error.message).subarray(0, 4096)));
      for (const [name, value] of error.details) parts.push(field(10, Buffer.concat([...string(Buffer.from(name)), value])));
      if (error.outcome !== undefined) parts.push(number(11, error.outcome));
      parts.push(putHeaders(error.headers));
      if (error.trailers.length) parts.push(field(7, EMPTY), putHeaders(error.trailers));
    }
    const out = frame(ERROR, call.number, 0, Buffer.concat(parts));
    if (call.chunks.length) call.last = out;
    else {
      this.main.push(out);
      this.forget(call);
    }
  }

  /** Calls the gateway; undefined while no call is free. */
  ask(path, isJson, payload, { headers = [], parent, query = false, deadline, streams = false } = {}) {
    if (this.closed !== null || this.isDraining) {
      throw new TidewireError("unavailable", "the gateway takes no calls any more", { outcome: NOT_RUN });
    }
    if (this.asked.size >= this.peer.callsMax) return undefined;
    const call = new Stream(this.free.length ? this.free.pop() : 2 * this.slots++ + 1);
    const codec = isJson ? 1 : 0, key = codec + path, parts = [];
    let known = this.called.get(key);
    if (known !== undefined) parts.push(number(1, known));
    else {
      if (this.called.size < this.peer.methodsMax) {
        known = this.called.size;
        this.called.set(key, known);
        parts.push(number(1, known));
      }
      parts.push(field(2, Buffer.concat([Buffer.from([codec]), Buffer.from("/" + path)])));
    }
    Object.assign(call, { isAsked: true, isJson, command: query ? 0 : this.nextCommand });
    if (!query) parts.push(field(3, Buffer.concat([varint(this.nextCommand++), varint(this.done)])));
    if (parent?.isOpen && !parent.hasHead) parts.push(number(19, parent.number));
    parts.push(putHeaders(headers));
    const isSmall = !streams && payload.length <= SMALL_MAX;
    const left = deadline === undefined ? 0 : Math.max(1, Math.ceil(deadline - this.now()));
    this.asked.set(call.number, call);
    this.main.push(frame(REQUEST, call.number, isSmall ? END : 0, Buffer.concat(parts), isSmall ? payload : EMPTY, left));
    call.isStreamCall = !isSmall;
    if (!isSmall && !streams) {
      this.push(call, payload);
      this.finish(call);
    }
    return call;
  }

  /** Gives a call of this side up. */
  cancel(call) {
    this.drop(call);
    if (call.isOpen && !call.isCancelled) {
      call.isCancelled = true;
      this.main.push(frame(CANCEL, call.number));
    }
  }
}

// ------------------------------------------------------------------------------------------------- calls

const decode = (data, isJson) => (isJson ? JSON.parse(data.toString()) : data);

function encode(value, isJson) {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (isJson) return Buffer.from(JSON.stringify(value ?? {}));
  throw new TypeError("a message is bytes; write codec = \"json\" for this service in tidewire.toml to send objects");
}

/** What surrounds a call: who asks, until when, and what the answer is made of. */
class Context {
  #app;
  #call;
  #gone = new AbortController();

  constructor(app, call) {
    this.#app = app;
    this.#call = call;
    this.headers = call.headers;
    this.replyHeaders = [];
    this.replyTrailers = [];
    this.maxAge = undefined;
    this.sources = [];
    call.gone = this.#gone;
  }

  /** The first value of a header. */
  header(name) {
    return this.headers.find(([known]) => known === name.toLowerCase())?.[1];
  }

  /** Aborted when the caller gave up, its deadline passed among the reasons; a command runs on. */
  get signal() {
    return this.#gone.signal;
  }

  /** Milliseconds until the deadline; undefined without one. */
  get remaining() {
    return this.#call.deadline === undefined ? undefined : Math.max(0, this.#call.deadline - performance.now());
  }

  /** The answer was made of this, and is kept until it changes. */
  depends(source, ...key) {
    this.sources.push([source, keyText(key)]);
  }

  /** This changed: whoever asks after this call is answered sees it. */
  changed(source, ...key) {
    this.#app.changed(source, ...key);
  }

  log(level, text, fields) {
    this.#app.log(level, text, fields);
  }

  /** Calls a method of the gateway as part of this call. */
  call(path, request, options = {}) {
    return this.#app.call(path, request, { deadline: this.#call.deadline, ...options, parent: this.#call });
  }

  get said() {
    return { headers: this.replyHeaders, trailers: this.replyTrailers, depends: this.sources, maxAge: this.maxAge };
  }
}

/** Marks a handler that is given an asynchronous iterator of requests. */
function streaming(handler) {
  const marked = (...args) => handler(...args);
  marked.streams = true;
  return marked;
}

class App {
  constructor(handlers) {
    this.handlers = new Map();
    for (const [path, handler] of Object.entries(handlers)) this.handlers.set(path.replace(/^\//, ""), handler);
    this.jobs = 0;
    this.waiting = [];
  }

  start() {
    const fd = Number(process.env.TIDEWIRE_FD);
    if (!process.env.TIDEWIRE_FD) {
      throw new Error("this program is started by Tidewire: write a [[service]] with run = [...] into tidewire.toml, " +
        "and call it through `tidewire serve`");
    }
    delete process.env.TIDEWIRE_FD;
    this.session = new Session();
    this.socket = new net.Socket({ fd, readable: true, writable: true });
    this.socket.on("data", (data) => {
      this.session.feed(data);
      this.#hear();
    });
    const ends = (why) => {
      this.session.close(why);
      this.#hear();
      // What was printed is on its way; whatever else would keep the program alive has nobody left.
      setTimeout(() => process.exit(), 200).unref();
    };
    this.socket.on("error", (error) => ends(error.message));
    this.socket.on("close", () => ends("it closed the socket"));
    this.flush();
    return this;
  }

  /** Writes what is queued, at the end of this turn: what arises together leaves together. */
  flush() {
    if (this.isFlushing) return;
    this.isFlushing = true;
    queueMicrotask(() => this.#write());
  }

  #write() {
    for (;;) {
      const data = this.session.take();
      if (!data.length) break;
      if (!this.socket.write(data)) return void this.socket.once("drain", () => this.#write());
    }
    this.isFlushing = false;
    if (this.session.closed !== null) this.socket.end();
  }

  #hear() {
    const events = this.session.events;
    this.session.events = [];
    for (const [name, call] of events) {
      if (name === "ready") this.session.ready();
      else if (name === "request") this.#begin(call);
      else if (name === "cancelled") call.gone?.abort();
    }
    const waiting = this.waiting;
    this.waiting = [];
    for (const wake of waiting) wake();
    this.flush();
    if (this.session.isDraining && !this.session.calls.size && !this.session.asked.size) this.socket.end();
  }

  async #begin(call) {
    try {
      await (call.verb ? this.#page(call) : this.#answer(call));
    } catch (error) {
      if (error instanceof TidewireError) this.session.fail(call, error);
      else if (call.isOpen) {
        console.error(error);
        this.session.fail(call, new TidewireError("internal", "the handler failed; its log says why"));
      }
    }
    this.flush();
  }

  async #answer(call) {
    const handler = this.handlers.get(call.path);
    if (!handler) {
      throw new TidewireError("unimplemented", `this program serves no method ${call.path}`, { outcome: NOT_RUN });
    }
    const context = new Context(this, call);
    const request = handler.streams ? this.#requests(call) : decode(await this.#whole(call), call.isJson);
    let answer = handler(request, context);
    if (answer?.[Symbol.asyncIterator] || answer?.[Symbol.iterator] && answer.next) {
      for await (const item of answer) {
        this.session.begin(call, { ...context.said, trailers: [] });
        await this.#push(call, encode(item, call.isJson));
      }
      this.session.begin(call, { ...context.said, trailers: [] });
      return this.session.finish(call, context.replyTrailers);
    }
    answer = encode(await answer, call.isJson);
    this.session.reply(call, answer, context.said);
  }

  async #whole(call) {
    if (!call.isStreaming) return Buffer.from(call.payload);
    call.gathers = true;
    while (!call.isWhole && call.isOpen) await call.change();
    if (!call.isOpen) throw new TidewireError("canceled", "the caller gave up");
    return Buffer.concat(call.items.map(([item]) => item));
  }

  async *#items(call) {
    if (call.payload?.length && !call.isStreaming) yield Buffer.from(call.payload);
    for (;;) {
      if (call.items.length) {
        const item = this.session.takeItem(call);
        this.flush();
        yield item;
      } else if (call.isWhole) return;
      else if (!call.isOpen) throw new TidewireError("canceled", "the caller gave up");
      else await call.change();
    }
  }

  async *#requests(call) {
    for await (const item of this.#items(call)) yield decode(item, call.isJson);
  }

  async #push(call, item) {
    if (!call.isOpen) throw new TidewireError("canceled", "the caller gave up");
    this.session.push(call, item);
    this.flush();
    while (call.queued >= 65536 && call.isOpen && !call.isStopped) await call.change();
  }

  /** Calls a method of the gateway. */
  async call(path, request, options = {}) {
    const isJson = !(request instanceof Uint8Array);
    const payload = encode(request, isJson);
    let call;
    while (!(call = this.session.ask(path.replace(/^\//, ""), isJson, payload, options))) {
      await new Promise((resolve) => this.waiting.push(resolve));
    }
    call.gathers = true;
    this.flush();
    const { signal } = options;
    const stops = () => {
      this.session.cancel(call);
      this.flush();
      call.ring();
    };
    signal?.addEventListener("abort", stops, { once: true });
    try {
      while (call.isOpen && !call.isCancelled) await call.change();
    } finally {
      signal?.removeEventListener("abort", stops);
    }
    if (call.isCancelled) throw signal.reason;
    if (call.error) throw call.error;
    return decode(call.items.length ? call.items[0][0] : call.reply, isJson);
  }

  changed(source, ...key) {
    this.session.changed(source, keyText(key));
    this.flush();
  }

  log(level, text, fields = {}) {
    this.session.log(level, text, Object.entries(fields));
    this.flush();
  }

  /** Work that is no call: until the promise ends the program is neither frozen nor ended. */
  async busy(work) {
    this.session.busy(++this.jobs);
    this.flush();
    try {
      return await work;
    } finally {
      this.session.busy(--this.jobs);
      this.flush();
    }
  }

  // -- pages

  async #page(call) {
    const { fetch, http: listener } = { fetch: this.handlers.get("fetch"), http: this.handlers.get("http") };
    if (listener) return this.#listen(call, listener);
    if (!fetch) throw new TidewireError("unimplemented", "this program serves no pages", { outcome: NOT_RUN });
    const header = (name) => call.headers.find(([known]) => known === name)?.[1];
    const url = `${header("x-forwarded-proto") || "http"}://${header("x-forwarded-host") || header("host") || "localhost"}`;
    const hasBody = call.verb !== "GET" && call.verb !== "HEAD";
    const items = this.#items(call);
    const body = new ReadableStream({
      async pull(controller) {
        const { done, value } = await items.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
    });
    const gone = call.gone = new AbortController();
    const request = new Request(url + call.path, {
      method: call.verb, headers: call.headers, signal: gone.signal, ...(hasBody ? { body, duplex: "half" } : {}),
    });
    const response = await fetch(request);
    const headers = [...response.headers].filter(([name]) => name !== "set-cookie");
    for (const cookie of response.headers.getSetCookie?.() || []) headers.push(["set-cookie", cookie]);
    this.session.begin(call, { headers, status: response.status });
    for await (const chunk of response.body || []) {
      if (chunk.length) await this.#push(call, Buffer.from(chunk));
    }
    this.session.finish(call);
  }

  /** A page of a listener of node:http, such as an Express application. */
  #listen(call, listener) {
    const socket = new net.Socket();
    const request = new http.IncomingMessage(socket);
    Object.assign(request, { method: call.verb, url: call.path, httpVersion: "1.1", httpVersionMajor: 1, httpVersionMinor: 1 });
    for (const [name, value] of call.headers) {
      request.rawHeaders.push(name, value);
      request._addHeaderLine(name, value, request.headers);
    }
    const items = this.#items(call);
    // Its constructor leaves this to its own `_read`, which reads of a socket.
    request._readableState.readingMore = false;
    request._read = () => {
      items.next().then(({ done, value }) => {
        if (done) request.complete = true;
        request.push(done ? null : value);
      }, (error) => request.destroy(error));
    };
    const response = new HttpResponse(request, this, call);
    call.gone = { abort: () => { request.emit("aborted"); response.emit("close"); } };
    return new Promise((resolve, reject) => {
      response.on("finish", resolve);
      response.on("error", reject);
      response.on("close", resolve);
      listener(request, response);
    });
  }
}

/** What a listener of node:http answers by: its frames in place of HTTP/1. */
class HttpResponse extends http.ServerResponse {
  #app;
  #call;

  constructor(request, app, call) {
    super(request);
    this.#app = app;
    this.#call = call;
    this.useChunkedEncodingByDefault = false;
    this.sendDate = false;
  }

  writeHead(status, ...rest) {
    const headers = rest.pop();
    const pairs = Array.isArray(headers) ? headers.flatMap((value, at) => (at % 2 ? [] : [[value, headers[at + 1]]]))
      : Object.entries(typeof headers === "object" && headers || {});
    for (const [name, value] of pairs) this.setHeader(name, value);
    return super.writeHead(status);
  }

  _send(data, encoding, callback) {
    if (typeof encoding === "function") [encoding, callback] = [undefined, encoding];
    const { session } = this.#app;
    if (!this.#call.hasHead) {
      const headers = Object.entries(this.getHeaders()).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
      const own = headers.filter(([name]) => !["connection", "transfer-encoding", "keep-alive"].includes(name));
      session.begin(this.#call, { headers: own, status: this.statusCode });
      this._headerSent = true;
    }
    const bytes = Buffer.from(data ?? "", typeof data === "string" ? encoding : undefined);
    if (bytes.length && this.req.method !== "HEAD") session.push(this.#call, bytes);
    this.#app.flush();
    if (callback) queueMicrotask(() => callback());
    const hasRoom = this.#call.queued < 65536;
    if (!hasRoom) this.#room();
    return hasRoom;
  }

  async #room() {
    while (this.#call.queued >= 65536 && this.#call.isOpen) await this.#call.change();
    this.emit("drain");
  }

  end(...args) {
    super.end(...args);
    this.#app.session.finish(this.#call);
    this.#app.flush();
    return this;
  }
}

/** Serves methods by their paths; `fetch` or `http` serve the pages of the program's `route`. */
function serve(handlers) {
  return new App(handlers).start();
}

module.exports = { serve, streaming, TidewireError, Session, keyText, readMetadata, frame };
