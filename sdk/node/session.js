// This side of the live protocol without a socket: bytes in, bytes and calls out.
"use strict";

const { CODES, NOT_RUN, UNKNOWN, RAN, GAVE_UP, TidewireError, Violation } = require("./frames.js");
const { must, REASONS, FLAG, TAG, LEVELS, MAGIC, PAYLOAD_MAX, PIECE } = require("./frames.js");
const { SMALL_MAX, BODY_MAX, EMPTY, putVarint, putString, putField } = require("./frames.js");
const { putHeaders, logField, putDepends, cut, putFrame, Reader, Frame, numberOf, wholeNumber } = require("./frames.js");

const VERSION = "0.1.0";
const HOSTED = 32;
const [METADATA_MAX, CALLS_MAX, METHODS_MAX, OUTPUT_MAX] = [16384, 1024, 1024, 1 << 20];
const OF_CALLS = new Set(["request", "reply", "error", "items", "end"]);
const OF_BOTH = new Set(["cancel", "credit", "unknown"]);
/** What a process, which watches and resumes nothing, is never sent, with the reasons. */
const NEVER = { stale: "unknownStream", resume: "unexpected", resumed: "unexpected" };

/** One call, of either side: what came of it, and what is to be sent. */
class Call {
  constructor(number) {
    this.number = number;
    this.isOurs = number % 2 === 1;
    this.isOpen = true;
    this.isCancelled = this.runsOn = false;
    this.headers = [];
    this.waiting = [];
    // What comes: items with what each counts as, and pieces of one that is not complete.
    this.items = [];
    this.partial = EMPTY;
    this.partialBytes = 0;
    this.received = 0;
    this.owed = 0;
    this.hasHead = false;
    this.isStreaming = false;
    this.isWhole = false;
    // What goes: items with their sizes, and at the end a frame without.
    this.out = [];
    this.queued = 0;
    this.outstanding = 0;
  }

  /** What tells that the caller gave up; made for who asks, as most do not. */
  get gone() {
    return (this.controller ??= new AbortController());
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

/** What the gateway takes, by the fields of its hello. */
function peerOf(said) {
  return {
    bodyMax: numberOf(said, 4, 4 << 20),
    callsMax: numberOf(said, 5, 1024),
    methodsMax: numberOf(said, 7, 1024),
    streamCredit: numberOf(said, 8, 262144),
    connectionCredit: numberOf(said, 9, 1 << 20),
    metadataMax: numberOf(said, 10, 16384),
  };
}

/** A connection and its calls: who owns it writes what `take` gives. */
class Session {
  constructor({ begin = () => {}, agent = "tidewire-node/" + VERSION, windows = {} } = {}) {
    this.begins = begin;
    this.windows = { stream: 262144, connection: 1 << 20, ...windows };
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
    this.peer = peerOf(new Map());
    const hello = [putField(1, [1, 0, 1, 0]), putField(2, 2 | HOSTED), putField(3, HOSTED)];
    hello.push(putField(4, BODY_MAX), putField(16, agent));
    this.control.push(putFrame("hello", 0, 0, EMPTY, Buffer.concat(hello), MAGIC));
  }

  // What comes.

  /** Takes bytes that came; what is wrong with them ends the session. */
  feed(data) {
    data = this.data.length ? Buffer.concat([this.data, data]) : data;
    try {
      while (this.closed === undefined && data.length >= 16) {
        const length = data.readUInt32LE(0);
        const metadata = data.readUInt16LE(10);
        must(metadata <= length, "malformed", "metadata over its frame");
        must(length - metadata <= PAYLOAD_MAX, "tooLarge", "a frame over the limit");
        const metadataMax = this.isGreeted ? METADATA_MAX : PAYLOAD_MAX;
        must(metadata <= metadataMax, "metadataMax", "metadata over the limit");
        if (data.length < 16 + length) break;
        const frame = new Frame(data, length);
        data = data.subarray(16 + length);
        this.receive(frame);
      }
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      const reason = putField(TAG.reason, REASONS.indexOf(error.reason));
      this.main.push(
        putFrame("goaway", 0, 0, Buffer.concat([putField(TAG.message, error.message), reason])),
      );
      this.close(error.message);
    }
    this.data = data;
  }

  /** Takes a frame: for `on_NAME` with its call, undefined for what is over or of the connection. */
  receive(frame) {
    const { name, stream } = frame;
    const isOurs = stream % 2 === 1;
    const isFirst = name === "hello" || name === "goaway";
    must(this.isGreeted || isFirst, "magic", "the first frame is not a hello");
    must(!(name in NEVER), NEVER[name], `${name} for a process`);
    const [isOfCalls, where] = [OF_CALLS.has(name), `${name} on stream ${stream}`];
    must(OF_BOTH.has(name) || isOfCalls === stream > 0, "malformed", where);
    if (name === "unknown") return;
    must(isOurs || stream <= 2 * CALLS_MAX, "streamNumber", where);
    const call = this.calls.get(stream);
    must(call || !isOurs || name === "request", "unknownStream", where);
    must(!isOfCalls || !frame.has(FLAG.zstd), "feature", "compression was not offered");
    this["on_" + name]?.(frame, call);
  }

  on_hello(frame) {
    must(!this.isGreeted, "unexpected", "a second hello");
    must(frame.deadline === MAGIC, "magic", "not a hello");
    const said = new Map();
    for (const reader = new Reader(frame.payload); reader.hasMore; ) {
      const tag = reader.byte();
      must(!said.has(tag), "malformed", `field ${tag} of a hello comes twice`);
      said.set(tag, reader.string());
    }
    must(said.get(1)?.length === 4, "malformed", "a hello without versions");
    const isVersion = said.get(1)?.equals(Buffer.from([1, 0, 1, 0]));
    must(isVersion, "version", "this side speaks version 1");
    must(numberOf(said, 2, 0) & HOSTED, "feature", "the gateway hosts no processes");
    this.peer = peerOf(said);
    this.isGreeted = true;
    this.control.push(putFrame("ready"));
    this.room.wake();
  }

  on_ping(frame) {
    must(frame.payload.length <= 64, "malformed", "a long ping");
    this.pong = frame.payload; // Of pings not yet answered the last alone is.
  }

  on_goaway(frame) {
    const reason = frame.number(TAG.reason, 0);
    this.isDraining = true;
    if (reason || !this.isGreeted) this.close(frame.text(TAG.message) || `reason ${reason}`);
  }

  on_request(frame, before) {
    const { stream } = frame;
    must(stream % 2 === 0, "streamNumber", `a request on stream ${stream}`);
    must(!before, "streamInUse", `a request on stream ${stream}`);
    must(!frame.fields.has(TAG.key), "feature", "keys were not offered");
    const call = new Call(stream);
    call.headers = frame.headers;
    call.isWhole = frame.has(FLAG.end);
    must(call.isWhole || !frame.payload.length, "malformed", "a payload before items");
    call.isStreaming = !call.isWhole;
    if (frame.deadline) call.deadline = performance.now() + frame.deadline;
    if (frame.payload.length) call.items.push([frame.payload, 0]);
    if (frame.has(FLAG.http)) {
      const hasBoth = frame.fields.has(TAG.verb) && frame.fields.has(TAG.target);
      must(hasBoth, "malformed", "HTTP without method or target");
      call.verb = frame.text(TAG.verb);
      call.path = frame.text(TAG.target);
    } else [call.isJson, call.path] = this.method(frame);
    if (frame.fields.has(TAG.command)) {
      call.command = new Reader(frame.fields.get(TAG.command)).varint();
      const isNew = call.command > 0 && !this.running.has(call.command);
      must(isNew, "commandId", `command ${call.command}`);
      this.running.add(call.command);
    }
    this.calls.set(stream, call);
    this.begins(call);
  }

  /** Whether it is JSON, and the path: what a request names, or named before. */
  method(frame) {
    const name = frame.fields.get(TAG.name);
    const number = frame.number(TAG.method);
    must(name?.length || number !== undefined, "malformed", "a request without a method");
    if (name) {
      const named = [name[0] === 1, name.subarray(1).toString().replace(/^\//, "")];
      if (number === undefined) return named;
      const isDue = number === this.methods.length && number < METHODS_MAX;
      must(isDue, "methodsMax", "a method's number out of turn");
      this.methods.push(named);
    }
    must(number < this.methods.length, "unknownMethod", `method ${number} was not named`);
    return this.methods[number];
  }

  on_items(frame, call) {
    const size = frame.payload.length;
    for (const flow of call ? [call, this] : [this]) {
      const window = flow === this ? this.windows.connection : this.windows.stream;
      must(flow.received < window, "credit", "items without credit");
      flow.received += size;
    }
    if (!call || (call.isOurs && call.isCancelled)) return this.consumed(size, call);
    const isDue = !call.isWhole && (call.hasHead || !call.isOurs);
    must(isDue, "unexpected", "items out of place");
    must(size, "malformed", "items without an item");
    if (frame.has(FLAG.more) || call.partialBytes) {
      call.addPiece(frame.payload);
      must(call.partialBytes <= BODY_MAX, "tooLarge", "an item over body_max");
      if (!frame.has(FLAG.more)) {
        call.items.push([call.partial.subarray(0, call.partialBytes), 0]);
        call.partial = EMPTY;
        call.partialBytes = 0;
      }
      // Else an item over the credit would never be whole; body_max bounds it.
      this.consumed(size, call);
    } else {
      for (const reader = new Reader(frame.payload); reader.hasMore; ) {
        const begin = reader.at;
        const item = reader.string();
        call.items.push([item, reader.at - begin]);
      }
    }
    call.wake();
  }

  on_end(_, call) {
    if (call?.isOurs) {
      must(call.hasHead, "unexpected", "an end before the answer");
      this.end(call);
    } else if (call) {
      must(!call.isWhole, "unexpected", "a second end");
      call.isWhole = true;
      call.wake();
    }
  }

  on_credit(frame, call) {
    const amount = wholeNumber(frame.payload);
    const credited = frame.stream === 0 ? this : call;
    if (!credited) return;
    must(!frame.has(FLAG.end), "unexpected", "an end is seen that was not sent");
    must(amount <= credited.outstanding, "credit", "credit for what was not sent");
    credited.outstanding -= amount;
  }

  on_cancel(_, call) {
    if (!call || call.isCancelled) return;
    if (call.isOurs) return void call.out.splice(0, call.out.length - 1); // The end alone is wanted.
    call.isCancelled = true;
    if (call.command && !call.isStreaming && !call.hasHead) return;
    this.main.push(this.errorFrame(call, new TidewireError("canceled", GAVE_UP)));
    this.end(call);
  }

  on_reply(frame, call) {
    this.checkAnswer(frame, call);
    must(!frame.has(FLAG.unchanged), "malformed", "nothing to be unchanged from");
    const isEnd = frame.has(FLAG.end);
    must(!call.hasHead, "unexpected", "a second reply");
    must(isEnd || !frame.payload.length, "malformed", "a payload before items");
    call.hasHead = true;
    call.headers = frame.headers;
    call.isStreaming ||= !isEnd;
    if (!isEnd) return;
    call.items.push([frame.payload, 0]);
    this.end(call);
  }

  on_error(frame, call) {
    this.checkAnswer(frame, call);
    const code = frame.number(TAG.code);
    must(code, "malformed", "an error without a code");
    const details = frame.details.map((detail) => {
      const reader = new Reader(detail);
      return [reader.string().toString(), detail.subarray(reader.at)];
    });
    const more = { details, headers: frame.headers, outcome: frame.number(TAG.outcome) };
    this.end(call, new TidewireError(CODES[code], frame.text(TAG.message), more));
  }

  checkAnswer(frame, call) {
    must(call?.isOurs, "streamNumber", `an answer on stream ${frame.stream}`);
    must(!frame.has(FLAG.watched), "unexpected", "a watch that was not asked for");
  }

  // The end of calls and of the session.

  /** A call is over: its last frame came, is being sent, or never will be. */
  end(call, error) {
    if (!call.isOpen) return;
    this.calls.delete(call.number);
    Object.assign(call, { isOpen: false, error, out: [] });
    this.consumed(call.received - call.owed);
    this.running.delete(call.command);
    if (call.isOurs) {
      this.asked.delete(call);
      this.free.push(call.number);
      if (call.isStreaming && this.closed === undefined) {
        this.control.push(putFrame("credit", call.number, FLAG.end, EMPTY, putVarint(0)));
      }
      this.room.wake();
    } else if (call.isCancelled && !call.runsOn) call.gone.abort(new TidewireError("canceled", GAVE_UP));
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
    // What the program says before it is greeted waits.
    const isHeard = this.isGreeted || this.closed !== undefined;
    const out = isHeard ? [...this.control, ...this.main] : this.control;
    if (this.pong) out.push(putFrame("pong", 0, 0, EMPTY, this.pong));
    this.pong = undefined;
    let bytes = out.reduce((sum, frame) => sum + frame.length, 0);
    this.control = [];
    if (isHeard) this.main = [];
    const waiting = [];
    while (this.line.length && bytes < PAYLOAD_MAX) {
      const call = this.line.shift();
      if (!call.out.length) continue; // It has ended since.
      const frame = this.turn(call);
      if (frame) bytes += out.push(frame) && frame.length;
      if (call.out.length) (frame ? this.line : waiting).push(call);
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
    const [{ parts, size, flags, last }] = call.out;
    if (last) {
      call.out = [];
      if (!call.isOurs) this.end(call);
      return last;
    }
    const { connectionCredit, streamCredit } = this.peer;
    if (this.outstanding >= connectionCredit || call.outstanding >= streamCredit) return undefined;
    call.out.shift();
    call.queued -= size;
    call.outstanding += size;
    this.outstanding += size;
    call.wake();
    return putFrame("items", call.number, flags, EMPTY, Buffer.concat(parts));
  }

  /** A call that has something to send takes turns, until the frame that is its last. */
  enlist(call, next) {
    if (!call.isOpen || call.out.at(-1)?.last) return;
    if (!call.out.length) this.line.push(call);
    call.out.push(next);
    call.queued += next.size ?? 0;
  }

  /** Items were taken: the peer may send as much again. */
  consumed(size, call) {
    const credit = (of, number, window) => {
      of.owed += size;
      if (of.owed * 4 < window) return;
      this.control.push(putFrame("credit", number, 0, EMPTY, putVarint(of.owed)));
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

  /** The metadata of an answer; what it was made of is said in the room that is left. */
  metadata(fields, headers = [], depends = [], trailers = []) {
    if (!fields.length && !headers.length && !depends.length && !trailers.length) return EMPTY;
    const { metadataMax } = this.peer;
    const head = Buffer.concat([...fields, putHeaders(headers)]);
    const mark = trailers.length ? putField(TAG.trailers, EMPTY) : EMPTY;
    const tail = Buffer.concat([mark, putHeaders(trailers)]);
    const madeOf = putDepends(depends, metadataMax - head.length - tail.length);
    const metadata = Buffer.concat([head, madeOf, tail]);
    if (metadata.length <= metadataMax) return metadata;
    const text = `headers of ${metadata.length} bytes are over the ${metadataMax} that a gateway takes`;
    throw new TidewireError("internal", text);
  }

  /** Sends the head of an answer whose items follow, or the whole answer. */
  begin(call, { status, headers, depends, trailers } = {}, whole = undefined) {
    if (!call.isOpen || call.hasHead) return;
    const fields = status && status !== 200 ? [putField(TAG.status, status)] : [];
    const metadata = this.metadata(fields, headers, depends, whole ? trailers : []);
    const flags = (whole ? FLAG.end : 0) | (call.verb ? FLAG.http : 0);
    call.hasHead = true;
    this.main.push(putFrame("reply", call.number, flags, metadata, whole));
    if (whole) this.end(call);
  }

  /** Queues an item; there is room for more while `queued` is small. */
  push(call, item) {
    if (item.length > PIECE) {
      for (let at = 0; at < item.length; at += PIECE) {
        const piece = item.subarray(at, at + PIECE);
        const flags = at + PIECE < item.length ? FLAG.more : 0;
        this.enlist(call, { parts: [piece], size: piece.length, flags, isPiece: true });
      }
      return;
    }
    const encoded = putString(item);
    const size = encoded.length;
    const before = call.out.at(-1);
    if (before?.parts && !before.isPiece && before.size + size <= PIECE) {
      before.parts.push(encoded);
      before.size += size;
      call.queued += size;
    } else this.enlist(call, { parts: [encoded], size, flags: 0 });
  }

  /** No more items: ends a call of the gateway, or the request of one of this side. */
  finish(call, trailers = []) {
    const metadata = this.metadata([], trailers);
    this.enlist(call, { last: putFrame("end", call.number, 0, metadata) });
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
  fail(call, error, { depends = [], trailers = [] } = {}) {
    // A command whose caller gave up ran to its end.
    if (call.isCancelled) {
      error = new TidewireError("canceled", GAVE_UP, { outcome: RAN });
      trailers = [];
    }
    this.enlist(call, { last: this.errorFrame(call, error, depends, trailers) });
  }

  errorFrame(call, error, depends, trailers) {
    let metadata;
    try {
      metadata = this.metadata(errorFields(error), error.headers, depends, trailers);
    } catch (wrong) {
      // What is no error of ours is for the log alone; the other says that its headers are too long.
      if (!(wrong instanceof TidewireError)) throw wrong;
      metadata = this.metadata(errorFields(wrong), [], depends);
    }
    return putFrame("error", call.number, 0, metadata);
  }

  /** Calls the gateway; undefined while no call is free. */
  ask(path, isJson, payload, { headers = [], parent, query = false, deadline } = {}) {
    if (this.closed !== undefined || this.isDraining) {
      throw new TidewireError("unavailable", "the gateway takes no calls any more", {
        outcome: NOT_RUN,
      });
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
    const wait = (deadline ?? Infinity) - performance.now();
    const left = wait < 2 ** 32 - 1 ? Math.max(1, Math.ceil(wait)) : 0;
    const metadata = Buffer.concat([...fields, said]);
    call.isStreaming = payload.length > SMALL_MAX;
    const flags = call.isStreaming ? 0 : FLAG.end;
    const body = call.isStreaming ? EMPTY : payload;
    this.main.push(putFrame("request", call.number, flags, metadata, body, left));
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
    this.main.push(putFrame("cancel", call.number));
  }

  // What a process says by itself.

  changed(source, key) {
    const payload = Buffer.concat([putString(source), putString(key)]);
    if (payload.length > PAYLOAD_MAX && key !== "") return this.changed(source, "");
    if (payload.length > PAYLOAD_MAX) throw new RangeError(`a source is over ${PAYLOAD_MAX} bytes`);
    this.main.push(putFrame("changed", 0, 0, EMPTY, payload));
  }

  log(level, text, fields) {
    const metadata = putField(TAG.level, LEVELS.indexOf(level) + 1 || 3);
    const whole = putHeaders(fields.map(logField));
    const fits = metadata.length + whole.length <= this.peer.metadataMax;
    const shown = fits ? whole : putHeaders([["left-out", `${fields.length} fields, which are too long`]]);
    this.main.push(putFrame("log", 0, 0, Buffer.concat([metadata, shown]), cut(text, PAYLOAD_MAX)));
  }

  busy(jobs) {
    this.main.push(putFrame("busy", 0, 0, EMPTY, putVarint(jobs)));
  }
}

function errorFields({ code, message, details, outcome }) {
  const fields = [putField(TAG.code, CODES.indexOf(code))];
  if (message) fields.push(putField(TAG.message, cut(message, 1024)));
  for (const [name, value] of details) {
    fields.push(putField(TAG.detail, Buffer.concat([putString(name), value])));
  }
  if (outcome) fields.push(putField(TAG.outcome, outcome));
  return fields;
}

module.exports = { Session };
