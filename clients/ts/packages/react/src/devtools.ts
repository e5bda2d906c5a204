/**
 * `@tidewire/react/devtools`: a panel with the connection, the queries of the page, and the outbox.
 * An entry point of its own: import it where a development build is told from others.
 */
import type { Store } from "@tidewire/live/replica";
import { createElement as h, type CSSProperties, type ReactElement, useEffect, useReducer, useSyncExternalStore } from "react";
import { useConnectionState } from "./connection.ts";
import { useLiveClient } from "./provider.ts";

export interface DevtoolsProps {
  /** That of `createOffline`. */
  outbox?: Store<readonly { method: { name: string }; madeAt: number }[]>;
}

const EMPTY: readonly never[] = [];
const NO_OUTBOX: NonNullable<DevtoolsProps["outbox"]> = { getSnapshot: () => EMPTY, subscribe: () => () => {} };
const PANEL: CSSProperties = {
  position: "fixed", right: 8, bottom: 8, maxHeight: "40vh", maxWidth: "90vw", overflow: "auto", zIndex: 9999,
  background: "#102027", color: "#eceff1", font: "12px/1.5 ui-monospace, monospace", padding: 8, borderRadius: 6,
};
const CELL: CSSProperties = { padding: "0 8px", textAlign: "left", whiteSpace: "nowrap" };

/** The panel, within a `LiveProvider`. */
export function LiveDevtools({ outbox = NO_OUTBOX }: DevtoolsProps): ReactElement {
  const client = useLiveClient();
  const { status, retryAt, error } = useConnectionState();
  const waiting = useSyncExternalStore(outbox.subscribe, outbox.getSnapshot, outbox.getSnapshot);
  const [, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const timer = setInterval(again, 500);
    return () => clearInterval(timer);
  }, []);
  const retry = retryAt ? `, again in ${Math.max(0, Math.ceil((retryAt - Date.now()) / 1000))} s` : "";
  const rows = client.inspect().map(({ method, input, state, isUsed, answers, last }, index) => {
    const state_ = state.status === "success" && state.isStale ? "stale" : state.status;
    const cells = [method, text(input), state_, isUsed ? "shown" : "kept", `${answers}`, last];
    return h("tr", { key: index }, cells.map((cell, at) => h("td", { key: at, style: CELL, title: cell }, cell.slice(0, 60))));
  });
  const heads = ["query", "input", "state", "use", "answers", "last"];
  return h(
    "details",
    { style: PANEL, open: true },
    h("summary", null, `tidewire: ${status}${retry}${error ? ` (${error.message})` : ""}`),
    h(
      "table",
      null,
      h("thead", null, h("tr", null, heads.map((head) => h("th", { key: head, style: CELL }, head)))),
      h("tbody", null, rows),
    ),
    waiting.length > 0 && h("p", null, `outbox: ${waiting.map(({ method }) => method.name).join(", ")}`),
  );
}

function text(input: unknown): string {
  const plain = (name: string, value: unknown) =>
    name === "$typeName" ? undefined : typeof value === "bigint" ? `${value}` : value;
  return JSON.stringify(input, plain) ?? "";
}
