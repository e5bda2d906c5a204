// Programs that are hosted: how each is, what its processes say, and what may be done to it.

import { h, useEffect, useRef, useState } from "./preact.js";
import { call } from "./api.js";
import { age, count, UntrustedText, took } from "./text.js";
import { Filter, Problem, Table, useEvery, useQuery } from "./parts.js";
import { Act, useCall } from "./ui.js";

export function Processes() {
  const [filter, setFilter] = useQuery("name");
  const [open, setOpen] = useQuery("program");
  const { data, error, reload } = useCall("Processes/List", {});
  useEvery(reload, 2000);
  const [last, setLast] = useState(/** @type {any} */ (undefined));
  useEffect(() => {
    if (data) setLast(data);
  }, [data]);
  const all = last?.processes ?? [];
  const rows = all.filter((/** @type {any} */ one) => one.name.toLowerCase().includes(filter.toLowerCase()));
  const program = all.find((/** @type {any} */ one) => one.name === open);
  return h("div", { class: "page" },
    h("h1", null, "Processes"),
    h(Problem, { error }),
    h("div", { class: "bar" }, h(Filter, { label: "Filter by name", value: filter, onInput: setFilter })),
    h("div", { class: "split" },
      h(Table, {
        label: "Programs", rows, keyOf: (one) => one.name, open, onOpen: (one) => setOpen(open === one.name ? "" : one.name),
        isError: (one) => one.state === "broken",
        empty: last ? "No program is hosted that has such a name." : "…",
        columns: [
          { name: "Program", of: (one) => h(UntrustedText, { max: 100 }, one.name) },
          { name: "State", of: (one) => h(State, { state: one.state }) },
          { name: "Processes", of: (one) => `${count(one.pids?.length)}${Number(one.spares ?? 0) ? ` + ${count(one.spares)} spare` : ""}`, class: "number" },
          { name: "Calls now", of: (one) => `${count(one.calls)}${Number(one.waiting ?? 0) ? `, ${count(one.waiting)} wait` : ""}`, class: "number" },
          { name: "Starts", of: (one) => count(one.starts), class: "number wide" },
          { name: "Crashes", of: (one) => count(one.crashes), class: "number" },
          { name: "Route", of: (one) => h(UntrustedText, { max: 100 }, one.route ?? ""), class: "wide" },
        ],
      }),
      program ? h(Program, { key: program.name, program, onDone: reload }) : null));
}

const SIGNS = /** @type {Record<string, string>} */ ({ ready: "●", starting: "◌", stopping: "◌", stopped: "○", frozen: "▣", broken: "✕" });

/** @param {{ state: string }} props */
export function State({ state }) {
  return h("span", { class: state === "broken" ? "bad" : state === "ready" ? "good" : "muted" }, `${SIGNS[state] ?? ""} ${state}`);
}

/** @param {{ program: any, onDone: () => void }} props */
function Program({ program, onDone }) {
  const { name } = program;
  const mean = (/** @type {any} */ all, /** @type {any} */ times) => (Number(times ?? 0) ? took(Math.round(Number(all ?? 0) / Number(times))) : "none yet");
  const act = (/** @type {string} */ verb, /** @type {string | undefined} */ ask) => h(Act, {
    key: verb, ask, onAct: async () => {
      await call(`Processes/${verb}`, { name });
      onDone();
    },
  }, verb === "CloseBreaker" ? "Close the breaker" : verb);
  return h("section", { class: "detail", "aria-label": `Program ${name}` },
    h("h2", null, h(UntrustedText, { max: 100 }, name)),
    program.failure ? h("p", { class: program.state === "broken" ? "problem" : "muted" }, `Last failure, ${age(program.failureAgeMs)} ago: `, h(UntrustedText, { max: 1000 }, program.failure)) : null,
    h("dl", null, [
      ["State", program.state], ["Route", program.route], ["Calls given", count(program.requests)], ["Starts", count(program.starts)],
      ["A start took", mean(program.startUs, program.starts)], ["Calls that waited", count(program.queued)],
      ["They waited", mean(program.queueUs, program.queued)], ["Crashes", count(program.crashes)], ["Out of memory", count(program.outOfMemory)],
    ].filter(([, value]) => value).map(([what, value]) => h("div", null, h("dt", null, what), h("dd", null, h(UntrustedText, null, value))))),
    h("div", { class: "bar" },
      program.state === "stopped" ? act("Start", undefined) : act("Stop", `Stop ${name} with ${count(program.calls)} calls`),
      act("Restart", `Restart ${name}`),
      program.state === "frozen" ? act("Thaw", undefined) : act("Freeze", undefined),
      program.state === "broken" ? act("CloseBreaker", undefined) : null),
    h(Table, {
      label: "Its processes", rows: program.instances ?? [], keyOf: (one) => String(one.pid), empty: "No process runs; the next call starts one.",
      columns: [
        { name: "Process", of: (one) => String(one.pid) },
        { name: "State", of: (one) => one.state },
        { name: "Calls", of: (one) => count(one.calls), class: "number" },
        { name: "Calls given", of: (one) => count(one.requests), class: "number" },
        { name: "Age", of: (one) => age(one.ageMs), class: "number" },
        { name: "Bounds", of: (one) => h(UntrustedText, { max: 100 }, one.limits ?? ""), class: "wide" },
      ],
    }),
    h(Logs, { name }));
}

/** Lines that are shown; the program keeps more. */
const LINES_MAX = 500;

/** What its processes wrote, and write. @param {{ name: string }} props */
function Logs({ name }) {
  const [lines, setLines] = useState(/** @type {{ at: number, pipe: string, text: string }[]} */ ([]));
  const [dropped, setDropped] = useState(0);
  const [find, setFind] = useState("");
  const [paused, setPaused] = useState(false);
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const after = useRef("0");
  const asks = useRef(false);
  const look = async () => {
    if (asks.current) return;
    asks.current = true;
    try {
      const reply = await call("Processes/Logs", { name, after: after.current, limit: 1000 });
      setError(undefined);
      if (Number(reply.dropped ?? 0)) setDropped((n) => n + Number(reply.dropped));
      const first = Number(reply.next ?? 0) - (reply.lines?.length ?? 0);
      after.current = String(reply.next ?? after.current);
      if (reply.lines?.length) setLines((before) => [...before, ...reply.lines.map((/** @type {any} */ line, /** @type {number} */ at) => ({ ...line, at: first + at }))].slice(-LINES_MAX));
    } catch (problem) {
      setError(/** @type {Error} */ (problem));
    } finally {
      asks.current = false;
    }
  };
  useEffect(() => { look(); }, []);
  useEvery(look, paused ? null : 1000);
  const shown = lines.filter(({ text }) => text.toLowerCase().includes(find.toLowerCase()));
  return h("div", null,
    h("h3", null, "What it wrote"),
    h("div", { class: "bar" },
      h("input", { type: "search", "aria-label": "Only lines with", placeholder: "Only lines with", value: find, onInput: (/** @type {any} */ e) => setFind(e.currentTarget.value) }),
      h("button", { type: "button", "data-pause": true, "aria-pressed": paused, onClick: () => setPaused(!paused) }, paused ? "Go on" : "Pause")),
    h(Problem, { error }),
    dropped ? h("p", { class: "muted" }, `${count(dropped)} earlier lines are not kept any more.`) : null,
    shown.length === 0 ? h("p", { class: "muted" }, lines.length ? "No line has that." : "It wrote nothing.")
      : h("ol", { class: "events log", tabIndex: 0, "aria-label": `Lines of ${name}` }, shown.map(({ at, pipe, text }) => h("li", { key: at },
        h("span", { class: pipe === "stderr" ? "bad" : "muted" }, pipe === "stderr" ? "err" : "out"), " ", h("code", null, h(UntrustedText, { max: 4000 }, text))))));
}
