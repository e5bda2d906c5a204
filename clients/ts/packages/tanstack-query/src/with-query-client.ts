/** For connect-query: its `TransportProvider` takes this transport, and its hooks stay as they are. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Transport, UnaryResponse } from "@connectrpc/connect";
import { createConnectQueryKey } from "@connectrpc/connect-query-core";
import { hashKey, type QueryClient } from "@tanstack/query-core";
import type { LiveTransport } from "@tidewire/live";
import { abortable, follow } from "./followers.ts";

const QUERY = 1; // idempotency_level = NO_SIDE_EFFECTS

/**
 * A transport whose queries, when connect-query asks them for this cache, are watched from then on.
 * Everything else goes its way: commands, streams, and calls that no query of the cache made.
 */
export function withQueryClient(transport: LiveTransport, client: QueryClient): Transport {
  const live: Transport = {
    ...transport,
    async unary<I extends DescMessage, O extends DescMessage>(
      method: DescMethodUnary<I, O>,
      signal: AbortSignal | undefined,
      timeoutMs: number | undefined,
      header: HeadersInit | undefined,
      input: MessageInitShape<I>,
      contextValues?: Parameters<Transport["unary"]>[5],
    ): Promise<UnaryResponse<I, O>> {
      const queryKey = createConnectQueryKey({ schema: method, input, transport: live, cardinality: "finite" });
      const isQuery = (method.idempotency as number) === QUERY && header === undefined;
      const query = isQuery ? client.getQueryCache().get(hashKey(queryKey)) : undefined;
      if (!query) return transport.unary(method, signal, timeoutMs, header, input, contextValues);
      // What is told of is not asked for again because time passed.
      query.setOptions({ ...query.options, staleTime: Infinity } as never);
      const message: MessageShape<O> = await abortable(follow(transport, client, queryKey, method, input), signal);
      return {
        stream: false,
        service: method.parent,
        method,
        header: new Headers(),
        trailer: new Headers(),
        message,
      };
    },
  };
  return live;
}
