// What is served, as `.proto` text, and calls by hand: the server calls itself over its own listener.

import { h, useEffect, useMemo, useRef, useState } from "./preact.js";
import { call, exact } from "./api.js";
import { MessageForm } from "./form.js";
import { asCurl, asGrpcurl, asTidewire } from "./commands.js";
import { pretty, Said, took } from "./text.js";
import { Act, Copy, Field, Filter, Problem, Table, useCall, useQuery } from "./ui.js";

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
          { name: "Method", of: (one) => h(Said, { max: 200 }, one.path) },
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
  const [text, setText] = useState("{}");
  const [mode, setMode] = useState(/** @type {"form" | "json"} */ ("form"));
  const [protocol, setProtocol] = useState("connect");
  const [deadline, setDeadline] = useState("5");
  const [headers, setHeaders] = useState("");
  const [turn, setTurn] = useState(0);
  const fill = (/** @type {string} */ next) => { setText(next); setTurn(turn + 1); };
  const run = useRun();
  const streams = method.kind === "client" || method.kind === "bidi";
  const known = useMemo(() => new Map((types.data?.types ?? []).map((/** @type {any} */ one) => [one.name, one])), [types.data]);
  let value;
  try { value = JSON.parse(exact(text || "{}")); } catch { /* Only as JSON, then. */ }
  const formed = mode === "form" && value !== undefined && known.size > 0;
  const compact = value === undefined ? text : JSON.stringify(value);
  const request = () => ({
    method: method.path, protocol, headers: headersOf(headers), timeoutMs: Math.round(Number(deadline) * 1000) || 5000,
    messages: streams && run.state ? [] : [text || "{}"],
  });
  const what = { method: method.path, message: compact, headers: headersOf(headers), address: system.data?.addresses?.[0] ?? "127.0.0.1:8080", tls: Boolean(system.data?.tls), protocol, streams: method.kind !== "unary" };
  const open = run.state && !run.state.ended;
  return h("section", { class: "detail", "aria-label": `Try ${method.path}` },
    h("h2", null, h(Said, { max: 300 }, method.path)),
    described.data ? h("details", null, h("summary", null, "As .proto"), h("pre", { tabIndex: 0 }, h(Said, { max: 60000 }, described.data.text))) : h(Problem, { error: described.error }),
    h("div", { class: "bar" },
      h(Field, { label: "Protocol" }, h("select", { value: protocol, onChange: (/** @type {any} */ e) => setProtocol(e.currentTarget.value) }, ["connect", "grpc", "grpc-web"].map((one) => h("option", { value: one }, one)))),
      h(Field, { label: "Deadline in seconds" }, h("input", { class: "short", inputMode: "decimal", value: deadline, onInput: (/** @type {any} */ e) => setDeadline(e.currentTarget.value) })),
      h("div", { role: "group", "aria-label": "Request as" },
        h("button", { type: "button", "aria-pressed": formed, onClick: () => setMode("form"), disabled: value === undefined }, "Form"),
        h("button", { type: "button", "aria-pressed": !formed, onClick: () => setMode("json") }, "JSON")),
      h("button", { type: "button", disabled: !sample.data, onClick: () => fill(pretty(sample.data.json || "{}")) }, "Fill in a sample"),
      h("button", { type: "button", onClick: () => fill("{}") }, "Empty")),
    h(Field, { label: "Headers, one a line (name: value)" }, h("textarea", { rows: 2, value: headers, spellcheck: false, onInput: (/** @type {any} */ e) => setHeaders(e.currentTarget.value) })),
    formed
      ? h("div", { role: "group", "aria-label": "Request", key: turn }, h(MessageForm, { types: known, type: method.input, value, onChange: (/** @type {any} */ next) => setText(JSON.stringify(next ?? {}, null, 2)) }))
      : h(Field, { label: "Request as JSON" }, h("textarea", { rows: 10, class: "code", spellcheck: false, value: text, onInput: (/** @type {any} */ e) => setText(e.currentTarget.value) })),
    types.data?.cut ? h("p", { class: "muted" }, "The form does not have all types: there are too many. As JSON everything can be sent.") : null,
    h("div", { class: "bar" },
      h(Act, { class: "primary", onAct: () => (streams && open ? run.send(text || "{}") : run.open(request())), disabled: Boolean(open) && !streams }, streams && open ? "Send another" : "Send"),
      streams ? h(Act, { onAct: run.closeSend, disabled: !open }, "Close send") : null,
      h(Act, { onAct: run.cancel, disabled: !open }, "Cancel"),
      h(Copy, { label: "Copy as curl", text: asCurl(what) }), h(Copy, { label: "as grpcurl", text: asGrpcurl(what) }), h(Copy, { label: "as tidewire", text: asTidewire(what) })),
    h(Problem, { error: run.error }),
    run.state ? h(Events, { state: run.state }) : null);
}

/** @param {string} text */
function headersOf(text) {
  const pairs = text.split("\n").map((line) => line.split(/:(.*)/s)).filter(([name, value]) => name.trim() && value !== undefined);
  return Object.fromEntries(pairs.map(([name, value]) => [name.trim().toLowerCase(), value.trim()]));
}

/** @param {{ state: { events: any[], ended: boolean, gone: number } }} props */
function Events({ state }) {
  const place = useRef(/** @type {any} */ (null));
  const { length } = state.events;
  useEffect(() => place.current?.scrollIntoView({ block: "nearest" }), [length > 0]);
  return h("div", { ref: place, "aria-live": "polite", "aria-label": "What came back", role: "log" },
    state.gone ? h("p", { class: "muted" }, `${state.gone} earlier messages are not shown.`) : null,
    h("ol", { class: "events" }, state.events.map((event) => h("li", { key: event.number },
      h("span", { class: "muted" }, took(event.atUs)), " ",
      event.what === "end" ? h("strong", { class: event.code === "ok" ? "good" : "bad" }, event.code === "ok" ? "✓ ok" : `✕ ${event.code}`) : h("strong", null, event.what),
      event.error ? h("span", null, ": ", h(Said, null, event.error)) : null,
      event.message ? h("pre", { tabIndex: 0 }, h(Said, { max: 20000 }, pretty(event.message))) : null,
      event.headers?.length ? h("dl", null, event.headers.map((/** @type {any} */ one) => h("div", null, h("dt", null, h(Said, { max: 100 }, one.name)), h("dd", null, one.value === undefined ? "not shown: it may be a secret" : h(Said, null, one.value))))) : null))),
    state.ended ? null : h("p", { class: "muted" }, "It runs…"));
}

/** Messages that are shown; of an endless stream the last. */
const EVENTS_MAX = 200;

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
        if (ended && events.at(-1)?.what !== "end" && events.length > 0) continue;
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
