/**
 * Commands made without a connection: stored with a key before they are sent, sent in order, each
 * once. A service that keeps keys runs each once, however often it is sent; where none are kept, a
 * command is told as unknown and not run.
 *
 * With a connection a command is sent at once, as any other call. If its answer does not come
 * within a second, or before the page may end, it is stored as what it was sent as, so that another
 * page finds out what became of it. Most are answered before, and cost nothing.
 */
import { type DescMessage, type DescMethodUnary, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Store } from "../socket/state.ts";
import type { SentCall } from "../session/call.ts";
import { NOT_RUN, UNKNOWN } from "../session/event.ts";
import { apart } from "../socket/apart.ts";
import { isNotRun, isOutcomeUnknown, withOutcome } from "../transport/errors.ts";
import { decode, encode, kindOf, pathOf } from "../transport/method.ts";
import type { LiveTransport } from "../transport/transport.ts";
import { utf8, utf8Bytes } from "../wire/metadata.ts";
import { EMPTY } from "../wire/frame.ts";
import { latin1, Reader, Writer } from "../wire/varint.ts";

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
  /** It was sent at once, and is stored all the same: nobody has answered it. */
  isKept?: boolean;
  /** It has ended, and is still to be removed. */
  outcome?: Outcome;
  /** What was returned for it. */
  reply?: Promise<unknown>;
  resolve?(reply: MessageShape<DescMessage>): void;
  reject?(error: ConnectError): void;
}

export class Outbox implements Store<readonly OutboxEntry[]> {
  private entries: readonly StoredEntry[] = [];
  /** What is stored of them, once that is done. */
  private stored: readonly StoredEntry[] = [];
  /** Sent at once, and not answered, in their order. */
  private readonly sent: Set<StoredEntry> = new Set();
  private shown: readonly StoredEntry[] = [];
  private readonly listeners: Set<() => void> = new Set();
  private nextId = 1;
  private sending: Promise<void> | undefined;
  private current: StoredEntry | undefined;
  /** Ends when what is to be stored has been. */
  private changing: Promise<void> = Promise.resolve();
  private changes = 0;
  /** What is stored is not what is to be. */
  private hasFailed = false;
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

  readonly getSnapshot = (): readonly OutboxEntry[] => this.shown;
  readonly subscribe = (onChange: () => void): (() => void) => {
    this.listeners.add(onChange);
    return () => void this.listeners.delete(onChange);
  };

  /** Nothing waits to be sent, nor is about to. */
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
    let entry: StoredEntry;
    try {
      entry = this.entry(method, input, undefined);
    } catch (error) {
      return Promise.reject(error);
    }
    const replied = new Promise<MessageShape<DescMessage>>((resolve, reject) => Object.assign(entry, { resolve, reject }));
    replied.catch(() => {}); // Heard of through what is returned.
    const reply = this.change((entries) => {
      if (this.all(entries).length < this.entriesMax) return [...entries, entry];
      throw new ConnectError(`${this.entriesMax} commands wait for a connection already`, Code.ResourceExhausted);
    }).then(() => {
      void this.send();
      return replied;
    });
    entry.reply = reply;
    return reply as Promise<MessageShape<O>>;
  }

  /** Sends a command at once, beside what others wait for. */
  sendNow<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    input: MessageInitShape<I>,
  ): Promise<MessageShape<O>> {
    let entry: StoredEntry;
    try {
      // Until it is known what it was sent as, it may have been, and no key can tell.
      entry = this.entry(method, input, LONG_AGO);
    } catch (error) {
      return Promise.reject(error);
    }
    this.sent.add(entry);
    return (entry.reply = this.untilAnswered(entry)) as Promise<MessageShape<O>>;
  }

  private async untilAnswered(entry: StoredEntry): Promise<unknown> {
    const { method, input } = entry;
    const timer = setTimeout(() => this.keepSent(), PATIENCE);
    const sent = ({ key, command: id, firstSent, options }: SentCall, session: Uint8Array | undefined) => {
      // A service that was given a key of the application's keeps that one.
      const isKey = id && session && !latin1(options.headers ?? EMPTY).includes("idempotency-key");
      Object.assign(entry, isKey ? { session, id, ...key, firstSent } : { firstSent: LONG_AGO });
      if (entry.isKept) void this.store();
    };
    try {
      const reply = await this.transport.command(method, input as never, { sent });
      await this.answered(entry, { status: "done", entry, reply });
      return reply;
    } catch (cause) {
      const error = ConnectError.from(cause);
      const isUnknown = isOutcomeUnknown(error);
      if (this.isLeftBy(error)) await this.keepSent();
      else await this.answered(entry, { status: isUnknown ? "unknown" : "failed", entry, error });
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Removed before anybody hears of it: a page that then ends leaves nothing to be sent again. */
  private async answered(entry: StoredEntry, outcome: Outcome): Promise<void> {
    const { isKept } = entry;
    Object.assign(entry, { isKept: false, outcome });
    if (isKept && this.sent.has(entry)) await this.store();
    if (this.sent.delete(entry) && isKept) apart(() => this.told(outcome));
  }

  /** Stores what was sent and has no answer. It is begun at once: the page may end now. */
  async keepSent(): Promise<void> {
    let room = this.entriesMax - this.stored.length;
    let isNew = false;
    for (const entry of this.sent) {
      if (room-- > 0 && !entry.isKept && !entry.outcome) isNew = entry.isKept = true;
    }
    if (isNew) await this.store();
  }

  /** Stores all that is to be, beside the changes that come one after the other. */
  private async store(): Promise<void> {
    this.hasFailed = false;
    try {
      await this.save(this.bytes());
    } catch {
      this.hasFailed = true; // Tried again when something is sent.
    }
    this.changed();
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
    void this.keepSent();
    for (const entry of this.entries) if (entry !== this.current) this.refuse(entry, error);
    await this.sending; // What is being sent hears of its own end, if that comes.
    for (const entry of this.entries) this.refuse(entry, error);
    await Promise.allSettled([...this.sent].map(({ reply }) => reply));
    await this.changing;
  }

  /** The user signed out: nothing is kept of what waits, and nobody told what becomes of it. */
  clear(error: ConnectError): void {
    for (const entry of this.entries) this.refuse(entry, error);
    this.entries = this.stored = [];
    this.sent.clear();
    this.changed();
  }

  /** Who does not wait for it needs not hear of it either. */
  private refuse(entry: StoredEntry, error: ConnectError): void {
    entry.reply?.catch(() => {});
    entry.reject?.(error);
  }

  private async sendAll(): Promise<void> {
    if (this.hasFailed) await this.store();
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
      if (isAgain || this.isLeftBy(error)) return undefined;
      entry.reject?.(error);
      return { status: isUnknown ? "unknown" : "failed", entry, error };
    }
  }

  /** Whether the page gave up, not the server: the next one finds out. */
  private isLeftBy(error: ConnectError): boolean {
    const isOver = !!this.closed || this.transport.connection.getSnapshot().status === "closed";
    return isOver && (isOutcomeUnknown(error) || error.code === Code.Canceled);
  }

  private underKey({ method, input, session, id }: StoredEntry, firstSent: number | undefined): Promise<MessageShape<DescMessage>> {
    return this.transport.command(method, input as never, { key: { session, id }, firstSent });
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
      const entries = (this.stored = edit(before));
      try {
        await this.save(this.bytes());
      } catch (error) {
        this.stored = before;
        await this.save(this.bytes()).catch(() => {}); // If it was half done.
        throw error;
      }
      this.entries = entries;
    };
    const done = this.changing.then(change).finally(() => this.changes--);
    this.changing = done.catch(() => {});
    return done.then(() => this.changed());
  }

  /** With what was sent at once and is stored. */
  private all(entries: readonly StoredEntry[]): StoredEntry[] {
    return [...[...this.sent].filter(({ isKept }) => isKept), ...entries];
  }

  private bytes(): Uint8Array | undefined {
    return write(this.all(this.stored).map(toStored));
  }

  /** A copy of the input: what is stored is what was sent. */
  private entry(method: DescMethodUnary, input: MessageInitShape<DescMessage>, firstSent: number | undefined): StoredEntry {
    const message = decode(method.input, encode(method.input, input, undefined), undefined);
    return { method, input: message, madeAt: Date.now(), session: this.session, id: this.nextId++, firstSent };
  }

  private changed(): void {
    this.shown = this.all(this.entries);
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

/** How long a command that was sent is not stored. */
const PATIENCE = 1_000;
/** How long commands wait for a page that uses their service. */
const LEFT_FOR = 86_400_000;
const VERSION = 2;
/** Before any time for which keys are kept. */
const LONG_AGO = 1;
