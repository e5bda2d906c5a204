/**
 * Commands made without a connection: stored with a key before they are sent, sent in order, each
 * once. A service that keeps keys runs each once, however often it is sent; where none are kept, a
 * command is told as unknown and not run.
 */
import { create, type DescMessage, type DescMethodUnary, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Store } from "../socket/state.ts";
import { NOT_RUN, UNKNOWN } from "../session/event.ts";
import { apart } from "../socket/apart.ts";
import { isNotRun, isOutcomeUnknown, withOutcome } from "../transport/errors.ts";
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
export type Outcome =
  | { status: "done"; entry: OutboxEntry; reply: MessageShape<DescMessage> }
  /** Without an entry: what an earlier page stored, and this one cannot read. */
  | { status: "failed"; entry: OutboxEntry | undefined; error: ConnectError }
  /** It may have run. It is not sent again: ask the server, or the user. */
  | { status: "unknown"; entry: OutboxEntry | undefined; error: ConnectError };

/** What a page can send of what others have stored. */
export interface Readable {
  methods: Map<string, DescMethodUnary>;
  /** Names of services, with a slash before and behind. */
  services: Set<string>;
  /** It has just begun, so that no page is newer. */
  isNewest: boolean;
}

interface StoredEntry extends OutboxEntry {
  /** Its key: the session and the id under which it is sent, by whichever page. */
  session: Uint8Array;
  id: number;
  firstSent: number | undefined;
  /** It has ended, and is still to be removed. */
  outcome?: Outcome;
  /** What `add` returned. */
  reply?: Promise<unknown>;
  resolve?(reply: MessageShape<DescMessage>): void;
  reject?(error: ConnectError): void;
}

export class Outbox implements Store<readonly OutboxEntry[]> {
  private entries: readonly StoredEntry[] = [];
  private readonly listeners: Set<() => void> = new Set();
  private nextId = 1;
  private sending: Promise<void> | undefined;
  private current: StoredEntry | undefined;
  /** Ends when what is to be stored has been. */
  private changing: Promise<void> = Promise.resolve();
  private changes = 0;
  private readonly session: Uint8Array = crypto.getRandomValues(new Uint8Array(16));
  private readonly transport: LiveTransport;
  private readonly entriesMax: number;
  private readonly save: (bytes: Uint8Array | undefined) => Promise<void>;
  private readonly told: (outcome: Outcome) => void;
  /** Why nothing more is taken. */
  private closed: ConnectError | undefined;

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

  /** Nothing waits, nor is about to. */
  get isEmpty(): boolean {
    return !this.entries.length && !this.changes;
  }

  get isReached(): boolean {
    const { status } = this.transport.connection.getSnapshot();
    return status === "open" || status === "fallback";
  }

  /** Stores a command; it is sent when there is a connection. The promise is for its reply. */
  add<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
  ): Promise<MessageShape<O>> {
    const { session } = this;
    let message: MessageShape<DescMessage>;
    try {
      message = create(method.input, input) as MessageShape<DescMessage>;
    } catch (error) {
      return Promise.reject(error);
    }
    const entry: StoredEntry = { method, input: message, madeAt: Date.now(), session, id: this.nextId++, firstSent: undefined };
    const replied = new Promise<MessageShape<DescMessage>>((resolve, reject) => Object.assign(entry, { resolve, reject }));
    replied.catch(() => {}); // Heard of through what is returned.
    const reply = this.change((entries) => {
      if (entries.length < this.entriesMax) return [...entries, entry];
      throw new ConnectError(`${this.entriesMax} commands wait for a connection already`, Code.ResourceExhausted);
    }).then(() => {
      void this.send();
      return replied;
    });
    entry.reply = reply;
    return reply as Promise<MessageShape<O>>;
  }

  /** Sends what waits, one after the other. Where that cannot be stored, it is for another time. */
  send(): Promise<void> {
    return (this.sending ??= this.sendAll()
      .catch(() => {})
      .finally(() => (this.sending = this.current = undefined)));
  }

  /** Takes no more commands and sends no more; what waits is for another page. Ends with the last send. */
  async close(error: ConnectError): Promise<void> {
    if (this.closed) return;
    this.closed = error;
    for (const entry of this.entries) if (entry !== this.current) this.refuse(entry, error);
    await this.sending; // What is being sent hears of its own end, if that comes.
    for (const entry of this.entries) this.refuse(entry, error);
    await this.changing;
  }

  /** The user signed out: nothing is kept of what waits, and nobody told what becomes of it. */
  clear(error: ConnectError): void {
    for (const entry of this.entries) this.refuse(entry, error);
    this.entries = [];
    this.changed();
  }

  /** Who does not wait for it needs not hear of it either. */
  private refuse(entry: StoredEntry, error: ConnectError): void {
    entry.reply?.catch(() => {});
    entry.reject?.(error);
  }

  private async sendAll(): Promise<void> {
    while (!this.closed && this.entries.length && this.isReached) {
      this.current = this.entries[0]!;
      if (!(await this.sendOne(this.current))) break;
    }
  }

  private async sendOne(entry: StoredEntry): Promise<boolean> {
    entry.outcome ??= await this.run(entry);
    const { outcome } = entry;
    if (!outcome || !this.entries.includes(entry)) return false;
    await this.change((entries) => entries.filter((other) => other !== entry), true);
    apart(() => this.told(outcome));
    return true;
  }

  /** What became of it; undefined if it waits for the next connection, or the next page. */
  private async run(entry: StoredEntry): Promise<Outcome | undefined> {
    const { method, firstSent } = entry;
    const mayRepeat = kindOf(method) === "idempotent";
    const isOverHttp = this.transport.connection.getSnapshot().status === "fallback";
    const maySend = !isOverHttp || mayRepeat || firstSent === undefined;
    if (firstSent === undefined) await this.begin(entry, isOverHttp ? LONG_AGO : Date.now());
    try {
      // HTTP has no keys: what may have been sent once is not sent again, by whatever way.
      if (!maySend) throw withOutcome(new ConnectError("the command may have run before, and no key can tell", Code.Aborted), UNKNOWN);
      const reply = await (isOverHttp ? this.overHttp(entry) : this.underKey(entry, firstSent));
      entry.resolve?.(reply);
      return { status: "done", entry, reply };
    } catch (cause) {
      const error = ConnectError.from(cause);
      const isUnknown = isOutcomeUnknown(error);
      const isAgain = mayBeSentAgain(error, mayRepeat);
      if (isAgain && isOverHttp && !isUnknown) entry.firstSent = undefined; // It did not run.
      // The page gave up, not the server: the next one finds out.
      const isLeft = this.isLeft && (isUnknown || error.code === Code.Canceled);
      if (isAgain || isLeft) return undefined;
      entry.reject?.(error);
      return { status: isUnknown ? "unknown" : "failed", entry, error };
    }
  }

  private get isLeft(): boolean {
    return !!this.closed || this.transport.connection.getSnapshot().status === "closed";
  }

  private underKey({ method, input, session, id }: StoredEntry, firstSent: number | undefined): Promise<MessageShape<DescMessage>> {
    return this.transport.command(method, input as never, { session, id }, firstSent);
  }

  private async overHttp({ method, input }: StoredEntry): Promise<MessageShape<DescMessage>> {
    const { message } = await this.transport.unary(method, undefined, undefined, undefined, input as never);
    return message;
  }

  /** Stored before it is sent: a page that ends now does not forget that. */
  private async begin(entry: StoredEntry, when: number): Promise<void> {
    entry.firstSent = when;
    try {
      await this.change((entries) => entries, true);
    } catch (error) {
      entry.firstSent = undefined;
      throw error;
    }
  }

  /**
   * Stored first: what could not be stored did not happen. One after the other, each from what the
   * one before made. Once the page is closed, only what is being sent ends (`isLast`).
   */
  private change(edit: (entries: readonly StoredEntry[]) => readonly StoredEntry[], isLast = false): Promise<void> {
    this.changes++;
    const change = async () => {
      if (this.closed && !isLast) throw this.closed;
      const before = this.entries;
      const entries = edit(before);
      try {
        await this.save(write(entries.map(toStored)));
      } catch (error) {
        await this.save(write(before.map(toStored))).catch(() => {}); // If it was half done.
        throw error;
      }
      this.entries = entries;
    };
    const done = this.changing.then(change).finally(() => this.changes--);
    this.changing = done.catch(() => {});
    return done.then(() => this.changed());
  }

  private changed(): void {
    for (const listener of [...this.listeners]) apart(listener);
  }

  /**
   * Takes over what a page that is gone has stored, in the order in which it was made. Returns what
   * is for another page: of services that this one does not use, or of a newer schema.
   */
  async adopt(bytes: Uint8Array, readable: Readable): Promise<Uint8Array | undefined> {
    const stored = read(bytes);
    if (!stored) {
      if (!readable.isNewest) return bytes;
      this.tellUnread(new ConnectError("commands that another version of @tidewire/live stored cannot be read", Code.DataLoss), false);
      return undefined;
    }
    const others: StoredEntry[] = [];
    const unread: [Stored, ConnectError][] = [];
    const left: Stored[] = [];
    for (const one of stored) {
      const [entry, error] = understand(one, readable);
      if (entry) others.push(entry);
      else if (isForAnother(one, readable)) left.push(one);
      else unread.push([one, error!]);
    }
    if (left.length === stored.length) return bytes;
    if (others.length) {
      await this.change((entries) => {
        const isHere = ({ id, session }: StoredEntry) => entries.some((one) => one.id === id && one.session.join() === session.join());
        const all = [...entries, ...others.filter((one) => !isHere(one))];
        return all.sort((one, other) => one.madeAt - other.madeAt);
      });
      void this.send();
    }
    for (const [{ firstSent }, error] of unread) this.tellUnread(error, firstSent !== undefined);
    return write(left);
  }

  private tellUnread(error: ConnectError, wasSent: boolean): void {
    withOutcome(error, wasSent ? UNKNOWN : NOT_RUN);
    apart(() => this.told({ status: wasSent ? "unknown" : "failed", entry: undefined, error }));
  }
}

/** What kept it from being answered will pass, and it did not run for sure, or may run twice. */
function mayBeSentAgain(error: ConnectError, mayRepeat: boolean): boolean {
  return error.code === Code.Unavailable && (isNotRun(error) || mayRepeat);
}

/** What an entry is to this page, or why it is nothing. */
function understand({ path, data, ...key }: Stored, { methods }: Readable): [StoredEntry | undefined, ConnectError?] {
  const method = methods.get(path);
  const which = `the command ${path} of ${new Date(key.madeAt).toISOString()}`;
  if (!method) return [undefined, new ConnectError(`${which} waited, and this page has no such method`, Code.Unimplemented)];
  try {
    return [{ method, input: fromBinary(method.input, data), ...key }];
  } catch {
    return [undefined, new ConnectError(`${which} waited, and cannot be read`, Code.DataLoss)];
  }
}

/** Whether there may be a page that understands it better. */
function isForAnother({ path, madeAt }: Stored, { services, isNewest }: Readable): boolean {
  const isOurs = services.has(path.slice(0, path.lastIndexOf("/") + 1));
  return !isNewest || (!isOurs && Date.now() - madeAt < LEFT_FOR);
}

/** A command as it is stored. */
interface Stored extends Pick<StoredEntry, "madeAt" | "session" | "id" | "firstSent"> {
  path: string;
  data: Uint8Array;
}

const toStored = ({ method, input, ...key }: StoredEntry): Stored => ({ path: pathOf(method), data: toBinary(method.input, input), ...key });

/** What is stored of commands; undefined if there are none. */
function write(entries: readonly Stored[]): Uint8Array | undefined {
  if (!entries.length) return undefined;
  const writer = new Writer();
  writer.byte(VERSION);
  for (const { path, data, madeAt, session, id, firstSent } of entries) {
    writer.string(utf8Bytes(path));
    writer.string(data);
    writer.varint(madeAt);
    writer.string(session);
    writer.varint(id);
    writer.varint(firstSent ?? 0);
  }
  return writer.take();
}

/** Undefined if another version wrote it. */
function read(bytes: Uint8Array): Stored[] | undefined {
  const reader = new Reader(bytes);
  const entries: Stored[] = [];
  try {
    if (reader.byte() !== VERSION) return undefined;
    while (reader.hasMore) {
      const path = utf8(reader.string());
      const data = reader.string();
      const madeAt = reader.varint();
      const session = reader.string().slice();
      const [id, firstSent] = [reader.varint(), reader.varint() || undefined];
      entries.push({ path, data, madeAt, session, id, firstSent });
    }
    return entries;
  } catch {
    return undefined;
  }
}

/** How long commands wait for a page that uses their service. */
const LEFT_FOR = 86_400_000;
const VERSION = 2;
/** Before any time for which keys are kept. */
const LONG_AGO = 1;
