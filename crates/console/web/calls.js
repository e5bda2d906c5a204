// Calls as they come: the latest first, what failed, and what is known of one.

import { h, useEffect, useRef, useState } from "./preact.js";
import { call, tail } from "./api.js";
import { clock, count, pretty, UntrustedText, size, times, took } from "./text.js";
import { Copy, Filter, Problem, Table, useEvery, useQuery } from "./parts.js";
import { Act, useCall } from "./ui.js";

/** Rows that are kept here; the program has its own bound. */
const ROWS_MAX = 500;
/** Streams that all tabs of a browser hold together: it has six connections to a host. */
const STREAMS_MAX = 4;

/** @param {any} row */
const isFailure = (row) => !["ok", "2xx", "3xx"].includes(row.outcome);

export function Calls() {
  const [filter, setFilter] = useQuery("method");
  const [failed, setFailed] = useQuery("failed");
  const [open, setOpen] = useQuery("call");
  const [paused, setPaused] = useState(false);
  const { rows, dropped, how, error, clear } = useFeed(paused);
  const shown = rows.filter((row) => row.method.toLowerCase().includes(filter.toLowerCase()) && (!failed || isFailure(row)));
  return h("div", { class: "page" },
    h("h1", null, "Calls"),
    h("div", { class: "bar" },
      h(Filter, { label: "Filter by method", value: filter, onInput: setFilter }),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: failed !== "", onChange: (/** @type {any} */ e) => setFailed(e.currentTarget.checked ? "1" : "") }), "Failed only"),
      h("button", { type: "button", "data-pause": true, "aria-pressed": paused, onClick: () => setPaused(!paused) }, paused ? "Go on ( p )" : "Pause ( p )"),
      h(Act, { onAct: () => call("Calls/CaptureBodies", { seconds: 60 }), title: "What is said in calls, without secrets, for 60 s from now on" }, "Capture bodies for 60 s"),
      h(Act, { ask: "Forget all", onAct: async () => { await call("Calls/Clear"); clear(); } }, "Clear")),
    h("p", { class: "muted", role: "status" },
      `${count(shown.length)} of ${count(rows.length)} calls shown`, dropped > 0 ? `, ${count(dropped)} not kept` : "",
      paused ? "; paused" : how === "poll" ? "; looked for every two seconds (other tabs hold the streams)" : "", "."),
    h(Problem, { error }),
    h("div", { class: "split" },
      h(Table, {
        label: "Calls", rows: shown, keyOf: (row) => String(row.number), open, isError: isFailure,
        onOpen: (row) => setOpen(open === String(row.number) ? "" : String(row.number)),
        empty: "No call came since you look. Calls are recorded while this page is open.",
        columns: [
          { name: "Method", of: (row) => h(UntrustedText, { max: 200 }, row.method) },
          { name: "Time", of: (row) => clock(row.atMs), class: "tight" },
          { name: "Protocol", of: (row) => row.protocol, class: "wide" },
          { name: "Outcome", of: (row) => h("span", { class: isFailure(row) ? "bad" : "good" }, isFailure(row) ? "✕ " : "✓ ", row.outcome), class: "tight" },
          { name: "Took", of: (row) => took(row.tookUs), class: "number" },
          { name: "Cache", of: (row) => (row.fromMemory ? "hit" : ""), class: "wide" },
        ],
      }),
      open ? h(Detail, { number: open, row: rows.find((row) => String(row.number) === open) }) : null));
}

/** @param {{ number: string, row: any }} props */
function Detail({ number, row }) {
  const { data, error } = useCall("Calls/Get", row ? null : { number });
  const it = row ?? data;
  if (!it) return h("section", { class: "detail", "aria-label": `Call ${number}` }, h(Problem, { error }));
  const facts = [
    ["Call", `#${it.number}`], ["At", times(it.atMs)], ["Protocol", it.protocol], ["Address", it.peer], ["Caller", it.caller], ["Outcome", it.outcome],
    ["Status", it.status], ["Took", took(it.tookUs)], ["Sent and received", `${size(it.bytesIn)} in, ${size(it.bytesOut)} out`],
    ["Cache", it.fromMemory ? "answered from memory" : "not answered from memory"], ["Program", it.program], ["Request id", it.requestId], ["Trace", it.traceId],
  ];
  return h("section", { class: "detail", "aria-label": `Call ${number}` },
    h("h2", null, h(UntrustedText, { max: 200 }, it.method)),
    h("dl", null, facts.filter(([, value]) => value).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, h(UntrustedText, null, value))))),
    it.phases?.length ? h("div", null, h("h3", null, "Phases"), h(Phases, { phases: it.phases, all: Number(it.tookUs) })) : null,
    h("h3", null, "Headers"),
    it.headers?.length
      ? h("dl", null, it.headers.map((/** @type {any} */ one) => h("div", null, h("dt", null, h(UntrustedText, { max: 100 }, one.name)), h("dd", null, one.value === undefined ? "not shown: it may be a secret" : h(UntrustedText, null, one.value)))))
      : h("p", { class: "muted" }, "not recorded"),
    [["Request", it.request], ["Reply", it.reply]].map(([name, messages]) => h("div", null, h("h3", null, name),
      messages?.length
        ? messages.map((/** @type {string} */ text) => h("pre", { tabIndex: 0 }, h(UntrustedText, { max: 20000 }, pretty(text))))
        : h("p", { class: "muted" }, "not recorded; bodies are captured only for a time that you ask for"))),
    it.cut ? h("p", { class: "muted" }, `${count(it.cut)} messages are missing, or were cut.`) : null,
    h(Copy, { label: "Copy as JSON", text: JSON.stringify(it, null, 2) }));
}

/** @param {{ phases: { phase: string, atUs?: string }[], all: number }} props */
function Phases({ phases, all }) {
  return h("ol", { class: "phases" }, phases.map(({ phase, atUs }, place) => {
    const from = Number(atUs ?? 0);
    const to = Number(phases[place + 1]?.atUs ?? all);
    return h("li", null, h("span", null, phase), h("meter", { min: 0, max: Math.max(all, 1), value: Math.max(to - from, 0), "aria-label": `${phase}: ${took(Math.max(to - from, 0))}` }), h("span", { class: "number" }, took(Math.max(to - from, 0))));
  }));
}

/**
 * Calls from now on: by a stream where this browser has one left, else by looking again and again.
 * @param {boolean} paused
 */
function useFeed(paused) {
  const [state, set] = useState({ rows: /** @type {any[]} */ ([]), dropped: 0 });
  const [how, setHow] = useState(/** @type {"stream" | "poll" | ""} */ (""));
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const [hidden, setHidden] = useState(document.hidden);
  const after = useRef("0");
  const add = (/** @type {any} */ { calls = [], dropped = 0 }) => {
    if (calls.length) after.current = String(calls.at(-1).number);
    if (calls.length || Number(dropped)) set((before) => ({ rows: [...calls.toReversed(), ...before.rows].slice(0, ROWS_MAX), dropped: before.dropped + Number(dropped) }));
  };
  useEffect(() => {
    const changed = () => setHidden(document.hidden);
    document.addEventListener("visibilitychange", changed);
    return () => document.removeEventListener("visibilitychange", changed);
  }, []);
  useEffect(() => {
    // What is there already, so that the page is not empty.
    call("Calls/List", { limit: 200 }).then((reply) => {
      after.current = String(reply.next ?? 0);
      add(reply);
    }).catch(setError).finally(() => setHow((before) => before || "stream"));
  }, []);
  useEffect(() => {
    if (paused || hidden || how !== "stream") return undefined;
    const ends = new AbortController();
    inSlot(async () => {
      while (!ends.signal.aborted) {
        try {
          await tail({ topics: ["calls"], after: after.current }, (batch) => { setError(undefined); add(batch); }, ends.signal);
        } catch (problem) {
          if (ends.signal.aborted) return;
          setError(/** @type {Error} */ (problem));
          await new Promise((done) => setTimeout(done, 2000));
        }
      }
    }, ends.signal).then((had) => had || ends.signal.aborted || setHow("poll"));
    return () => ends.abort();
  }, [paused, hidden, how]);
  useEvery(() => {
    call("Calls/List", { after: after.current }).then((reply) => {
      setError(undefined);
      after.current = String(reply.next ?? after.current);
      add(reply);
    }, setError);
  }, !paused && how === "poll" ? 2000 : null);
  return { ...state, how, error, clear: () => set({ rows: [], dropped: 0 }) };
}

/**
 * Does work while one of the slots of this browser is held; says whether there was one.
 * @param {() => Promise<void>} work @param {AbortSignal} signal
 */
async function inSlot(work, signal) {
  for (let slot = 0; slot < STREAMS_MAX && !signal.aborted; slot += 1) {
    const had = await navigator.locks.request(`tidewire-stream-${slot}`, { ifAvailable: true }, async (lock) => {
      if (lock) await work();
      return Boolean(lock);
    });
    if (had) return true;
  }
  return false;
}
