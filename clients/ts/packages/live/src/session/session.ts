/**
 * The dialer's end of a live session without a socket, a clock or randomness of its own: messages
 * and the time go in, messages and events come out. Who owns it calls `receive` for each WebSocket
 * message, then `next` until nothing is left, then `take` likewise, and `timeout` at `deadline()`.
 *
 * This file has the connection; calls are sent in caller.ts and answered in answers.ts.
 */
import * as F from "../wire/frame.ts";
import type { Frame } from "../wire/frame.ts";
import { DEFAULTS, type Hello, type Limits, putHello, readHello } from "../wire/hello.ts";
import { RESUME_FEATURE } from "../wire/kinds.ts";
import { putNumber, readMetadata, REASON } from "../wire/metadata.ts";
import * as R from "../wire/reason.ts";
import { Writer } from "../wire/varint.ts";
import { loseSession } from "./again.ts";
import { Call, type CallOptions, WAITING } from "./call.ts";
import { cancel, endAll, expire, pump } from "./caller.ts";
import { Commands } from "./commands.ts";
import type { SessionEvent } from "./event.ts";
import { dispatch } from "./dispatch.ts";
import { putList } from "./lists.ts";
import { Flow, putTurns } from "./stream.ts";
import { Methods } from "./methods.ts";
import { putResume } from "./resume.ts";
import { Slots } from "./slots.ts";
import { Alive } from "./alive.ts";

export interface SessionOptions extends Partial<Limits> {
  features: number;
  required?: number;
  boot?: Uint8Array;
  schema?: Uint8Array;
  agent?: string;
  /** In [0, 1). */
  random(): number;
}

export class Session {
  readonly options: SessionOptions;
  readonly own: Limits;
  phase: "idle" | "wait" | "open" = "idle";
  /** What this side sends of its own calls, and of the peer's, may go. */
  isLive = false;
  isPeerLive = false;
  isDraining = false;
  features = 0;
  peer: Hello | undefined;
  id: Uint8Array | undefined;
  secret: Uint8Array | undefined;
  requests = 0;
  readonly control: Writer = new Writer();
  readonly main: Writer = new Writer();
  readonly slots: Slots = new Slots();
  readonly methods: Methods = new Methods();
  readonly commands: Commands = new Commands();
  readonly flow: Flow = new Flow();
  readonly alive: Alive = new Alive();
  /** Never sent, in the order in which they were made. */
  queue: Call[] = [];
  /** Sent before, to be sent again: at once, and after a delay. */
  again: Call[] = [];
  later: Call[] = [];
  laterAt = 0;
  /** Gathered for one frame each. */
  unwatch: Set<number> = new Set();
  seen: Set<number> = new Set();
  timed: Set<Call> = new Set();
  timedAt: number = Infinity;
  listed: Call[] = [];
  parts: { kind: number; payload: Writer } | undefined;
  now = 0;
  private events: SessionEvent[] = [];
  private eventAt = 0;
  private out: Uint8Array = F.EMPTY;
  private outAt = 0;

  constructor(options: SessionOptions) {
    this.options = options;
    this.own = { ...DEFAULTS };
    for (const name of Object.keys(DEFAULTS) as (keyof Limits)[]) {
      this.own[name] = options[name] ?? DEFAULTS[name];
    }
  }

  /** A connection is there; `headers` are the default headers as metadata. */
  connect(now: number, headers: Uint8Array = F.EMPTY): void {
    this.now = now;
    this.forget();
    this.phase = "wait";
    this.alive.begin(now);
    const { own, id: session, secret } = this;
    const { features, required, boot, schema, agent = "" } = this.options;
    putHello(this.control, { ...own, features, required, boot, schema, session, secret }, agent, headers);
  }

  /** The connection is gone; the session is parked. */
  lose(now: number, reason?: number, message = ""): void {
    this.now = now;
    const isRefused = this.phase === "wait";
    this.forget();
    for (const call of this.slots.all()) {
      if (call.isCancelled && !call.runsOn) this.slots.end(this, call);
    }
    this.emit({ type: "lost", isRefused, reason, message });
  }

  /** Takes a message, which holds whole frames. */
  receive(message: Uint8Array, now: number): void {
    this.now = now;
    this.alive.heard(now);
    try {
      for (let at = 0; at < message.length && this.phase !== "idle"; ) {
        const isGreeted = this.phase === "open";
        const frame = F.readFrame(message, at, isGreeted ? this.own.metadataMax : F.PAYLOAD_MAX);
        at = frame.end;
        dispatch(this, frame);
      }
    } catch (error) {
      if (!(error instanceof R.Violation)) throw error;
      this.fail(error.reason);
    }
  }

  /** Ends the connection and the session for a rule that the peer broke, or with `bye`. */
  fail(reason: number): void {
    const at = F.beginFrame(this.main, F.GOAWAY, 0, 0);
    putNumber(this.main, REASON, reason);
    F.endMetadata(this.main, at);
    F.endFrame(this.main, at);
    this.close(reason, "");
  }

  call(options: CallOptions, now: number): Call {
    this.now = now;
    const call = new Call(options);
    if (call.deadline !== undefined) {
      this.timed.add(call);
      this.timedAt = Math.min(this.timedAt, call.deadline);
    }
    this.queue.push(call);
    return call;
  }

  push(call: Call, item: Uint8Array): void {
    call.outgoing?.push(item);
    this.flow.lineUp(call);
  }

  finish(call: Call): void {
    if (call.outgoing) call.outgoing.isFinished = true;
    this.flow.lineUp(call);
  }

  cancel(call: Call): void {
    cancel(this, call);
  }

  /** The application has taken bytes of items. */
  consumed(call: Call, bytes: number): void {
    this.flow.consumed(this, call, bytes);
  }

  /** This side may not have run: answers are suspect until the peer has answered a ping. */
  wake(now: number): void {
    this.now = now;
    if (this.phase === "open") this.alive.wake(this);
  }

  /** Replaces default headers, given as metadata. */
  auth(headers: Uint8Array): void {
    if (this.phase !== "open") return;
    const at = F.beginFrame(this.control, F.AUTH, 0, 0);
    this.control.bytes(headers);
    F.endMetadata(this.control, at);
    F.endFrame(this.control, at);
  }

  /** Calls that were never sent end: the connection could not be made. Watches may go on waiting. */
  refuse(code: number, message: string, withWatches: boolean): void {
    const refused: Call[] = [];
    const rest: Call[] = [];
    for (const call of this.queue) (withWatches || !call.options.watch ? refused : rest).push(call);
    this.queue = rest;
    endAll(this, refused, code, message);
  }

  get hasEvents(): boolean {
    return this.eventAt < this.events.length;
  }

  /** The next event. */
  next(): SessionEvent | undefined {
    const event = this.events[this.eventAt++];
    if (!event) {
      this.events = [];
      this.eventAt = 0;
    }
    return event;
  }

  /** The next message to write. */
  take(now: number): Uint8Array | undefined {
    this.now = now;
    if (this.outAt === this.out.length) this.fill();
    if (this.outAt === this.out.length) return undefined;
    const from = this.outAt;
    this.outAt =
      this.out.length - from <= F.PAYLOAD_MAX
        ? this.out.length
        : F.wholeFrames(this.out, from, F.PAYLOAD_MAX);
    return this.out.subarray(from, this.outAt);
  }

  private fill(): void {
    const { main, control } = this;
    if (this.isLive) pump(this);
    putList(this, F.CANCEL, this.unwatch);
    putList(this, F.SEEN, this.seen);
    this.alive.putPong(main);
    if (this.isLive && control.at + main.at < F.PAYLOAD_MAX) putTurns(this);
    if (control.at) control.bytes(main.take());
    this.out = (control.at ? control : main).take();
    this.outAt = 0;
  }

  /** What is not suspect by itself is current: connected, confirmed and awake. */
  get isCurrent(): boolean {
    return this.isLive && this.isPeerLive && !this.alive.isAsleep;
  }

  /** When `timeout` has something to do. */
  deadline(): number {
    // Once it is time, those that are left wait for an answer.
    const later = this.isLive && this.later.length && this.laterAt > this.now ? this.laterAt : Infinity;
    return Math.min(this.alive.deadline(this.phase), later, this.timedAt);
  }

  timeout(now: number): void {
    this.now = now;
    expire(this);
    if (this.alive.timeout(this)) this.lose(now);
  }

  emit(event: SessionEvent): void {
    this.events.push(event);
  }

  /** The session is over: every call ends; the next connection begins another. */
  close(reason: number, message: string): void {
    this.forget();
    this.id = this.secret = this.peer = undefined;
    const code = reason === R.UNAUTHENTICATED_REASON ? 16 : 14;
    const sent = this.sent();
    this.again = this.later = [];
    endAll(this, sent, code, message || `the server ended the live session (${reason})`, true);
    this.slots.clear();
    this.commands.clear();
    this.requests = 0;
    this.emit({ type: "closed", reason, message });
  }

  /** Calls that were sent, in this session or an earlier one: they have slots, or wait for one. */
  sent(): Call[] {
    const waiting = this.later.filter((call) => !call.stream && call.state === WAITING);
    return [...this.slots.all(), ...waiting];
  }

  /** What belongs to one connection only. */
  private forget(): void {
    this.phase = "idle";
    this.isLive = this.isPeerLive = this.isDraining = false;
    this.control.at = 0;
    this.parts = undefined;
    this.methods.clear();
    this.unwatch.clear();
    this.seen.clear();
    this.flow.forget();
    this.alive.forget();
  }

  greet(frame: Frame): void {
    if (this.phase !== "wait") throw R.violation(R.UNEXPECTED);
    const { features, required = 0 } = this.options;
    const hello = readHello(frame, features, required);
    readMetadata(frame);
    const { id: was, peer: before } = this;
    this.features = features & hello.features;
    this.phase = "open";
    const isSame = was && hello.session && was.join() === hello.session.join();
    if (hello.resumed && !isSame) throw R.violation(R.MALFORMED);
    this.id = this.features & RESUME_FEATURE ? hello.session : undefined;
    this.secret = hello.secret;
    this.commands.keysMs = Math.min(this.commands.keysMs, hello.keysMs);
    if (hello.resumed && before) {
      for (const name of Object.keys(DEFAULTS) as (keyof Limits)[]) hello[name] = before[name];
      this.peer = hello;
      putResume(this);
      return;
    }
    this.peer = hello;
    loseSession(this, was);
    this.flow.held = 0;
    this.requests = 0;
    this.isLive = this.isPeerLive = true;
    this.connected(false);
  }

  connected(resumed: boolean): void {
    this.emit({ type: "connected", resumed, hello: this.peer! });
  }

  goAway(frame: Frame): void {
    const { reason = 0, message = "", after = 0 } = readMetadata(frame);
    const isRefused = this.phase !== "open";
    if ((isRefused && this.id) || R.parks(reason)) return this.lose(this.now, reason, message);
    if (reason !== R.DRAIN || isRefused) return this.close(reason, message);
    this.isDraining = true;
    this.emit({ type: "draining", graceMs: frame.deadlineMs, afterMs: after });
  }
}
