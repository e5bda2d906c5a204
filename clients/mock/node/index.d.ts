/** A message as JSON has it: fields by their name in the `.proto` or in JSON. */
export type Document = object;

/** A message that protobuf-es made; its type is known from the method's descriptor. */
export type Message = { readonly $typeName: string };

/** `shop.v1.Cart/GetPrice`, or the descriptor that protobuf-es made: `Cart.method.getPrice`. */
export type Method =
  string | { readonly name: string; readonly parent: { readonly typeName: string } };

/** A value, or an operator of rule files: `{ gte: 100 }`, `{ regex: "^SK" }`. */
export type Condition = unknown;

/** What goes wrong with an answer when it is sent. */
export type Fault =
  | "reset"
  | "goaway"
  | "drop_trailers"
  | {
      readonly kind:
        "reset" | "goaway" | "truncate" | "dribble" | "slow" | "drop_trailers" | "content_type";
      readonly after?: number;
      readonly bytes?: number;
      readonly every?: string;
      readonly value?: string;
      /** How probable it is; 1 where it is not there. */
      readonly p?: number;
    };

/** The codes of errors. */
export type Code =
  | "canceled"
  | "unknown"
  | "invalid_argument"
  | "deadline_exceeded"
  | "not_found"
  | "already_exists"
  | "permission_denied"
  | "resource_exhausted"
  | "failed_precondition"
  | "aborted"
  | "out_of_range"
  | "unimplemented"
  | "internal"
  | "unavailable"
  | "data_loss"
  | "unauthenticated";

export interface Options {
  /** Folder of `.proto` files, a `.proto` file, or a descriptor set. Default: `protos`. */
  protos?: string;
  /** Folder of rule files; none unless it is named. */
  rules?: string;
  /** The program. Default: the variable `TIDEWIRE`, or `tidewire` on PATH. */
  program?: string;
  /** Default: any port that is free. */
  port?: number;
  /** What chance follows from. Default: 0. */
  seed?: number;
  /** Refuse requests that break rules of validation. */
  validate?: boolean;
  /** What methods without rules answer. Default: what the schema makes plausible. */
  withoutRule?: "generated" | "unimplemented";
  /** URL of the real service, for calls that no rule answers. */
  upstream?: string;
  /** Look for changes of the files. */
  watch?: boolean;
  /** Further arguments of `tidewire mock`. */
  arguments?: readonly string[];
}

/** A stub in the making: what it wants of the call, then what it answers. */
export interface Rule {
  with(path: string, value: Condition): this;
  /** Of a document each path; of a message all of it. */
  with(wanted: Document | Message): this;
  withHeader(name: string, value: Condition): this;
  /** Answers so often only. */
  times(count: number): this;
  /** Milliseconds, a text such as `80ms`, or `{ dist: "uniform", min, max }`. */
  delay(time: number | string | Document): this;
  header(name: string, value: string): this;
  trailer(name: string, value: string): this;
  fault(fault: Fault): this;
  /** Any other key of a response in a rule file. */
  set(key: string, value: unknown): this;
  /** Without a message: what else is set, such as a `sequence`, or an empty message. */
  reply(message?: Document | Message): Promise<void>;
  replyStream(messages: readonly (Document | Message)[]): Promise<void>;
  /** A detail names its type: `{ "@type": "google.rpc.BadRequest" }`. */
  fail(code: Code, message?: string, details?: readonly Document[]): Promise<void>;
  /** The real service of the option `upstream` answers. */
  passOn(): Promise<void>;
}

/** Which calls, and how often: once or more where nothing says it. */
export interface Wanted {
  with?: Document | Message;
  headers?: { readonly [name: string]: Condition };
  exactly?: number;
  atLeast?: number;
  atMost?: number;
}

export interface Call {
  number: number;
  method: string;
  session: string;
  /** The response that answered, as `FILE:LINE`; empty where the schema alone did. */
  rule: string;
  /**
   * `ok`, or the code of the error: `canceled` if the caller left, `deadline_exceeded` if its deadline
   * passed. `running` while the call runs; the fault, such as `reset`, if one broke the answer.
   */
  code: string;
  /** The message of the error; empty without one. */
  reason: string;
  /** The messages; what is called a secret is not shown. */
  requests: unknown[];
  headers: { [name: string]: string | undefined };
}

export interface NearMiss {
  call: Call;
  /** The response that came nearest. */
  nearest: string;
  /** What of it did not hold. */
  misses: string[];
}

interface Scope {
  /** `http://127.0.0.1:PORT`, for Connect, gRPC-Web, REST and gRPC. */
  readonly url: string;
  /** `127.0.0.1:PORT`, as clients of gRPC want it. */
  readonly target: string;
  /** What requests are sent with: the header of a session; nothing for the mock itself. */
  readonly headers: Record<string, string>;
  /** `fetch` of a path of the mock, with these headers. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** Of responses that fit, the one that was added first answers; those without conditions last. */
  on(method: Method): Rule;
  /** Rejects with a {@link VerifyError} if another number of calls came than is wanted. */
  verify(method: Method, wanted?: Wanted): Promise<void>;
  calls(method?: Method): Promise<Call[]>;
  /** Calls that no response with conditions answered, the closest first, and the response that came nearest. */
  nearMisses(): Promise<NearMiss[]>;
  /** Forgets calls, counts and state; of a session its rules too. */
  reset(): Promise<void>;
}

/** A part of a mock with rules, state and calls of its own. */
export interface Session extends Scope {
  readonly name: string;
  [Symbol.asyncDispose](): Promise<void>;
}

export class Mock {
  private constructor();
  /** Starts `tidewire mock`; it ends with {@link close}, or with this process. */
  static start(options?: Options): Promise<Mock>;
  readonly pid: number;
  session(name?: string): Session;
  /** Lets answers go wrong, all or those of a method, whatever their rules; `null` ends it. */
  setFaults(
    faults: { delay?: string | Document; fault?: Fault | Fault[] } | null,
    method?: Method,
  ): Promise<void>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
export interface Mock extends Scope {}

/** The mock refuses what it was asked, or cannot be asked. */
export class MockError extends Error {
  /** As in gRPC: `invalid_argument`, `not_found`, `unavailable`. */
  readonly code: string;
}

/** Another number of calls came than was expected; the message lists the closest ones. */
export class VerifyError extends Error {}
