/** The client that hooks use, and data that came with the page. */
import type { LiveClient } from "@tidewire/live/replica";
import { createContext, createElement, type ReactElement, type ReactNode, useContext, useMemo } from "react";

const Context = createContext<LiveClient | undefined>(undefined);

/** Gives the hooks below it their client. Another client means another user: nothing is carried over. */
export function LiveProvider(props: { client: LiveClient; children?: ReactNode }): ReactElement {
  return createElement(Context.Provider, { value: props.client }, props.children);
}

/** The client of the nearest `LiveProvider`. */
export function useLiveClient(): LiveClient {
  const client = useContext(Context);
  if (!client) throw new Error("no <LiveProvider client={...}> above this component");
  return client;
}

/** Takes what `client.dehydrate()` gave on the server, before its children render. */
export function HydrationBoundary(props: { state: string; children?: ReactNode }): ReactNode {
  const client = useLiveClient();
  useMemo(() => client.hydrate(props.state), [client, props.state]);
  return props.children;
}
