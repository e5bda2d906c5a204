// The docs page of a service: what its `.proto` says, and calls of it from this browser.

import { h, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./preact.js";
import { asRestCurl } from "./commands.js";
import { ApiError, envelope, messages, read } from "./connect.js";
import { useKeys } from "./keys.js";
import { Field, Filter, Problem, place } from "./parts.js";
import { CopyCommands, Deadline, EVENTS_MAX, Events, millisecondsOf, NOT_A_DEADLINE, useRequest } from "./request.js";
import { restRequest } from "./rest.js";
import { UntrustedText } from "./text.js";

/** @typedef {{ name: string, comment?: string, methods: MethodOf[] }} ServiceOf */
/** @typedef {{ path: string, name: string, comment?: string, kind: string, query?: boolean, deprecated?: boolean, input: string, output: string, rest?: import("./rest.js").Binding[] }} MethodOf */

/** Where the server is: the page is at `docs` of it, also behind a proxy that puts a prefix before. */
const server = new URL(".", location.href.split("#")[0]);

/** What the server says at a path. @param {string} path */
function useJson(path) {
  const [state, set] = useState(/** @type {{ data?: any, error?: Error }} */ ({}));
  useEffect(() => {
    const ends = new AbortController();
    const load = async () => {
      const response = await fetch(new URL(path, server), { signal: ends.signal });
      const text = await response.text();
      if (!response.ok) throw refusal(response, text);
      return JSON.parse(text);
    };
    load().then((data) => set({ data }), (error) => ends.signal.aborted || set({ error }));
    return () => ends.abort();
  }, [path]);
  return state;
}

/** What a response refuses, as it says it. @param {Response} response @param {string} text */
function refusal(response, text) {
  let said;
  try { said = read(text); } catch { /* It is of somebody between. */ }
  return new ApiError(said?.code ?? `HTTP ${response.status}`, said?.message ?? said?.detail ?? text.slice(0, 500));
}

function Docs() {
  const [at, go] = useState(place().path);
  const [filter, setFilter] = useState("");
  const { data, error } = useJson("docs/services.json");
  useLayoutEffect(() => {
    const changed = () => go(place().path);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useKeys(() => false);
  const chosen = at.slice(1);
  /** @type {ServiceOf[]} */
  const services = data?.services ?? [];
  const fits = (/** @type {MethodOf} */ one) => one.path.toLowerCase().includes(filter.toLowerCase());
  const shown = services.map((one) => ({ ...one, methods: one.methods.filter(fits) })).filter((one) => one.methods.length > 0);
  const method = services.flatMap((one) => one.methods).find((one) => one.path === chosen);
  useEffect(() => {
    document.title = `${method ? method.name : services.map((one) => one.name).join(", ") || "Services"} · docs`;
  }, [data, method]);
  return h("div", { class: "shell" },
    h("a", { class: "skip", href: "#content", onClick: (/** @type {any} */ event) => {
      event.preventDefault();
      document.getElementById("content")?.focus();
    } }, "To the content"),
    h("header", null, h("span", { class: "brand" }, "Tidewire"), h("span", null, h(UntrustedText, null, location.host)),
      data?.openapi ? h("a", { href: new URL("openapi.json", server).href }, "OpenAPI") : null),
    h("main", { id: "content", tabIndex: -1 },
      h("h1", null, "Services"),
      h("div", { class: "bar" }, h(Filter, { label: "Filter by name", value: filter, onInput: setFilter })),
      h(Problem, { error }),
      data && services.length === 0 ? h("p", { class: "muted" }, "No service is served.") : null,
      data && services.length > 0 && shown.length === 0 ? h("p", { class: "muted" }, "No method has such a name.") : null,
      h("div", { class: "split" },
        h("div", null, shown.map((one) => h(Service, { key: one.name, service: one, chosen }))),
        method ? h(Method, { key: method.path, method }) : null)));
}

/** @param {{ service: ServiceOf, chosen: string }} props */
function Service({ service, chosen }) {
  return h("section", { "aria-label": service.name },
    h("h2", null, h(UntrustedText, { max: 300 }, service.name)),
    h(Comment, { text: service.comment }),
    h("ul", { class: "plain methods" }, service.methods.map((one) => {
      const isOpen = one.path === chosen;
      return h("li", { key: one.path, class: isOpen ? "open" : undefined },
        h("button", { type: "button", class: "row", "aria-expanded": isOpen, onClick: () => { location.hash = isOpen ? "/" : `/${one.path}`; } }, one.name),
        h("span", { class: "muted" }, ` ${kindOf(one)}`),
        one.rest?.map((rest) => h("div", { key: rest.verb + rest.template }, h("code", null, `${rest.verb} ${rest.template}`))),
        h(Comment, { text: one.comment }));
    })));
}

/** @param {MethodOf} method */
const kindOf = ({ kind, query, deprecated }) => [kind === "unary" ? "" : `${kind} stream`, query ? "query" : "", deprecated ? "deprecated" : ""].filter(Boolean).join(", ");

/** @param {{ text?: string }} props */
function Comment({ text }) {
  return text ? h("p", { class: "comment" }, h(UntrustedText, { max: 4000 }, text)) : null;
}

const NOTHING = /** @type {import("./form.js").TypeInfo[]} */ ([]);

/** @param {{ method: MethodOf }} props */
function Method({ method }) {
  const { data, error } = useJson(`docs/methods/${method.path}`);
  const { text, value, compact, headers, known, buttons, fields } = useRequest({ type: method.input, types: data?.types ?? NOTHING, isCut: data?.cut, sample: data?.sample });
  const [by, setBy] = useState("");
  const [deadline, setDeadline] = useState("");
  const [wrong, setWrong] = useState(/** @type {Error | undefined} */ (undefined));
  const run = useRun();
  const streams = method.kind === "client" || method.kind === "bidi";
  const rest = method.rest?.[Number(by)];
  const binding = by === "" ? undefined : rest;
  const timeoutMs = millisecondsOf(deadline, 0);
  const bound = useMemo(() => {
    if (!binding || value === undefined) return undefined;
    try { return restRequest(binding, value, known, method.input); } catch (problem) { return /** @type {Error} */ (problem); }
  }, [binding, compact, known]);
  const send = () => {
    setWrong(undefined);
    if (timeoutMs === undefined) return setWrong(new Error(NOT_A_DEADLINE));
    if (!binding) return run.start((push, signal) => connect(method, text, { headers, timeoutMs }, push, signal));
    if (value === undefined) return setWrong(new Error("the request is not JSON"));
    if (bound instanceof Error) return setWrong(bound);
    return run.start((push, signal) => plain(binding, /** @type {any} */ (bound), { headers, timeoutMs }, push, signal));
  };
  const what = { method: method.path, message: compact, headers, address: location.host, tls: location.protocol === "https:", protocol: "connect", streams: method.kind !== "unary" };
  const curl = binding && bound && !(bound instanceof Error) ? asRestCurl({ ...what, verb: binding.verb, path: new URL(bound.path, server).href.slice(server.origin.length), body: bound.body }) : undefined;
  const open = run.state && !run.state.ended;
  return h("section", { class: "detail", "aria-label": `Try ${method.path}` },
    h("h2", null, h(UntrustedText, { max: 300 }, method.path)),
    h(Problem, { error }),
    data ? h("details", { open: true }, h("summary", null, "As .proto"), h("pre", { tabIndex: 0 }, h(UntrustedText, { max: 60000 }, data.proto))) : null,
    h("div", { class: "bar" },
      h(Field, { label: "Protocol" }, h("select", { value: by, onChange: (/** @type {any} */ e) => setBy(e.currentTarget.value) },
        h("option", { value: "" }, "Connect"), method.rest?.map((one, place) => h("option", { key: place, value: String(place) }, `${one.verb} ${one.template}`)))),
      h(Deadline, { value: deadline, isWrong: timeoutMs === undefined, onInput: setDeadline }),
      buttons),
    fields,
    streams ? h("p", { class: "muted" }, "A page cannot send a stream of messages. Copy the call as a command.") : null,
    h("div", { class: "bar" },
      h("button", { type: "button", class: "primary", disabled: Boolean(open) || streams, onClick: send }, "Send"),
      h("button", { type: "button", disabled: !open, onClick: run.cancel }, "Cancel"),
      h(CopyCommands, { what, curl })),
    h(Problem, { error: wrong }),
    run.state ? h(Events, { state: run.state }) : null);
}

/** @typedef {(what: string, more?: object) => void} Push */

/** A call of this page, and what came back. */
function useRun() {
  const [state, set] = useState(/** @type {{ events: any[], ended: boolean, gone: number } | null} */ (null));
  const running = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => running.current?.abort(), []);
  const start = async (/** @type {(push: Push, signal: AbortSignal) => Promise<void>} */ call) => {
    running.current?.abort();
    const ends = new AbortController();
    running.current = ends;
    const began = performance.now();
    let number = 0;
    set({ events: [], ended: false, gone: 0 });
    const push = (/** @type {string} */ what, more = {}) => {
      if (running.current !== ends) return;
      number += 1;
      const event = { number, atUs: Math.round((performance.now() - began) * 1000), what, ...more };
      set((before) => {
        const all = [...(before?.events ?? []), event];
        const cut = Math.max(all.length - EVENTS_MAX, 0);
        return { events: all.slice(cut), gone: (before?.gone ?? 0) + cut, ended: what === "end" };
      });
    };
    try {
      await call(push, ends.signal);
    } catch (error) {
      const { code = "unavailable", message } = /** @type {any} */ (error);
      if (ends.signal.aborted) push("end", { code: "canceled", error: "you cancelled it" });
      else push("end", { code: typeof code === "string" ? code : "unavailable", error: message });
    }
  };
  return { state, start: (/** @type {(push: Push, signal: AbortSignal) => Promise<void>} */ call) => void start(call), cancel: () => running.current?.abort() };
}

/**
 * A call by Connect.
 * @param {MethodOf} method @param {string} text @param {{ headers: Record<string, string>, timeoutMs: number }} more
 * @param {Push} push @param {AbortSignal} signal
 */
async function connect(method, text, { headers, timeoutMs }, push, signal) {
  const isStream = method.kind !== "unary";
  const response = await fetch(new URL(method.path, server), {
    method: "POST", signal, body: isStream ? envelope(text || "{}") : text || "{}",
    headers: { "content-type": isStream ? "application/connect+json" : "application/json", "connect-protocol-version": "1", ...(timeoutMs ? { "connect-timeout-ms": String(timeoutMs) } : {}), ...headers },
  });
  push("headers", { headers: headersOf(response) });
  if (!response.ok || !isStream) return whole(response, push);
  for await (const { text: message, isEnd } of messages(response)) {
    if (!isEnd) { push("message", { message: message || "{}" }); continue; }
    const { error, metadata = {} } = JSON.parse(message || "{}");
    const trailers = Object.entries(metadata).flatMap(([name, values]) => /** @type {string[]} */ (values).map((one) => ({ name, value: one })));
    return push("end", { code: error ? error.code ?? "unknown" : "ok", error: error?.message, headers: trailers, message: error?.details && JSON.stringify(error.details) });
  }
  return push("end", { code: "unavailable", error: "the stream broke off" });
}

/**
 * A call by its REST binding.
 * @param {import("./rest.js").Binding} binding @param {{ path: string, body?: string }} request
 * @param {{ headers: Record<string, string>, timeoutMs: number }} more @param {Push} push @param {AbortSignal} signal
 */
async function plain(binding, request, { headers, timeoutMs }, push, signal) {
  const response = await fetch(new URL(request.path, server), {
    method: binding.verb, signal, body: request.body,
    headers: { ...(request.body === undefined ? {} : { "content-type": "application/json" }), ...(timeoutMs ? { "connect-timeout-ms": String(timeoutMs) } : {}), ...headers },
  });
  push("headers", { headers: headersOf(response) });
  return whole(response, push);
}

/** A response that is one message, or an error. @param {Response} response @param {Push} push */
async function whole(response, push) {
  const text = await response.text();
  if (response.ok) {
    if (text) push("message", { message: text });
    return push("end", { code: "ok" });
  }
  const { code, message } = refusal(response, text);
  let details;
  try { details = JSON.parse(text).details; } catch { /* There are none. */ }
  return push("end", { code, error: message, message: details && JSON.stringify(details) });
}

/** @param {Response} response */
const headersOf = (response) => [{ name: ":status", value: String(response.status) }, ...[...response.headers].map(([name, value]) => ({ name, value }))];

render(h(Docs, null), /** @type {HTMLElement} */ (document.getElementById("app")));
