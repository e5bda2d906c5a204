// Serve methods and pages behind a Tidewire gateway: this folder, no packages, Node.js 18 and newer.
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
//  bytes ─▶ Frame ─▶ Session: calls, credit ─▶ App: handlers, pages ─▶ Session ─▶ bytes
//          frames.js         session.js       this file: a socket
"use strict";

const net = require("node:net");

const { NOT_RUN, UNKNOWN, GAVE_UP, TidewireError, PAYLOAD_MAX, EMPTY } = require("./frames.js");
const { Frame, keyText, isToken } = require("./frames.js");
const { Session } = require("./session.js");

/** Timers of Node take no more milliseconds. */
const LONGEST_WAIT = 2 ** 31 - 1;

const decode = (data, isJson) => (isJson ? JSON.parse(data.toString()) : data);

/** Numbers that are none as protobuf's JSON spells them; JSON.stringify makes null of them. */
function spelled(_, value) {
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

function encode(value, isJson) {
  if (value instanceof Uint8Array)
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (isJson) {
    const text = JSON.stringify(value ?? {});
    return Buffer.from(text?.includes("null") ? JSON.stringify(value, spelled) : text);
  }
  throw new TypeError(
    'a message is bytes; write codec = "json" for this service in tidewire.toml to send objects',
  );
}

/** As `encode`, of what a handler gives: nothing is a `return` that was forgotten. */
function encodeAnswer(value, isJson) {
  if (value === undefined || value === null)
    throw new TypeError(
      "the handler returned nothing; return {} (or new Uint8Array()) for a message without fields",
    );
  return encode(value, isJson);
}

/** Headers that a handler gives: one that cannot be sent is its mistake, not to be passed over. */
function checkHeaders(headers) {
  for (const [name, value] of headers) {
    if (!isToken(String(name).toLowerCase()))
      throw new TypeError(`reply header ${JSON.stringify(String(name))} has a name that no header can have`);
    if (/[\r\n\0]/.test(value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value))
      throw new TypeError(`reply header ${name} has a CR, LF or NUL in its value; take it out`);
  }
}

function text(what, value) {
  if (typeof value === "string") return value;
  throw new TypeError(`${what} is a string, not ${typeof value}`);
}

/** Who calls: its subject by the word of an issuer, its scopes, and other claims. */
class Principal {
  constructor({ issuer, subject, scopes = [], claims = {} }) {
    Object.assign(this, { issuer, subject, scopes, claims });
  }

  /** Reads the header `tidewire-principal`; null without one. */
  static of(header) {
    return header ? new Principal(JSON.parse(header)) : null;
  }

  /** Whether the caller is allowed to do this. */
  hasScope(scope) {
    return this.scopes.includes(scope);
  }
}

/** With whose rights a call of the gateway is made: the program's own without it. */
const AS_CALLER = ["tidewire-rights", "caller"];

/** What surrounds a call: who asks, until when, and what the answer is made of. */
class Context {
  #app;
  #call;
  #principal;

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

  /** Who calls, as the gateway found out; null where it did not. */
  get principal() {
    return (this.#principal ??= Principal.of(this.header("tidewire-principal")));
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
    this.sources.push([text("a source", source), keyText(key)]);
  }

  /** This changed: whoever asks after this call is answered sees it. */
  changed(source, ...key) {
    this.#app.changed(source, ...key);
  }

  /** A line in the gateway's log. */
  log(level, text, fields) {
    this.#app.log(level, text, fields);
  }

  /** Calls a method of the gateway as part of this call. A command has no deadline to hand on: it runs on. */
  call(path, request, options = {}) {
    return this.#app.call(path, request, {
      deadline: this.#call.command ? undefined : this.#call.deadline,
      ...options,
      within: this.#call,
    });
  }

  get said() {
    return { headers: this.replyHeaders, trailers: this.replyTrailers, depends: this.sources };
  }
}

const handlerFailed = () =>
  new TidewireError("internal", "the handler failed; its log says why");

/** Shows what a handler threw, which may throw in turn when it is looked at. */
function tell(error) {
  try {
    console.error(error);
  } catch {
    console.error("a handler failed; what it threw cannot be shown");
  }
}

/** Marks a handler that is given an asynchronous iterator of requests. */
function streaming(handler) {
  return Object.assign((...args) => handler(...args), { streams: true });
}

class App {
  #session = new Session({ begin: (call) => this.#begin(call) });
  #handlers = new Map();
  #socket;
  #isFlushing = false;
  #isBlocked = false;
  #jobs = 0;

  constructor(handlers) {
    for (const [path, handler] of Object.entries(handlers)) {
      const name = path.replace(/^\//, "");
      if (this.#handlers.has(name)) throw new Error(`${name} is served twice`);
      this.#handlers.set(name, handler);
    }
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
        if (call.isOpen) tell(error);
        failed = handlerFailed();
      }
      try {
        const { depends, trailers } = context.said;
        this.#session.fail(call, failed, { depends, trailers });
      } catch (wrong) {
        tell(wrong);
        this.#session.fail(call, handlerFailed());
      }
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
    // A page cannot switch to a WebSocket; a program of plain HTTP can.
    if (call.verb && context.header("sec-websocket-version")) return this.#page(call, 501, []);
    if (call.verb)
      return pages === "http" ? this.#listen(call, handler) : this.#fetch(call, handler);
    const request = handler.streams
      ? this.#requests(call)
      : decode(await this.#whole(call), call.isJson);
    // A command with one reply that has begun ends by itself, though its call may be over before.
    call.runsOn = call.command > 0 && !handler.streams;
    const answer = await handler(request, context);
    if (answer?.[Symbol.asyncIterator] || (answer?.[Symbol.iterator] && answer.next)) {
      call.runsOn = false;
      if (call.isCancelled && !call.isOpen) call.gone.abort(new TidewireError("canceled", GAVE_UP));
      let hasBegun = false;
      const begin = () => {
        if (hasBegun) return;
        checkHeaders(context.replyHeaders);
        this.#session.begin(call, context.said);
        hasBegun = true;
      };
      for await (const item of answer) {
        begin();
        await this.#push(call, encodeAnswer(item, call.isJson));
      }
      begin();
      checkHeaders(context.replyTrailers);
      this.#session.finish(call, context.replyTrailers);
    } else {
      checkHeaders([...context.replyHeaders, ...context.replyTrailers]);
      this.#session.reply(call, encodeAnswer(answer, call.isJson), context.said);
    }
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
    if (call.isWhole) return call.items.length ? this.#session.takeItem(call) : EMPTY;
    for await (const item of this.#items(call)) return item;
    return EMPTY;
  }

  /** Sends an item, and waits until there is room for another. */
  async #push(call, item) {
    if (!call.isOpen) throw new TidewireError("canceled", GAVE_UP);
    this.#session.push(call, item);
    this.flush();
    while (call.queued >= PAYLOAD_MAX && call.isOpen) await call.change();
  }

  /** Calls a method of the gateway: as the program itself; `asCaller` with the rights of its caller. */
  async call(path, request, options = {}) {
    if (options.asCaller) options = { ...options, headers: [...(options.headers ?? []), AS_CALLER] };
    const isJson = !(request instanceof Uint8Array);
    const payload = encode(request, isJson);
    const { signal } = options;
    const deadline = options.deadline ?? Infinity;
    const wait = deadline - performance.now();
    if (typeof deadline !== "number" || Number.isNaN(wait))
      throw new TypeError(`a deadline is a number of milliseconds, not ${deadline}`);
    const { room } = this.#session;
    let isOver = wait <= 0;
    let call;
    const stops = () => {
      isOver = true;
      if (call) this.#session.cancel(call);
      (call ?? room).wake();
      this.flush();
    };
    const timer = wait < LONGEST_WAIT ? setTimeout(stops, Math.max(0, wait)) : undefined;
    signal?.addEventListener("abort", stops, { once: true });
    try {
      for (;;) {
        signal?.throwIfAborted();
        if (isOver) {
          throw new TidewireError("deadline_exceeded", "the deadline was over before the call", { outcome: NOT_RUN });
        }
        const { within } = options;
        const parent = within?.isOpen && !within.hasHead ? within.number : undefined;
        if ((call = this.#session.ask(path, isJson, payload, { ...options, parent }))) break;
        await room.change();
      }
      this.flush();
      while (call.isOpen && !call.isCancelled && call.items.length < 2) await call.change();
    } finally {
      signal?.removeEventListener("abort", stops);
      clearTimeout(timer);
    }
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

  /**
   * Says that a source changed: no answer that was made of it is given any more. Every key of it did where this one
   * is none (a TypeError then) or has more than 64 KiB.
   */
  changed(source, ...key) {
    let named = "";
    try {
      named = keyText(key);
    } finally {
      this.#session.changed(text("a source", source), named);
      this.flush();
    }
  }

  /** A line in the gateway's log. */
  log(level, line, fields = {}) {
    this.#session.log(level, text("a line", line), Object.entries(fields));
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
    // 1xx are said by the gateway or by nobody; 0 is that of Response.error().
    if (status < 200) throw new RangeError(`${status} is no status of an answer`);
    this.#session.begin(call, {
      status,
      headers: headers
        .filter(([name]) => !hopByHop.includes(name))
        .map(([name, value]) => [name, Buffer.from(value, "latin1")]), // As it came: see Frame.
    });
    for await (const chunk of body ?? []) {
      for (let at = 0; at < chunk.length; at += PAYLOAD_MAX) {
        await this.#push(call, Buffer.from(chunk.subarray(at, at + PAYLOAD_MAX)));
      }
    }
    this.#session.finish(call);
  }

  /** A page of a handler in the manner of `fetch`. */
  async #fetch(call, handler) {
    // A Request of these cannot be made.
    if (["CONNECT", "TRACE", "TRACK"].includes(call.verb)) return this.#page(call, 501, []);
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
    const answered = new Promise((resolve, reject) =>
      asking
        .on("response", resolve)
        .on("error", reject)
        .on("upgrade", (response, socket) => resolve(response) || socket.destroy()),
    );
    pipeline(this.#items(call), asking, () => {});
    const response = await answered.catch((error) => {
      if (!call.isOpen) throw error;
    });
    // The listener destroyed its response.
    if (!response) return this.#page(call, 502, []);
    const pairs = response.rawHeaders.flatMap((name, at, all) =>
      at % 2 ? [] : [[name.toLowerCase(), all[at + 1]]],
    );
    await this.#page(call, response.statusCode, pairs, response).catch((error) => {
      if (error.code !== "ECONNRESET") throw error;
      throw new TidewireError("aborted", "the handler broke its answer off");
    });
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
        // What was not ended is broken off at both ends.
        destroy(error, done) {
          if (!this.writableFinished) ends[1 - own].destroy();
          done(error);
        },
      }),
  );
  return ends;
}

/** Serves methods by their paths; `fetch` or `http` serve the pages of the program's `route`. */
function serve(handlers) {
  return new App(handlers).start();
}

module.exports = { serve, streaming, TidewireError, Principal, keyText };
