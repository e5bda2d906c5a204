// A request that somebody fills in, as a form or as JSON, and what came back of it: for whoever sends it.

import { h, useEffect, useMemo, useRef, useState } from "./preact.js";
import { asCurl, asGrpcurl, asTidewire } from "./commands.js";
import { exact } from "./connect.js";
import { MessageForm } from "./form.js";
import { Copy, Field } from "./parts.js";
import { pretty, UntrustedText, took } from "./text.js";

/**
 * A request of a type: its text, the headers beside it, and the elements by which both are changed.
 * @param {{ type: string, types: import("./form.js").TypeInfo[], isCut?: boolean, sample?: string }} what
 */
export function useRequest({ type, types, isCut, sample }) {
  const [text, setText] = useState("{}");
  const [mode, setMode] = useState(/** @type {"form" | "json"} */ ("form"));
  const [lines, setLines] = useState("");
  const [turn, setTurn] = useState(0);
  const fill = (/** @type {string} */ next) => { setText(next); setTurn(turn + 1); };
  const known = useMemo(() => new Map(types.map((one) => [one.name, one])), [types]);
  /** @type {any} */
  let value;
  try { value = JSON.parse(exact(text || "{}")); } catch { /* Only as JSON, then. */ }
  const formed = mode === "form" && value !== undefined && known.size > 0;
  const buttons = [
    h("div", { key: "as", role: "group", "aria-label": "Request as" },
      h("button", { type: "button", "aria-pressed": formed, onClick: () => setMode("form"), disabled: value === undefined }, "Form"),
      h("button", { type: "button", "aria-pressed": !formed, onClick: () => setMode("json") }, "JSON")),
    h("button", { key: "sample", type: "button", disabled: sample === undefined, onClick: () => fill(pretty(sample ?? "{}")) }, "Fill in a sample"),
    h("button", { key: "empty", type: "button", onClick: () => fill("{}") }, "Empty"),
  ];
  const fields = [
    h(Field, { key: "headers", label: "Headers, one a line (name: value)" }, h("textarea", { rows: 2, value: lines, spellcheck: false, onInput: (/** @type {any} */ e) => setLines(e.currentTarget.value) })),
    formed
      ? h("div", { role: "group", "aria-label": "Request", key: turn }, h(MessageForm, { types: known, type, value, onChange: (/** @type {any} */ next) => setText(JSON.stringify(next ?? {}, null, 2)) }))
      : h(Field, { key: "json", label: "Request as JSON" }, h("textarea", { rows: 10, class: "code", spellcheck: false, value: text, onInput: (/** @type {any} */ e) => setText(e.currentTarget.value) })),
    isCut ? h("p", { key: "cut", class: "muted" }, "The form does not have all types: there are too many. As JSON everything can be sent.") : null,
  ];
  return { text, value, compact: value === undefined ? text : JSON.stringify(value), headers: headersOf(lines), known, buttons, fields };
}

/** @param {{ value: string, isWrong: boolean, onInput: (text: string) => void }} props */
export function Deadline({ value, isWrong, onInput }) {
  return h(Field, { label: "Deadline in seconds" }, h("input", { class: "short", inputMode: "decimal", "aria-invalid": isWrong, value, onInput: (/** @type {any} */ e) => onInput(e.currentTarget.value) }));
}

/** A deadline that was typed, in milliseconds; undefined for what is not one. @param {string} text @param {number} empty for no text */
export function millisecondsOf(text, empty) {
  if (text.trim() === "") return empty;
  const seconds = Number(text);
  return seconds >= 0.001 && seconds <= SECONDS_MAX ? Math.round(seconds * 1000) : undefined;
}

/** The longest deadline that Connect can say. */
const SECONDS_MAX = 9999999;

export const NOT_A_DEADLINE = `the deadline is not a number of seconds from 0.001 to ${SECONDS_MAX}, such as 1.5`;

/** @param {{ what: import("./commands.js").What, curl?: string }} props `curl` in place of a call by Connect */
export function CopyCommands({ what, curl }) {
  // The same call for a terminal; others than ours do not speak the live protocol.
  const isLive = what.protocol === "live";
  return [
    isLive ? null : h(Copy, { key: "curl", label: "Copy as curl", text: curl ?? asCurl(what) }),
    isLive ? null : h(Copy, { key: "grpcurl", label: "as grpcurl", text: asGrpcurl(what) }),
    h(Copy, { key: "tidewire", label: isLive ? "Copy as tidewire" : "as tidewire", text: asTidewire(what) }),
  ];
}

/** @param {string} text */
export function headersOf(text) {
  const pairs = text.split("\n").map((line) => line.split(/:(.*)/s)).filter(([name, value]) => name.trim() && value !== undefined);
  return Object.fromEntries(pairs.map(([name, value]) => [name.trim().toLowerCase(), value.trim()]));
}

/** @param {{ state: { events: any[], ended: boolean, gone: number } }} props */
export function Events({ state }) {
  const place = useRef(/** @type {any} */ (null));
  const { length } = state.events;
  useEffect(() => place.current?.scrollIntoView({ block: "nearest" }), [length > 0]);
  return h("div", { ref: place, "aria-live": "polite", "aria-label": "What came back", role: "log" },
    state.gone ? h("p", { class: "muted" }, `${state.gone} earlier messages are not shown.`) : null,
    h("ol", { class: "events" }, state.events.map((event) => h("li", { key: event.number },
      h("span", { class: "muted" }, took(event.atUs)), " ",
      event.what === "end" ? h("strong", { class: event.code === "ok" ? "good" : "bad" }, event.code === "ok" ? "✓ ok" : `✕ ${event.code}`) : h("strong", null, event.what),
      event.error ? h("span", null, ": ", h(UntrustedText, null, event.error)) : null,
      event.message ? h("pre", { tabIndex: 0 }, h(UntrustedText, { max: 20000 }, pretty(event.message))) : null,
      h(Headers, { headers: event.headers ?? [] })))),
    state.ended ? null : h("p", { class: "muted" }, "It runs…"));
}

/** Headers; many of them are folded up, since who calls looks for the message. @param {{ headers: { name: string, value?: string }[] }} props */
function Headers({ headers }) {
  if (headers.length === 0) return null;
  const list = h("dl", null, headers.map((one) => h("div", null, h("dt", null, h(UntrustedText, { max: 100 }, one.name)), h("dd", null, one.value === undefined ? "not shown: it may be a secret" : h(UntrustedText, null, one.value)))));
  return headers.length > 6 ? h("details", null, h("summary", null, `${headers.length} headers`), list) : list;
}

/** Messages that are shown; of an endless stream the last. */
export const EVENTS_MAX = 200;
