/** Serve methods and pages behind a Tidewire gateway. */
import type { IncomingMessage, ServerResponse } from "node:http";

export type Code =
  | "canceled" | "unknown" | "invalid_argument" | "deadline_exceeded" | "not_found" | "already_exists"
  | "permission_denied" | "resource_exhausted" | "failed_precondition" | "aborted" | "out_of_range"
  | "unimplemented" | "internal" | "unavailable" | "data_loss" | "unauthenticated";

export type Headers = Array<[name: string, value: string]>;
/** A part of the key of a source: equal values are one key, in each language. NaN and infinities are none. */
export type Part = string | number | bigint | boolean | ArrayBufferView | null | undefined;
export type Level = "trace" | "debug" | "info" | "warn" | "error";

/** Why a call failed: thrown by handlers for their callers, and by calls of the gateway. */
export class TidewireError extends Error {
  constructor(code: Code, message?: string, more?: {
    details?: Array<[type: string, value: Uint8Array]>;
    headers?: Headers;
    outcome?: number;
  });
  code: Code;
  details: Array<[type: string, value: Uint8Array]>;
  headers: Headers;
  /** What is known of a call without an answer: 1 not run, 2 unknown, 3 ran, 4 behind. */
  outcome?: number;
}

/** Who calls: its subject by the word of an issuer, its scopes, and other claims. */
export class Principal {
  constructor(said: { issuer: string; subject: string; scopes?: string[]; claims?: Record<string, unknown> });
  /** Reads the header `tidewire-principal` of a page; null without one. */
  static of(header: string | null | undefined): Principal | null;
  readonly issuer: string;
  readonly subject: string;
  readonly scopes: string[];
  readonly claims: Record<string, any>;
  hasScope(scope: string): boolean;
}

export interface CallOptions {
  headers?: Headers;
  /** The method changes nothing. */
  query?: boolean;
  /** With the rights of the caller, as part of a call; without it the program calls as itself. */
  asCaller?: boolean;
  /** By the clock of `performance.now()`; a call that comes too late is not made. `Infinity` is none. */
  deadline?: number;
  signal?: AbortSignal;
}

/** What surrounds a call: who asks, until when, and what the answer is made of. */
export interface Context {
  readonly headers: Headers;
  header(name: string): string | undefined;
  /** Who calls, as the gateway found out; null where it did not, and where the reply is cached for others too. */
  readonly principal: Principal | null;
  readonly replyHeaders: Headers;
  readonly replyTrailers: Headers;
  /** Aborted when the caller gave up; a command runs on. */
  readonly signal: AbortSignal;
  /** Milliseconds until the deadline. */
  readonly remaining?: number;
  depends(source: string, ...key: Part[]): void;
  changed(source: string, ...key: Part[]): void;
  log(level: Level, text: string, fields?: Record<string, unknown>): void;
  call<Reply = any>(path: string, request: unknown, options?: CallOptions): Promise<Reply>;
}

export type Handler = (request: any, context: Context) => unknown;
/** The path of a method, such as `"shop.v1.Shop/GetItem"`, to what answers it. */
export interface Handlers {
  [path: string]: any;
  fetch?(request: Request): Response | Promise<Response>;
  http?(request: IncomingMessage, response: ServerResponse): void;
}

export interface App {
  call<Reply = any>(path: string, request: unknown, options?: CallOptions): Promise<Reply>;
  changed(source: string, ...key: Part[]): void;
  log(level: Level, text: string, fields?: Record<string, unknown>): void;
  busy<T>(work: Promise<T>): Promise<T>;
}

export function serve(handlers: Handlers): App;
/** Marks a handler that is given an asynchronous iterator of requests. */
export function streaming<H extends Handler>(handler: H): H;
/** The key of a source as text. A TypeError for what is no part of a key. */
export function keyText(parts: Part[]): string;
