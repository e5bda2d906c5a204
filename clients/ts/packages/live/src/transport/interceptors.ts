/** Calls that interceptors see. Who has no interceptors does not load this. */
import type { DescMessage, DescMethodUnary, MessageInitShape } from "@bufbuild/protobuf";
import { createContextValues } from "@connectrpc/connect";
import type { ContextValues, UnaryRequest, UnaryResponse } from "@connectrpc/connect";
import { createMethodUrl, runUnaryCall } from "@connectrpc/connect/protocol";
import type { LiveOptions } from "./transport.ts";

export interface InterceptedCall<I extends DescMessage, O extends DescMessage> {
  method: DescMethodUnary<I, O>;
  input: MessageInitShape<I>;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
  header?: HeadersInit | undefined;
  contextValues?: ContextValues | undefined;
}

export function runInterceptors<I extends DescMessage, O extends DescMessage>(
  { interceptors, baseUrl }: LiveOptions,
  { method, input, signal, timeoutMs, header, contextValues }: InterceptedCall<I, O>,
  next: (request: UnaryRequest<I, O>) => Promise<UnaryResponse<I, O>>,
): Promise<UnaryResponse<I, O>> {
  return runUnaryCall({
    interceptors,
    signal,
    timeoutMs,
    req: {
      stream: false,
      service: method.parent,
      method,
      requestMethod: "POST",
      url: createMethodUrl(baseUrl, method),
      header: new Headers(header),
      contextValues: contextValues ?? createContextValues(),
      message: input,
    },
    next: next as never,
  }) as Promise<UnaryResponse<I, O>>;
}
