// What is served, as `.proto` text, and calls by hand: the server calls itself over its own listener.

import { h, useEffect, useMemo, useRef, useState } from "./preact.js";
import { call } from "./api.js";
import { asRestCurl, asRestTidewire } from "./commands.js";
import { CopyCommands, Deadline, EVENTS_MAX, Events, millisecondsOf, NOT_A_DEADLINE, useRequest } from "./request.js";
import { restRequest } from "./rest.js";
import { UntrustedText } from "./text.js";
import { address, Copy, Field, Filter, Problem, Table, useQuery } from "./parts.js";
import { Act, useCall } from "./ui.js";

export function Services() {
  const [filter, setFilter] = useQuery("name");
  const [chosen, setChosen] = useQuery("method");
  const { data, error } = useCall("Services/List", {});
  const isOwn = (/** @type {string} */ service) => !/^(grpc\.(health|reflection)|tidewire\.live)\./.test(service);
  const methods = (data?.methods ?? []).map((/** @type {any} */ one) => ({ ...one, path: `${one.service}/${one.method}` }))
    .toSorted((/** @type {any} */ a, /** @type {any} */ b) => Number(isOwn(b.service)) - Number(isOwn(a.service)));
  const shown = methods.filter((/** @type {any} */ one) => one.path.toLowerCase().includes(filter.toLowerCase()));
  const method = methods.find((/** @type {any} */ one) => one.path === chosen);
  return h("div", { class: "page" },
    h("h1", null, "Services"),
    h("div", { class: "bar" }, h(Filter, { label: "Filter by name", value: filter, onInput: setFilter })),
    h(Problem, { error }),
    h("div", { class: "split" },
      h(Table, {
        label: "Methods", rows: shown, keyOf: (/** @type {any} */ one) => one.path, open: chosen,
        onOpen: (one) => setChosen(chosen === one.path ? "" : one.path), empty: data ? "Nothing is served that has such a name." : "…",
        columns: [
          { name: "Method", of: (one) => h(UntrustedText, { max: 200 }, one.path) },
          { name: "Of", of: (one) => (isOwn(one.service) ? "" : "the server itself"), class: "wide" },
          { name: "Kind", of: (one) => `${one.kind}${one.query ? ", query" : ""}` },
        ],
      }),
      method ? h(TryIt, { key: method.path, method }) : null));
}

/** @param {{ method: any }} props */
function TryIt({ method }) {
  const described = useCall("Services/Describe", { name: method.path });
  const types = useCall("Services/Types", { method: method.path });
  const sample = useCall("Services/Sample", { method: method.path });
  const system = useCall("System/Overview", {});
  const [protocol, setProtocol] = useState("connect");
  const [deadline, setDeadline] = useState("5");
  const known = useMemo(() => types.data?.types ?? [], [types.data]);
  const { text, value, compact, headers, known: byName, buttons, fields } = useRequest({ type: method.input, types: known, isCut: types.data?.cut, sample: sample.data && (sample.data.json || "{}") });
  const run = useRun();
  const streams = method.kind === "client" || method.kind === "bidi";
  const [wrong, setWrong] = useState(/** @type {Error | undefined} */ (undefined));
  const bindings = streams ? [] : types.data?.rest ?? [];
  const binding = protocol.startsWith("rest ") ? bindings[Number(protocol.slice(5))] : undefined;
  // A stream in lines is shown message by message.
  const sent = binding && method.kind === "server" ? { accept: "application/x-ndjson", ...headers } : headers;
  const bound = useMemo(() => {
    if (!binding) return undefined;
    if (value === undefined) return new Error("the request is not JSON");
    try {
      const { path, body } = restRequest({ body: "", ...binding }, value, byName, method.input);
      return { verb: binding.verb, path: `/${path}`, body };
    } catch (problem) { return /** @type {Error} */ (problem); }
  }, [binding, compact, byName]);
  const timeoutMs = millisecondsOf(deadline, 5000);
  const request = () => {
    const how = { method: method.path, headers: sent, timeoutMs };
    return binding ? { ...how, protocol: "rest", rest: bound } : { ...how, protocol, messages: streams && run.state ? [] : [text || "{}"] };
  };
  const open = run.state && !run.state.ended;
  const send = () => {
    const problem = bound instanceof Error ? bound : timeoutMs === undefined ? new Error(NOT_A_DEADLINE) : undefined;
    setWrong(problem);
    if (problem) return Promise.resolve();
    return streams && open ? run.send(text || "{}") : run.open(request());
  };
  const what = { method: method.path, message: compact, headers, address: system.data?.addresses?.[0] ?? "127.0.0.1:8080", tls: Boolean(system.data?.tls), protocol, streams: method.kind !== "unary" };
  const rest = bound && !(bound instanceof Error) ? { ...bound, headers: sent, address: what.address, tls: what.tls } : undefined;
  return h("section", { class: "detail", "aria-label": `Try ${method.path}` },
    h("h2", null, h(UntrustedText, { max: 300 }, method.path)),
    described.data ? h("details", null, h("summary", null, "As .proto"), h("pre", { tabIndex: 0 }, h(UntrustedText, { max: 60000 }, described.data.text))) : h(Problem, { error: described.error }),
    h("div", { class: "bar" },
      h(Field, { label: "Protocol" }, h("select", { value: protocol, onChange: (/** @type {any} */ e) => setProtocol(e.currentTarget.value) }, ["connect", "grpc", "grpc-web", "live"].map((one) => h("option", { key: one, value: one }, one)),
        bindings.map((/** @type {any} */ one, /** @type {number} */ place) => h("option", { key: place, value: `rest ${place}` }, `REST: ${one.verb} ${one.template}`)))),
      h(Deadline, { value: deadline, isWrong: timeoutMs === undefined, onInput: setDeadline }),
      buttons),
    fields,
    h("div", { class: "bar" },
      h(Act, { class: "primary", onAct: send, disabled: Boolean(open) && !streams }, streams && open ? "Send another" : "Send"),
      streams ? h(Act, { onAct: run.closeSend, disabled: !open }, "Close send") : null,
      h(Act, { onAct: run.cancel, disabled: !open }, "Cancel"),
      binding
        ? rest ? [h(Copy, { key: "curl", label: "Copy as curl", text: asRestCurl(rest) }), rest.address.startsWith("unix:") ? null : h(Copy, { key: "tidewire", label: "as tidewire", text: asRestTidewire(rest) })] : null
        : h(CopyCommands, { what })),
    h("p", null, h("a", { href: address("/load", { method: method.path }) }, "Put load on it")),
    h(Problem, { error: wrong ?? run.error }),
    run.state ? h(Events, { state: run.state }) : null);
}

/** A call of this page, and what came back. */
function useRun() {
  const [state, set] = useState(/** @type {{ id: string, events: any[], ended: boolean, gone: number } | null} */ (null));
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const running = useRef(/** @type {AbortController | null} */ (null));
  const id = useRef("");
  const end = () => running.current?.abort();
  useEffect(() => () => {
    if (running.current && !running.current.signal.aborted && id.current) call("Services/Cancel", { call: id.current }).catch(() => {});
    end();
  }, []);
  const receive = async (/** @type {string} */ name, /** @type {AbortSignal} */ signal) => {
    let after = "0";
    try {
      for (;;) {
        const { events = [], ended = false } = await call("Services/Receive", { call: name, after }, signal);
        if (signal.aborted) return;
        if (events.length) after = String(events.at(-1).number);
        set((before) => {
          const all = [...(before?.events ?? []), ...events];
          const cut = Math.max(all.length - EVENTS_MAX, 0);
          return { id: name, events: all.slice(cut), gone: (before?.gone ?? 0) + cut, ended };
        });
        if (ended) return;
      }
    } catch (problem) {
      if (!signal.aborted) { setError(/** @type {Error} */ (problem)); set((before) => before && { ...before, ended: true }); }
    }
  };
  return {
    state, error,
    open: async (/** @type {object} */ request) => {
      end();
      setError(undefined);
      set(null);
      const { call: name } = await call("Services/Open", request);
      id.current = name;
      running.current = new AbortController();
      set({ id: name, events: [], ended: false, gone: 0 });
      receive(name, running.current.signal).finally(() => running.current?.signal.aborted || end());
    },
    send: (/** @type {string} */ message) => call("Services/Send", { call: id.current, message }),
    closeSend: () => call("Services/CloseSend", { call: id.current }),
    cancel: () => call("Services/Cancel", { call: id.current }),
  };
}
