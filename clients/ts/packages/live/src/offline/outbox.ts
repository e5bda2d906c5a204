/**
 * Commands made without a connection: stored with a key before they are sent, sent in order, each
 * once. A service that keeps keys runs each once, however often it is sent; where none are kept, a
 * command is told as unknown and not run.
 */
import { create, type DescMessage, type DescMethodUnary, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Store } from "../socket/state.ts";
import { isOutcomeUnknown } from "../transport/errors.ts";
import { pathOf } from "../transport/method.ts";
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
      while (!this.isClosed && this.entries.length && this.transport.connection.getSnapshot().status === "open") {
        if (!(await this.sendFirst(this.entries[0]!))) break;
      }
    } catch (error) {
      if (!this.isClosed) throw error; // It could not be stored.
    } finally {
      this.isSending = false;
    }
  }

  private async sendFirst(entry: Kept): Promise<boolean> {
    const { method, input, session, id, firstSent } = entry;
    if (firstSent === undefined) {
      entry.firstSent = Date.now();
      await this.set(this.entries); // Before it is sent: a page that ends now does not forget that.
    }
    let outcome: Outcome;
    try {
      const reply = await this.transport.command(method, input as never, { session, id }, firstSent);
      outcome = { entry, status: "done", reply };
      entry.resolve?.(reply);
    } catch (cause) {
      const error = ConnectError.from(cause);
      const isPassing = error.code === Code.Unavailable && !isOutcomeUnknown(error);
      if (this.isClosed || isPassing) return false; // It waits for the next connection.
      outcome = { entry, status: isOutcomeUnknown(error) ? "unknown" : "failed", error };
      entry.reject?.(error);
    }
    await this.set(this.entries.filter((other) => other !== entry));
    this.told(outcome);
    return true;
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
