/**
 * Commands made without a connection: stored with a key before they are sent, sent in order, each
 * once. A service that keeps keys runs each once, however often it is sent; where none are kept, a
 * command is told as unknown and not run.
 */
import { create, type DescMessage, type DescMethodUnary, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Store } from "../socket/state.ts";
import { UNKNOWN } from "../session/event.ts";
import { isOutcomeUnknown, withOutcome } from "../transport/errors.ts";
import { kindOf, pathOf } from "../transport/method.ts";
import type { LiveTransport } from "../transport/transport.ts";
import { utf8, utf8Bytes } from "../wire/metadata.ts";
import { Reader, Writer } from "../wire/varint.ts";

export interface OutboxEntry {
  readonly method: DescMethodUnary;
  readonly input: MessageShape<DescMessage>;
  /** When it was made, in milliseconds since 1970. */
  readonly madeAt: number;
}

/** What became of a command. */
export type Outcome = { entry: OutboxEntry } & (
  | { status: "done"; reply: MessageShape<DescMessage> }
  | { status: "failed"; error: ConnectError }
  /** It may have run. It is not sent again: ask the server, or the user. */
  | { status: "unknown"; error: ConnectError }
);

interface Kept extends OutboxEntry {
  /** Its key: the session and the id under which it is sent, by whichever page. */
  session: Uint8Array;
  id: number;
  firstSent: number | undefined;
  resolve?(reply: MessageShape<DescMessage>): void;
  reject?(error: ConnectError): void;
}

export class Outbox implements Store<readonly OutboxEntry[]> {
  private entries: readonly Kept[] = [];
  private readonly listeners: Set<() => void> = new Set();
  private nextId = 1;
  private isSending = false;
  private readonly session: Uint8Array = crypto.getRandomValues(new Uint8Array(16));
  private readonly transport: LiveTransport;
  private readonly entriesMax: number;
  private readonly save: (bytes: Uint8Array | undefined) => Promise<void>;
  private readonly told: (outcome: Outcome) => void;
  isClosed = false;

  constructor(
    transport: LiveTransport,
    entriesMax: number,
    save: (bytes: Uint8Array | undefined) => Promise<void>,
    told: (outcome: Outcome) => void,
  ) {
    this.transport = transport;
    this.entriesMax = entriesMax;
    this.save = save;
    this.told = told;
  }

  readonly getSnapshot = (): readonly OutboxEntry[] => this.entries;
  readonly subscribe = (onChange: () => void): (() => void) => {
    this.listeners.add(onChange);
    return () => void this.listeners.delete(onChange);
  };

  /** Stores a command; it is sent when there is a connection. The promise is for its reply. */
  async add<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
  ): Promise<MessageShape<O>> {
    if (this.entries.length >= this.entriesMax) {
      throw new ConnectError(`${this.entriesMax} commands wait for a connection already`, Code.ResourceExhausted);
    }
    const message = create(method.input, input) as MessageShape<DescMessage>;
    const { session } = this;
    const entry: Kept = { method, input: message, madeAt: Date.now(), session, id: this.nextId++, firstSent: undefined };
    const reply = new Promise<MessageShape<DescMessage>>((resolve, reject) => Object.assign(entry, { resolve, reject }));
    reply.catch(() => {}); // Told by `onOutcome`, whoever awaits it.
    await this.set([...this.entries, entry]);
    void this.send();
    return reply as Promise<MessageShape<O>>;
  }

  /** Sends what waits, one after the other. */
  async send(): Promise<void> {
    if (this.isSending) return;
    this.isSending = true;
    try {
      while (!this.isClosed && this.entries.length && this.isReached) {
        if (!(await this.sendFirst(this.entries[0]!))) break;
      }
    } catch (error) {
      if (!this.isClosed) throw error; // It could not be stored.
    } finally {
      this.isSending = false;
    }
  }

  private get isReached(): boolean {
    const { status } = this.transport.connection.getSnapshot();
    return status === "open" || status === "fallback";
  }

  private async sendFirst(entry: Kept): Promise<boolean> {
    const { method } = entry;
    const mayRepeat = kindOf(method) === "idempotent";
    const isOverHttp = this.transport.connection.getSnapshot().status === "fallback";
    let outcome: Outcome;
    try {
      const reply = await (isOverHttp ? this.overHttp(entry, mayRepeat) : this.underKey(entry));
      outcome = { entry, status: "done", reply };
      entry.resolve?.(reply);
    } catch (cause) {
      const error = ConnectError.from(cause);
      const isUnknown = isOutcomeUnknown(error);
      const isPassing = error.code === Code.Unavailable && (mayRepeat || !isUnknown);
      if (isPassing && !isUnknown && isOverHttp) entry.firstSent = undefined; // It did not run.
      if (this.isClosed || isPassing) return false; // It waits for the next connection.
      outcome = { entry, status: isUnknown ? "unknown" : "failed", error };
      entry.reject?.(error);
    }
    await this.set(this.entries.filter((other) => other !== entry));
    this.told(outcome);
    return true;
  }

  private async underKey(entry: Kept): Promise<MessageShape<DescMessage>> {
    const { method, input, session, id, firstSent } = entry;
    if (firstSent === undefined) await this.sending(entry, Date.now());
    return this.transport.command(method, input as never, { session, id }, firstSent);
  }

  /** HTTP has no keys: what may have been sent once is not sent again, by whatever way. */
  private async overHttp(entry: Kept, mayRepeat: boolean): Promise<MessageShape<DescMessage>> {
    const { method, input, firstSent } = entry;
    if (firstSent !== undefined && !mayRepeat) {
      throw withOutcome(new ConnectError("the command may have run before, and no key can tell", Code.Aborted), UNKNOWN);
    }
    if (firstSent === undefined) await this.sending(entry, LONG_AGO);
    const { message } = await this.transport.unary(method, undefined, undefined, undefined, input as never);
    return message;
  }

  /** Stored before it is sent: a page that ends now does not forget that. */
  private async sending(entry: Kept, when: number): Promise<void> {
    entry.firstSent = when;
    await this.set(this.entries);
  }

  private async set(entries: readonly Kept[]): Promise<void> {
    this.entries = entries;
    await this.save(entries.length ? this.write() : undefined);
    for (const listener of [...this.listeners]) listener();
  }

  private write(): Uint8Array {
    const writer = new Writer();
    writer.byte(VERSION);
    for (const { method, input, madeAt, session, id, firstSent } of this.entries) {
      writer.string(utf8Bytes(pathOf(method)));
      writer.string(toBinary(method.input, input));
      writer.varint(madeAt);
      writer.string(session);
      writer.varint(id);
      writer.varint(firstSent ?? 0);
    }
    return writer.take();
  }

  /** Takes over what a page that is gone has stored, in the order in which it was made. */
  async adopt(bytes: Uint8Array, methods: Map<string, DescMethodUnary>): Promise<void> {
    const reader = new Reader(bytes);
    const entries = [...this.entries];
    if (reader.byte() !== VERSION) return;
    while (reader.hasMore) {
      const method = methods.get(utf8(reader.string()));
      const data = reader.string();
      const madeAt = reader.varint();
      const session = reader.string().slice();
      const [id, firstSent] = [reader.varint(), reader.varint() || undefined];
      const isHere = entries.some((one) => one.id === id && one.session.join() === session.join());
      if (method && !isHere) entries.push({ method, input: fromBinary(method.input, data), madeAt, session, id, firstSent });
    }
    await this.set(entries.sort((one, other) => one.madeAt - other.madeAt));
    void this.send();
  }
}

const VERSION = 2;
/** Before any time for which keys are kept. */
const LONG_AGO = 1;
