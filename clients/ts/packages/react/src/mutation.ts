/** `useMutation`: a command, how it went, and whether it may have run although it failed. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { isOutcomeUnknown } from "@tidewire/live";
import type { OptimisticStore } from "@tidewire/live/replica";
import { useCallback, useEffect, useRef, useState } from "react";
import { useLiveClient } from "./provider.ts";

export interface MutationHookOptions<I> {
  /** Shows at once what the command is expected to change. */
  optimistic?(store: OptimisticStore, input: I): void;
}

interface MutationState<O> {
  status: "idle" | "pending" | "error" | "success";
  data?: O;
  error?: ConnectError;
  /** It failed, and nobody knows whether it ran: say so, and let the user look before a repeat. */
  outcomeUnknown: boolean;
}

export interface MutationResult<I, O> extends MutationState<O> {
  /** Runs the command; how it goes is in this result. */
  mutate(input: I): void;
  /** The same, for whoever awaits it. */
  mutateAsync(input: I): Promise<O>;
  reset(): void;
}

const IDLE: MutationState<never> = { status: "idle", outcomeUnknown: false };

export function useMutation<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  options: MutationHookOptions<MessageInitShape<I>> = {},
): MutationResult<MessageInitShape<I>, MessageShape<O>> {
  const client = useLiveClient();
  const [state, setState] = useState<MutationState<MessageShape<O>>>(IDLE);
  const latest = useRef(0);
  const given = useRef(options);
  useEffect(() => {
    given.current = options;
  });
  const mutateAsync = useCallback(
    async (input: MessageInitShape<I>) => {
      const run = ++latest.current;
      // Of several that run at once the last is shown.
      const show = (next: MutationState<MessageShape<O>>) => run === latest.current && setState(next);
      show({ status: "pending", outcomeUnknown: false });
      const { optimistic } = given.current;
      try {
        const data = await client.mutate(method, input, {
          optimistic: optimistic && ((store) => optimistic(store, input)),
        });
        show({ status: "success", data, outcomeUnknown: false });
        return data;
      } catch (error) {
        show({ status: "error", error: ConnectError.from(error), outcomeUnknown: isOutcomeUnknown(error) });
        throw error;
      }
    },
    [client, method],
  );
  const mutate = useCallback((input: MessageInitShape<I>) => void mutateAsync(input).catch(() => {}), [mutateAsync]);
  const reset = useCallback(() => {
    latest.current++;
    setState(IDLE);
  }, []);
  return { ...state, mutate, mutateAsync, reset };
}
