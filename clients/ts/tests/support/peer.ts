// An acceptor of the live protocol, as far as the tests of the client need one: queries, watches and
// commands over sessions that are resumed. It is written for the tests alone: a value is a string
// under a key, `Look` reads one, `Echo` with the text `key=value` is the command that sets it.
import { createHash } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import * as F from "../../packages/live/src/wire/frame.ts";
import { type Hello, putHello } from "../../packages/live/src/wire/hello.ts";
import * as M from "../../packages/live/src/wire/metadata.ts";
import { readNumbers, Reader, Writer } from "../../packages/live/src/wire/varint.ts";
import {
  EchoReplySchema, EchoRequestSchema, LookReplySchema, LookRequestSchema,
} from "../gen/tidewire/test/v1/behaviour_pb.js";

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString("latin1");
const PREFIX = "/tidewire.test.v1.BehaviourService/";

/** How the other end of a socket is reached. */
export interface Pipe {
  send(message: Uint8Array): void;
  close(code: number): void;
}

interface Served {
  stream: number;
  number: number;
  method: string;
  body: Uint8Array;
  command: number;
  key: string | undefined;
  principal: string;
  /** Of a watch: the last answer that was sent, and whether it was taken. */
  watch: number;
  validator: string | undefined;
  isSeen: boolean;
  isSuspect: boolean;
}

class Parked {
  readonly id = Uint8Array.from({ length: 16 }, () => Math.floor(Math.random() * 256));
  readonly secret = new Uint8Array(32).fill(7);
  boot = "";
  requests = 0;
  done = 1;
  calls: Map<number, Served> = new Map();
  finished: Map<number, Uint8Array> = new Map();
  connection: Connection | undefined;
}

export interface ServerOptions {
  /** Commands are stored under their keys, so that a restart does not forget them. */
  keepsKeys?: boolean;
  /** Keys are not spoken of. */
  isNotDurable?: boolean;
  /** No answer is watched. */
  watchesNothing?: boolean;
  /** Headers that are needed: `authorization` must be in it. */
  tokens?: Set<string>;
  expiresMs?: number;
  keysMs?: number;
}

/** A server: its data outlive its sessions. */
export class Server {
  readonly options: ServerOptions;
  readonly values: Map<string, string> = new Map();
  /** Every value that was ever written, in order. */
  readonly log: string[] = [""];
  /** How often each command ran, by its text. */
  readonly runs: Map<string, number> = new Map();
  /** What was answered under a key. */
  private readonly keys: Map<string, string> = new Map();
  private sessions: Map<string, Parked> = new Map();
  /** Commands and queries that were read and not run. */
  readonly pending: [Parked, Served][] = [];
  readonly requests: string[] = [];
  readonly connections: Set<Connection> = new Set();
  readonly hellos: { headers: M.Header[]; resumed: boolean }[] = [];
  readonly auths: M.Header[][] = [];
  runsAtOnce = false;
  isRefusing = 0;
  /** The code of the error that each query is answered with. */
  failsWith = 0;
  /** Answers are over as they come, and not watched. */
  isLate = false;

  constructor(options: ServerOptions = {}) {
    this.options = options;
  }

  accept(pipe: Pipe): Connection {
    const connection = new Connection(this, pipe);
    this.connections.add(connection);
    return connection;
  }

  /** All sessions are forgotten; data, and keys if they are kept, are not. */
  restart(): void {
    for (const connection of [...this.connections]) {
      connection.pipe.close(1006);
      connection.isDead = true; // What it wrote may still arrive.
    }
    this.connections.clear();
    this.sessions.clear();
    this.pending.length = 0;
  }

  /** Somebody changes a value: whoever watches it is told. */
  set(key: string, value: string): void {
    this.write(key, value);
    for (const session of this.sessions.values()) session.connection?.tell();
  }

  private write(key: string, value: string): void {
    this.values.set(key, value);
    this.log.push(value);
  }

  /** Runs the oldest call that waits; false when none does. */
  run(): boolean {
    const next = this.pending.shift();
    if (!next) return false;
    const [session, call] = next;
    if (session.calls.get(call.stream) !== call) return true; // Given up.
    const { connection } = session;
    if (call.method === "Echo") {
      const { text: said } = fromBinary(EchoRequestSchema, call.body);
      const known = this.options.keepsKeys && call.key !== undefined ? this.keys.get(call.key) : undefined;
      if (known === undefined) {
        this.runs.set(said, (this.runs.get(said) ?? 0) + 1);
        if (call.key !== undefined) this.keys.set(call.key, said);
        const [key, value] = said.split("=");
        this.write(key!, value ?? "");
      }
      // Whoever watches what it changed is told first.
      for (const other of this.sessions.values()) other.connection?.tell();
      const payload = toBinary(EchoReplySchema, create(EchoReplySchema, { text: said }));
      const frame = new Writer();
      F.putFrame(frame, F.REPLY, call.stream, F.END, payload);
      const bytes = frame.take();
      session.calls.delete(call.stream);
      session.finished.set(call.command, bytes);
      connection?.write(bytes);
    } else if (connection) {
      connection.answer(session, call);
    } else {
      session.calls.delete(call.stream);
    }
    return true;
  }

  look(body: Uint8Array): { payload: Uint8Array; validator: string; value: string } {
    const { key } = fromBinary(LookRequestSchema, body);
    const value = this.values.get(key) ?? "";
    const payload = toBinary(LookReplySchema, create(LookReplySchema, { value }));
    return { payload, value, validator: text(createHash("md5").update(payload).digest()) };
  }

  resume(id: Uint8Array, boot: string): Parked | undefined {
    const session = this.sessions.get(text(id));
    return session?.boot === boot ? session : undefined;
  }

  open(boot: string): Parked {
    const session = new Parked();
    session.boot = boot;
    this.sessions.set(text(session.id), session);
    return session;
  }
}

export class Connection {
  readonly server: Server;
  readonly pipe: Pipe;
  session: Parked | undefined;
  private methods: string[] = [];
  private isLive = false;
  isDead = false;
  private headers: Map<string, string> = new Map();
  constructor(server: Server, pipe: Pipe) {
    this.server = server;
    this.pipe = pipe;
  }

  write(bytes: Uint8Array): void {
    if (this.isLive) this.pipe.send(bytes);
  }

  goAway(reason: number, { after = 0, grace = 0 } = {}): void {
    const out = new Writer();
    const at = F.beginFrame(out, F.GOAWAY, 0, 0, grace);
    if (reason) M.putNumber(out, M.REASON, reason);
    if (after) M.putNumber(out, 20, after);
    F.endMetadata(out, at);
    F.endFrame(out, at);
    this.pipe.send(out.take());
    if (reason) this.pipe.close(4000 + reason);
  }

  /** The socket is gone. */
  gone(): void {
    this.server.connections.delete(this);
    if (this.session?.connection === this) this.session.connection = undefined;
  }

  receive(message: Uint8Array): void {
    for (let at = 0; at < message.length && !this.isDead; ) {
      const frame = F.readFrame(message, at, 65_536);
      at = frame.end;
      this.on(frame);
    }
  }

  private on(frame: F.Frame): void {
    const { session } = this;
    if (frame.kind === F.HELLO) this.onHello(frame);
    else if (frame.kind === F.RESUME) this.onResume(F.payloadOf(frame));
    else if (frame.kind === F.REQUEST) this.onRequest(frame);
    else if (frame.kind === F.PING) {
      const pong = new Writer();
      F.putFrame(pong, F.PONG, 0, 0, F.payloadOf(frame));
      this.pipe.send(pong.take());
    } else if (frame.kind === F.SEEN) {
      for (const stream of readNumbers(F.payloadOf(frame))) {
        const call = session!.calls.get(stream);
        if (call?.watch) call.isSeen = true;
      }
      this.tell();
    } else if (frame.kind === F.CANCEL) {
      const streams = frame.stream ? [frame.stream] : readNumbers(F.payloadOf(frame));
      const out = new Writer();
      for (const stream of streams) {
        const call = session!.calls.get(stream);
        if (!call || (call.command && !call.watch)) continue; // A command runs to its end.
        session!.calls.delete(stream);
        if (call.watch && call.validator) this.putStale(out, [stream], 0);
        else this.putError(out, stream, 1);
      }
      if (out.at) this.write(out.take());
    } else if (frame.kind === F.AUTH) {
      const { headers } = M.readMetadata(frame);
      this.server.auths.push(headers);
      for (const [name, value] of headers) this.headers.set(name, value);
      const out = new Writer();
      const at = F.beginFrame(out, F.AUTH, 0, 0);
      M.putNumber(out, 21, this.server.options.expiresMs ?? 0);
      F.endMetadata(out, at);
      F.endFrame(out, at);
      this.pipe.send(out.take());
    } else if (frame.kind === F.GOAWAY) {
      if (session) this.server["sessions"].delete(text(session.id));
    }
  }

  private onHello(frame: F.Frame): void {
    if (this.server.isRefusing) return this.goAway(this.server.isRefusing);
    const fields = new Map<number, Uint8Array>();
    const reader = new Reader(F.payloadOf(frame));
    while (reader.hasMore) fields.set(reader.byte(), reader.string().slice());
    const { headers } = M.readMetadata(frame);
    for (const [name, value] of headers) this.headers.set(name, value);
    const boot = text(fields.get(11)!);
    const asked = fields.get(12);
    const resumed = asked && this.server.resume(asked, boot);
    const session = (this.session = resumed ?? this.server.open(boot));
    this.server.hellos.push({ headers, resumed: !!resumed });
    const old = session.connection;
    session.connection = this;
    if (old) old.goAway(23);
    const out = new Writer();
    const said: Partial<Hello> = {
      features: this.server.options.isNotDurable ? 14 : 30, watchesMax: 100_000, session: session.id, secret: session.secret, retainMs: 120_000,
      repliesKeptMax: 64, expiresMs: this.server.options.expiresMs, keysMs: this.server.options.keysMs,
    };
    putHello(out, said, "", F.EMPTY);
    let bytes = out.take();
    if (resumed) {
      // `resumed` is entry 14; the writer of a dialer has none.
      const entry = new Uint8Array([14, 1, 1]);
      const joined = new Uint8Array(bytes.length + 3);
      joined.set(bytes);
      joined.set(entry, bytes.length);
      new DataView(joined.buffer).setUint32(0, joined.length - 16, true);
      bytes = joined;
      F.putFrame(out, F.RESUME, 0, 0, new Uint8Array([0, 0, 0]));
      this.pipe.send(Buffer.concat([bytes, out.take()]));
      return;
    }
    this.isLive = true;
    this.pipe.send(bytes);
  }

  private onResume(payload: Uint8Array): void {
    const session = this.session!;
    const reader = new Reader(payload);
    reader.varint();
    session.requests = reader.varint();
    const count = reader.varint();
    const bits = new Uint8Array(Math.ceil(count / 8));
    const listed = new Set<number>();
    for (let index = 0, stream = 0; index < count; index++) {
      stream += reader.varint();
      listed.add(stream);
      const call = session.calls.get(stream);
      let goesOn = false;
      if (reader.byte() === 1) {
        const validator = text(reader.take(16));
        goesOn = call?.watch !== 0 && call?.validator === validator && this.server.look(call.body).validator === validator;
        if (goesOn) {
          call!.isSeen = true;
          call!.isSuspect = false;
        }
      } else {
        goesOn = call?.number === reader.varint() && call.validator === undefined;
      }
      if (goesOn) bits[index >> 3]! |= 1 << (index & 7);
      else session.calls.delete(stream);
    }
    for (const stream of session.calls.keys()) if (!listed.has(stream)) session.calls.delete(stream);
    const out = new Writer();
    F.putFrame(out, F.RESUMED, 0, 0, bits);
    this.isLive = true;
    this.pipe.send(out.take());
  }

  private onRequest(frame: F.Frame): void {
    const session = this.session!;
    const reader = new Reader(frame.data, frame.metaAt, frame.payloadAt);
    const call: Served = {
      stream: frame.stream, number: session.requests++, method: "", body: F.payloadOf(frame).slice(), command: 0,
      key: undefined, principal: "", watch: frame.flags & (F.NOTIFY | F.VALUES), validator: undefined, isSeen: false, isSuspect: false,
    };
    if (session.calls.has(frame.stream)) throw new Error(`stream ${frame.stream} is open`);
    let validator: string | undefined;
    let path = "";
    let number: number | undefined;
    while (reader.hasMore) {
      const tag = reader.byte();
      if (tag === 0) reader.string();
      const value = reader.string();
      if (tag === M.METHOD) number = new Reader(value).varint();
      if (tag === M.NAME) path = Buffer.from(value.subarray(1)).toString();
      if (tag === M.COMMAND) {
        const ids = new Reader(value);
        call.command = ids.varint();
        session.done = ids.varint();
      }
      if (tag === M.VALIDATOR) validator = text(value);
      if (tag === M.KEY) call.key = Buffer.from(value).toString("hex");
    }
    if (path && number !== undefined) this.methods[number] = path;
    path ||= this.methods[number!]!;
    call.method = path.replace(PREFIX, "");
    this.server.requests.push(call.method);
    const { tokens } = this.server.options;
    if (tokens && !tokens.has(this.headers.get("authorization") ?? "")) {
      return this.refuse(frame.stream, 16);
    }
    if (call.command) {
      for (const id of session.finished.keys()) if (id < session.done) session.finished.delete(id);
      const known = session.finished.get(call.command);
      if (known) {
        const again = known.slice();
        new DataView(again.buffer).setUint32(4, frame.stream, true);
        return this.write(again);
      }
      if (call.key === undefined) {
        const own = new Writer();
        own.bytes(session.id);
        own.varint(call.command);
        call.key = Buffer.from(own.take()).toString("hex");
      } else if (!this.server.options.keepsKeys) {
        return this.refuse(frame.stream, 10, 2);
      }
    }
    session.calls.set(frame.stream, call);
    call.principal = validator ?? "";
    this.server.pending.push([session, call]);
    if (this.server.runsAtOnce) while (this.server.run());
  }

  /** Answers a query, as a watch if it was asked for. */
  answer(session: Parked, call: Served): void {
    const { failsWith, isLate } = this.server;
    if (failsWith) {
      session.calls.delete(call.stream);
      return this.refuse(call.stream, failsWith, 0);
    }
    const { payload, validator } = this.server.look(call.body);
    const isSame = call.principal === validator;
    const out = new Writer();
    const isWatched = call.watch && !this.server.options.watchesNothing && !isLate;
    const flags = (isWatched ? F.WATCHED : F.END) | (isSame ? F.UNCHANGED : 0);
    const at = F.beginFrame(out, F.REPLY, call.stream, flags);
    M.putField(out, M.VALIDATOR, Buffer.from(validator, "latin1"));
    if (isLate) M.putNumber(out, M.MAX_AGE, 0);
    F.endMetadata(out, at);
    if (!isSame) out.bytes(payload);
    F.endFrame(out, at);
    if (isWatched) {
      call.validator = validator;
      call.isSeen = call.watch === F.NOTIFY;
      call.isSuspect = false;
    } else session.calls.delete(call.stream);
    this.write(out.take());
  }

  /** Tells of what changed: values where the last was taken, else that it is stale. */
  tell(): void {
    if (!this.isLive || !this.session) return;
    const { calls } = this.session;
    const stale: number[] = [];
    const kept: number[] = [];
    const values = new Writer();
    for (const call of [...calls.values()].sort((one, other) => one.stream - other.stream)) {
      if (!call.watch || call.validator === undefined) continue;
      const { payload, validator } = this.server.look(call.body);
      if (call.watch === F.NOTIFY) {
        if (validator === call.validator) continue;
        stale.push(call.stream);
        calls.delete(call.stream);
      } else if (!call.isSeen) {
        if (validator === call.validator || call.isSuspect) continue;
        call.isSuspect = true;
        kept.push(call.stream);
      } else if (validator !== call.validator || call.isSuspect) {
        const isSame = validator === call.validator;
        const at = F.beginFrame(values, F.REPLY, call.stream, F.WATCHED | (isSame ? F.UNCHANGED : 0));
        M.putField(values, M.VALIDATOR, Buffer.from(validator, "latin1"));
        F.endMetadata(values, at);
        if (!isSame) values.bytes(payload);
        F.endFrame(values, at);
        call.validator = validator;
        call.isSeen = call.isSuspect = false;
      }
    }
    const out = new Writer();
    if (stale.length) this.putStale(out, stale, 0);
    if (kept.length) this.putStale(out, kept, F.KEEP);
    out.bytes(values.take());
    if (out.at) this.write(out.take());
  }

  refuse(stream: number, code: number, outcome = 1): void {
    const out = new Writer();
    this.putError(out, stream, code, outcome);
    this.write(out.take());
  }

  private putError(out: Writer, stream: number, code: number, outcome?: number): void {
    const at = F.beginFrame(out, F.ERROR, stream, 0);
    M.putNumber(out, M.CODE, code);
    if (outcome) M.putNumber(out, M.OUTCOME, outcome);
    F.endMetadata(out, at);
    F.endFrame(out, at);
  }

  private putStale(out: Writer, streams: number[], flags: number): void {
    const at = F.beginFrame(out, F.STALE, 0, flags);
    let previous = 0;
    for (const stream of streams) {
      out.varint(stream - previous);
      previous = stream;
    }
    F.endFrame(out, at);
  }
}
