/** `useQuery`: a method, an input, and what the server says to it from now on. */
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { QueryState } from "@tidewire/live/replica";
import { useEffect, useRef, useState } from "react";
import { useLiveClient } from "./provider.ts";
import { useSelected } from "./store.ts";

/** In place of an input: nothing is asked. */
export const skipToken: unique symbol = Symbol("skip");

export interface QueryHookOptions<T, S> {
  /** The part of the data that the component shows; it renders when that part changes. */
  select?(data: T): S;
  /** The least time between two answers, in milliseconds. */
  minInterval?: number;
  /** A changed input counts after so many milliseconds without another: for what is typed. */
  debounce?: number;
}

export type QueryResult<T> = QueryState<T>;

export function useQuery<I extends DescMessage, O extends DescMessage, S = MessageShape<O>>(
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I> | typeof skipToken,
  options: QueryHookOptions<MessageShape<O>, S> = {},
): QueryResult<S> {
  const client = useLiveClient();
  const settled = useDebounced(input, options.debounce);
  const query = settled === skipToken ? undefined : client.query(method, settled as MessageInitShape<I>, options);
  return useSelected(query, options.select);
}

function useDebounced<T>(input: T, milliseconds: number | undefined): T {
  const [settled, settle] = useState(input);
  const name = milliseconds ? JSON.stringify(input, plain) : undefined;
  const settledName = useRef(name);
  useEffect(() => {
    if (!milliseconds || name === settledName.current) return;
    const timer = setTimeout(() => {
      settledName.current = name;
      settle(() => input);
    }, milliseconds);
    return () => clearTimeout(timer);
  }, [name, milliseconds]);
  return milliseconds ? settled : input;
}

function plain(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? `${value}n` : value;
}
