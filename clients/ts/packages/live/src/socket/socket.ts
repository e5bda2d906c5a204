/**
 * One session on one WebSocket after another: dials, writes, keeps time, and dials again. This
 * folder alone knows of WebSocket, timers and pages.
 */
import { ConnectError } from "@connectrpc/connect";
import type { Call, CallOptions } from "../session/call.ts";
import type { SessionEvent } from "../session/event.ts";
import type { Session } from "../session/session.ts";
import * as R from "../wire/reason.ts";
import { apart } from "./apart.ts";
import { Backoff, OF_USE } from "./backoff.ts";
import { Credentials, type GetHeaders, type Why } from "./credentials.ts";
import { dial, type RawSocket, type OpenSocket } from "./dial.ts";
import { State } from "./state.ts";
import { CODE_CANCELED, CODE_UNAUTHENTICATED, CODE_UNAVAILABLE } from "../wire/code.ts";
import { listenToPage } from "./wake.ts";

const UNSENT_MAX = 65_536;
const OPEN_PATIENCE = 5_000;
const FALLBACK_REDIAL = 60_000;
/** A timer that is so late says that this side did not run. */
const PAUSE = 5_000;

export interface SocketOptions {
  url: string;
  session: Session;
  headers?: GetHeaders | undefined;
  webSocket?: OpenSocket | undefined;
  /** Hears of the connection after the calls of the same message. */
  heard(event: SessionEvent): void;
  /** The transport is about to be closed, or its page. */
  left(): void;
  /** A command of this side has ended. */
  wrote(): void;
  /** An attempt to connect failed, for the `failures`th time in a row. */
  failed(failures: number, error: ConnectError): void;
}

/** Who is told of a call's events. */
export interface Owner {
  on(event: SessionEvent & { call: Call }): void;
}

export class Socket {
  readonly session: Session;
  readonly state: State = new State();
  readonly credentials: Credentials;
  private readonly options: SocketOptions;
  private readonly backoff: Backoff;
  private dialed: RawSocket | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private timerAt = Infinity;
  private isFlushing = false;
  private lastNow: number = Date.now();
  private passed: number = this.lastNow;
  private openBy = Infinity;
  private drainBy = Infinity;
  private redialAt = Infinity;
  private renewAt = Infinity;
  private redialAfter = 0;
  private wasRefused = false;
  /** Counts renewals of the headers. */
  epoch = 0;
  private generation = 0;
  private doneBefore = 1;
  private readonly stopListening: () => void;

  constructor(options: SocketOptions) {
    this.options = options;
    this.session = options.session;
    this.credentials = new Credentials(options.headers);
    this.backoff = new Backoff(options.session.options.random);
    this.stopListening = listenToPage({ wake: () => this.wake(), doubt: () => this.doubt(), leave: () => this.leave(R.BYE) });
  }

  /** A clock that does not go back, and goes on where the machine's was set back. */
  now(): number {
    const now = Date.now();
    this.passed += Math.max(0, now - this.lastNow);
    this.lastNow = now;
    return this.passed;
  }

  call(options: CallOptions & { owner: Owner }): Call {
    const call = this.session.call(options, this.now());
    this.hurry(options.watch);
    return call;
  }

  /** Dials for a call, if need be. */
  hurry(watch?: number): void {
    const { status } = this.state.getSnapshot();
    if (status === "idle" || (status === "unauthenticated" && !watch)) this.connect("connect");
    else if (status === "closed") this.refuse("the transport is closed", CODE_UNAVAILABLE, true);
    // Who calls does not wait for a backoff of half a minute.
    else if (this.redialAt < Infinity && !watch) {
      this.redialAt = Math.min(this.redialAt, Math.max(this.now(), this.backoff.soonest));
    }
    this.flushSoon(); // Which keeps time, too.
  }

  /** Writes at the end of the current task's microtasks. */
  flushSoon(): void {
    if (this.isFlushing) return;
    this.isFlushing = true;
    queueMicrotask(() => {
      this.isFlushing = false;
      this.flush();
    });
  }

  /** The page came back, or the network: asks whether all is current, or dials at once. */
  wake(): void {
    const { status } = this.state.getSnapshot();
    if (status === "open") this.doubt();
    else if (status !== "idle" && !this.dialed) {
      this.backoff.reset();
      this.connect("connect");
    }
  }

  /** Asks whether all is current, and whether there is a connection still. */
  private doubt(): void {
    this.session.wake(this.now());
    this.drain();
  }

  /** Sends new headers; false when there are none to be had. */
  async renew(why: Why): Promise<boolean> {
    if (!this.credentials.canRefresh) return false;
    try {
      this.session.auth(await this.credentials.ask(why));
      this.epoch++;
      this.flushSoon();
      return true;
    } catch {
      return false;
    }
  }

  /** New headers for a call that was refused: those that others have asked for since will do. */
  async renewFor(epoch: number): Promise<boolean> {
    return epoch < this.epoch || this.renew("refused");
  }

  /** Gives the session up, not the transport: sockets are tried from time to time. */
  give(reason: number, message: string): void {
    this.session.close(reason, message);
    this.drain();
  }

  /** Says goodbye: the session is not parked. */
  leave(reason: number): void {
    this.options.left();
    this.generation++;
    if (this.session.phase === "open") this.session.fail(reason);
    else this.session.close(reason, "the transport is closed");
    this.drain();
    this.flush();
    this.hangUp(4_000 + reason);
    this.refuse("the transport is closed", CODE_CANCELED, true);
    this.redialAt = this.renewAt = Infinity;
    this.state.set({ status: "closed" });
    clearTimeout(this.timer); // Nothing keeps a process from ending.
    this.timerAt = Infinity;
  }

  close(): void {
    this.stopListening();
    this.leave(R.BYE);
  }

  private connect(why: Why): void {
    const generation = ++this.generation;
    this.redialAt = this.drainBy = Infinity;
    this.backoff.begin(this.now());
    this.state.set({ ...this.state.getSnapshot(), status: "connecting", retryAt: undefined });
    const ended = (code: number, reason: string) => {
      if (generation === this.generation) this.ended(code, reason);
    };
    this.credentials.ask(why).then(
      (headers) => {
        if (generation !== this.generation) return;
        this.openBy = this.now() + OPEN_PATIENCE;
        this.dialed = dial(this.options.url, this.options.webSocket, {
          open: () => {
            this.openBy = Infinity;
            this.session.connect(this.now(), headers);
            this.flush();
          },
          message: (data) => this.receive(data),
          close: ended,
        });
        this.arm();
      },
      (error) => ended(1006, `headers() failed: ${error}`),
    );
  }

  private receive(data: unknown): void {
    const now = this.now();
    if (data instanceof ArrayBuffer) this.session.receive(new Uint8Array(data), now);
    else this.session.fail(R.MALFORMED);
    this.drain();
  }

  /** Tells all events that are there, then writes. */
  private drain(): void {
    const { session, options } = this;
    for (let event = session.next(); event; event = session.next()) {
      if (event.type === "reply") this.backoff.connected(OF_USE);
      const owner = (event as { call?: Call }).call?.options.owner as Owner | undefined;
      apart(() => {
        if (owner) return owner.on(event as SessionEvent & { call: Call });
        this.on(event);
        options.heard(event);
      });
    }
    if (this.doneBefore !== session.commands.done) {
      this.doneBefore = session.commands.done;
      options.wrote();
    }
    if (session.isDraining && session.slots.open === 0) this.drained();
    this.flushSoon();
  }

  private on(event: SessionEvent): void {
    const now = this.now();
    if (event.type === "connected") {
      this.backoff.connected(event.resumed ? OF_USE : now);
      this.wasRefused = false;
      this.state.set({ status: "open" });
      this.expires(event.hello.expiresMs);
    } else if (event.type === "credential") {
      if (event.refused === undefined) this.expires(event.expiresMs);
      else if (!this.wasRefused) {
        this.wasRefused = true;
        void this.renew("refused");
      }
    } else if (event.type === "draining") {
      this.drainBy = event.graceMs ? now + event.graceMs : Infinity;
      this.redialAfter = event.afterMs;
    } else if (event.type === "lost") {
      this.hangUp(1000);
      const { reason = R.KEEP_ALIVE, message } = event;
      // Of a credential there may be another.
      if (event.isRefused && reason !== R.UNAUTHENTICATED_REASON) this.refuse(message || "the connection is refused", CODE_UNAVAILABLE, false);
      this.after(reason, message);
    } else if (event.type === "closed") {
      this.flush();
      this.hangUp(4_000 + event.reason);
      this.after(event.reason, event.message);
    }
  }

  private expires(ms: number): void {
    // In time for an answer, and not at once where the credential is short.
    this.renewAt = ms ? this.now() + ms - Math.min(60_000, ms / 5) : Infinity;
  }

  /** The session ended for a reason: whether to begin another. */
  private after(reason: number, message: string): void {
    if (this.state.getSnapshot().status === "closed") return;
    const isCredential = reason === R.UNAUTHENTICATED_REASON;
    if (isCredential && this.credentials.canRefresh && !this.wasRefused) {
      this.wasRefused = true;
      return this.connect("refused");
    }
    const text = `the server ended the live session (${reason})${message && `: ${message}`}`;
    if (R.allowsAgain(reason)) {
      return this.redial(R.parks(reason) ? undefined : new ConnectError(text, CODE_UNAVAILABLE));
    }
    // Nobody dials by itself: a parked session is given up, and the end of it leads here again.
    if (this.session.id) return this.session.close(reason, message);
    const code = isCredential ? CODE_UNAUTHENTICATED : CODE_UNAVAILABLE;
    this.state.set({ status: isCredential ? "unauthenticated" : "closed", error: new ConnectError(text, code) });
    this.refuse(text, code, false);
  }

  /** The socket closed by itself. */
  private ended(code: number, reason: string): void {
    const { session } = this;
    this.dialed = undefined;
    this.openBy = Infinity;
    const said = code >= 4_000 && code < 4_100 ? code - 4_000 : undefined;
    if (said !== undefined && said !== R.DRAIN && !R.parks(said) && session.phase !== "idle") {
      session.close(said, reason); // Its goaway was lost, its reason was not.
    } else if (session.phase !== "idle" && session.isLive) {
      session.lose(this.now());
    } else {
      const wasSilent = session.phase === "idle";
      if (!wasSilent) session.lose(this.now(), undefined, reason);
      this.drain();
      if (!wasSilent) return;
      const why = reason || `no connection to ${this.options.url}`;
      const error = new ConnectError(why, CODE_UNAVAILABLE);
      this.refuse(why, CODE_UNAVAILABLE, false);
      this.redial(error);
      this.options.failed(this.backoff.failures, error);
    }
    this.drain();
  }

  private drained(): void {
    this.drainBy = Infinity;
    this.hangUp(1000);
    this.session.lose(this.now());
    this.drain();
  }

  private redial(error: ConnectError | undefined): void {
    if (this.redialAt < Infinity && !this.state.instead) return;
    this.redialAt = this.state.instead ? this.now() + FALLBACK_REDIAL : this.backoff.next(this.now(), this.redialAfter);
    this.redialAfter = 0;
    this.state.set({ status: "connecting", retryAt: Date.now() + this.redialAt - this.now(), error });
    this.arm();
  }

  private hangUp(code: number): void {
    const { dialed } = this;
    this.dialed = undefined;
    this.openBy = Infinity;
    this.generation++;
    dialed?.end(code);
  }

  private refuse(message: string, code: number, withWatches: boolean): void {
    this.session.refuse(code, message, withWatches);
    this.flushSoon(); // Which tells them.
  }

  private flush(): void {
    const { session, dialed } = this;
    if (dialed && this.openBy === Infinity) {
      while (dialed.unsent < UNSENT_MAX) {
        const data = session.take(this.now());
        if (!data) break;
        dialed.send(data);
      }
      if (dialed.unsent >= UNSENT_MAX) setTimeout(() => this.flush(), 20);
    }
    if (session.hasEvents) this.drain();
    this.arm();
  }

  private deadline(): number {
    const { session, openBy, drainBy, redialAt, renewAt } = this;
    return Math.min(session.deadline(), openBy, drainBy, redialAt, renewAt);
  }

  private arm(): void {
    const at = this.deadline();
    if (at >= this.timerAt || at === Infinity) return;
    clearTimeout(this.timer);
    this.timerAt = at;
    const delay = Math.min(2 ** 31 - 1, Math.max(0, Math.ceil(at - this.now())));
    this.timer = setTimeout(() => this.timeout(at), delay);
  }

  private timeout(due: number): void {
    this.timerAt = Infinity;
    const now = this.now();
    if (now - due > PAUSE && this.state.getSnapshot().status === "open") this.session.wake(now);
    if (now >= this.openBy) {
      this.openBy = Infinity;
      this.dialed?.end(); // Stuck: its end is told as a failed attempt.
    }
    if (now >= this.drainBy) this.drained();
    if (now >= this.renewAt) {
      this.renewAt = Infinity;
      void this.renew("expiring");
    }
    if (now >= this.redialAt) this.connect("connect");
    this.session.timeout(now);
    this.drain();
    this.flush();
  }
}
