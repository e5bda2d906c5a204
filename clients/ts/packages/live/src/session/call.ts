/** One call of this side: what it asks, where it stands, and who is told of its answers. */
import { EMPTY, PAYLOAD_MAX } from "../wire/frame.ts";
import { Outgoing, PIECE } from "../wire/items.ts";
import { bytesOf } from "../wire/varint.ts";
import { CANCELLED, DROPPED, WAITING } from "./standing.ts";

export * from "./standing.ts";

/** Of a method: NO_SIDE_EFFECTS is a query, IDEMPOTENT a command that may run twice. */
export type Kind = "query" | "command" | "idempotent";

/** What a command was first sent as (docs/live-protocol.md, section 6.5). */
export interface CommandKey {
  session: Uint8Array;
  id: number;
}

export interface CallOptions {
  path: string;
  kind: Kind;
  /** As a string with a character for each byte where it is kept for long. */
  body?: Uint8Array | string;
  /** NOTIFY or VALUES of wire/frame.ts. */
  watch?: number;
  /** The application pushes items; else `body` is all. */
  isStreaming?: boolean;
  /** Encoded metadata entries. */
  headers?: Uint8Array;
  /** On the clock of `now`. */
  deadline?: number;
  validator?: string;
  key?: CommandKey;
  /** When the command was first sent, if that was in an earlier page. */
  firstSent?: number;
  /** Hears each time that it is sent, and in which session. */
  sent?(call: SentCall, session: Uint8Array | undefined): void;
  /** Belongs to whoever made the call; events carry the call and so this. */
  owner?: unknown;
}

/** What a call was sent as. */
export interface SentCall extends Pick<Call, "command" | "key" | "firstSent"> {
  readonly options: Pick<CallOptions, "headers">;
}

/** What a call needs only when its answer, or its body, comes in items. */
export interface Incoming {
  received: number;
  consumed: number;
  returned: number;
  pieces: Uint8Array[];
  pieceBytes: number;
}

export class Call {
  readonly options: CallOptions;
  stream = 0;
  state: number = WAITING;
  /** The count of requests before it in its session. */
  nth = 0;
  command = 0;
  wasSent = false;
  /** Sent in an earlier session, so that "not run" says nothing of that. */
  isRepeated: boolean;
  isSuspect = false;
  hasHead = false;
  /** The owner says itself when it has taken an answer, to be sent fewer. */
  holdsSeen = false;
  validator: string | undefined;
  key: CommandKey | undefined;
  firstSent: number | undefined;
  deadline: number | undefined;
  outgoing: Outgoing | undefined;
  incoming: Incoming | undefined;
  /** The owner waits to push more. */
  wantsRoom = false;
  /** It is in the line of streams that have something to send. */
  isInLine = false;

  constructor(options: CallOptions) {
    this.options = options;
    this.validator = options.validator;
    this.key = options.key;
    this.isRepeated = !!options.key && options.firstSent !== undefined;
    this.deadline = options.deadline;
    this.firstSent = options.firstSent;
    this.load();
  }

  get isCancelled(): boolean {
    return this.state === CANCELLED || this.state === DROPPED;
  }

  get isCommand(): boolean {
    return this.options.kind !== "query";
  }

  get isStream(): boolean {
    return !!this.outgoing || this.hasHead;
  }

  /** A unary command runs to its end, whoever waits for it. */
  get runsOn(): boolean {
    return this.command > 0 && !this.isStream;
  }

  get body(): Uint8Array {
    return this.outgoing ? EMPTY : this.whole;
  }

  private get whole(): Uint8Array {
    const { body = EMPTY } = this.options;
    return typeof body === "string" ? bytesOf(body)! : body;
  }

  /** Begins the body anew. */
  load(): void {
    const { body = EMPTY, isStreaming, watch } = this.options;
    const isLarge = body.length > (watch ? PAYLOAD_MAX : PIECE - 8);
    this.outgoing = isStreaming || isLarge ? new Outgoing() : undefined;
    if (!isStreaming && isLarge) {
      this.outgoing!.push(this.whole);
      this.outgoing!.isFinished = true;
    }
  }
}
