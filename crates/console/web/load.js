// Load on the program: by another process, within bounds, and what came of each run.

import { h, useEffect, useRef, useState } from "./preact.js";
import { call } from "./api.js";
import { Chart } from "./chart.js";
import { useRequest } from "./request.js";
import { clock, count, UntrustedText, size, times, took, visible } from "./text.js";
import { Copy, Field, Problem, Table, useEvery, useQuery } from "./parts.js";
import { Act, useCall } from "./ui.js";

/** The run that goes on, as it was last seen. @type {{ id: string, load?: any, error?: Error } | null} */
let followed = null;
/** @type {Set<() => void>} */
const listeners = new Set();
/** @param {typeof followed} next */
const setFollowed = (next) => { followed = next; for (const listener of listeners) listener(); };

/**
 * Asks for a run until it ends, whichever page is open: one that nobody asks for is ended.
 * @param {string} id
 */
async function follow(id) {
  if (followed?.id === id) return;
  setFollowed({ id });
  try {
    for (;;) {
      const load = await call("Loads/Get", { id, waitMs: 1000 });
      if (followed?.id !== id) return;
      if (load.state !== "running") return setFollowed(null);
      setFollowed({ id, load });
    }
  } catch (error) {
    if (followed?.id === id) setFollowed({ id: "", load: followed?.load, error: /** @type {Error} */ (error) });
  }
}

function useFollowed() {
  const [, turn] = useState(0);
  useEffect(() => {
    const changed = () => turn((n) => n + 1);
    listeners.add(changed);
    return () => void listeners.delete(changed);
  }, []);
  return followed;
}

/** The last answer, while the next one is under way. @param {any} data */
function useLast(data) {
  const [kept, set] = useState(data);
  useEffect(() => {
    if (data) set(data);
  }, [data]);
  return data ?? kept;
}

export function Load() {
  const [chosen, choose] = useQuery("method");
  const [open, setOpen] = useQuery("run");
  const [says, say] = useState("");
  const runs = useCall("Loads/List", {});
  useEvery(runs.reload, 5000);
  const listed = useLast(runs.data);
  const services = useCall("Services/List", {});
  const methods = useLast(services.data)?.methods?.filter((/** @type {any} */ one) => !/^(grpc\.(health|reflection)|tidewire\.live)\./.test(one.service)) ?? [];
  const running = useFollowed();
  const loads = listed?.loads ?? [];
  const goesOn = loads.find((/** @type {any} */ one) => one.state === "running")?.id;
  useEffect(() => {
    if (goesOn) void follow(goesOn);
  }, [goesOn]);
  const [was, setWas] = useState("");
  useEffect(() => {
    if (running?.id) setWas(running.id);
    else if (was && !running) {
      // It has ended: its figures are shown, where nothing else is.
      setWas("");
      say("The run has ended.");
      if (!open) setOpen(was);
      runs.reload();
    }
  }, [running, was]);
  const paths = methods.map((/** @type {any} */ one) => `${one.service}/${one.method}`);
  // What comes first is harmless.
  const harmless = methods.findIndex((/** @type {any} */ one) => one.query && one.kind === "unary");
  const shown = chosen === PATH || paths.length === 0 && services.data ? PATH : chosen || paths[Math.max(harmless, 0)];
  const method = methods.find((/** @type {any} */ one) => `${one.service}/${one.method}` === shown);
  return h("div", { class: "page" },
    h("h1", null, "Load"),
    h(Problem, { error: runs.error ?? services.error }),
    h("p", { class: "muted" }, "Calls this server again and again, from another process on this machine, which takes cores and memory from the server that it measures. For figures that you publish, run tidewire bench on another machine."),
    listed?.problem ? h("p", { class: "problem", role: "note" }, h(UntrustedText, null, listed.problem)) : null,
    h("div", { class: "split" }, h("section", { "aria-label": "What to call" },
      h(Field, { label: "Call" }, h("select", { value: shown, onChange: (/** @type {any} */ e) => choose(e.currentTarget.value) },
        paths.map((/** @type {string} */ path) => h("option", { key: path, value: path }, path)),
        h("option", { value: PATH }, "a path, by plain HTTP GET"))),
      shown && (method || shown === PATH) ? h(Setup, {
        key: shown, method, limits: listed?.limits, mayStart: Boolean(listed) && !listed.problem, isBusy: Boolean(running?.id), onStart: (/** @type {any} */ load) => {
          say("The run has begun.");
          setOpen("");
          void follow(load.id);
          runs.reload();
        },
      }) : null),
    running ? h(Running, { running }) : null),
    h("p", { role: "status" }, says),
    h("section", { "aria-label": "Runs" },
      h("h2", null, "Runs"),
      h("div", { class: "split" },
        h(Table, {
          label: "Runs that ended", rows: loads.filter((/** @type {any} */ one) => one.state !== "running"), keyOf: (one) => one.id, open,
          onOpen: (one) => setOpen(open === one.id ? "" : one.id), isError: (one) => one.state === "failed" || Number(one.figures?.failed ?? 0) > 0,
          empty: listed ? "No run has ended yet. What comes of one stays, also when the program ends." : "…",
          columns: /** @type {{ name: string, of: (row: any) => any, class?: string }[]} */ ([
            { name: "Called", of: (one) => h(UntrustedText, { max: 200 }, one.plan?.method || one.plan?.path) },
            { name: "At", of: (one) => clock(one.atMs), class: "tight" },
            { name: "How", of: (one) => shape(one.plan ?? {}) },
            { name: "Answered", of: (one) => (one.figures ? count(one.figures.ok) : ""), class: "number" },
            { name: "Failed", of: (one) => (one.figures ? count(one.figures.failed) : ""), class: "number" },
            { name: "99 % within", of: (one) => (one.figures ? took(one.figures.answered?.p99Us) : ""), class: "number wide" },
            { name: "State", of: (one) => h(State, { state: one.state }), class: "tight" },
          // Beside a run that is open there is less room, and it says the same.
          ]).filter(({ name }) => !open || !["How", "99 % within"].includes(name)),
        }),
        loads.some((/** @type {any} */ one) => one.id === open && one.state !== "running") ? h(Detail, { key: open, id: open, loads }) : null)));
}

/** What stands for no method. */
const PATH = " path";

/** @param {{ state: string }} props */
const State = ({ state }) => h("span", { class: state === "failed" ? "bad" : state === "done" ? "good" : "muted" }, `${state === "failed" ? "✕" : state === "done" ? "✓" : "○"} ${state}`);

/** How the load is, in words. @param {any} plan */
const shape = (plan) => [
  visible(plan.protocol), Number(plan.rate ?? 0) ? `open, ${count(plan.rate)}/s` : "closed", `${count(plan.connections)} connections`, `${count(plan.seconds)} s`,
  Number(plan.requests ?? 0) ? `at most ${count(plan.requests)} calls` : "",
].filter(Boolean).join(", ");

/** @param {{ method?: any, limits: any, mayStart: boolean, isBusy: boolean, onStart: (load: any) => void }} props */
function Setup({ method, limits, mayStart, isBusy, onStart }) {
  const path = method ? `${method.service}/${method.method}` : "";
  const types = useCall("Services/Types", method ? { method: path } : null);
  const sample = useCall("Services/Sample", method ? { method: path } : null);
  const [protocol, setProtocol] = useState("connect");
  const [at, setAt] = useState("/");
  const [isOpen, setIsOpen] = useState(true);
  const [set, setSet] = useState({ rate: "100", seconds: "10", connections: "8", requests: "" });
  const { text, compact, headers, buttons, fields } = useRequest({ type: method?.input ?? "", types: types.data?.types ?? NOTHING, isCut: types.data?.cut, sample: sample.data && (sample.data.json || "{}") });
  const number = (/** @type {string} */ word) => (word.trim() === "" ? 0 : Number(word));
  const plan = {
    ...(method ? { method: path, protocol, message: compact } : { path: at }), headers,
    rate: isOpen ? number(set.rate) : 0, seconds: number(set.seconds), connections: number(set.connections), requests: number(set.requests),
  };
  const isWrong = [plan.rate, plan.seconds, plan.connections, plan.requests].some((one) => !Number.isFinite(one) || one < 0) || (isOpen && plan.rate === 0) || !Number.isInteger(plan.seconds) || !Number.isInteger(plan.connections) || !Number.isInteger(plan.requests);
  const asked = useCall("Loads/Command", isWrong ? null : plan);
  const command = useLast(asked.data)?.command;
  const calls = isOpen ? Math.min(Math.round(plan.rate * plan.seconds), plan.requests || Infinity) : plan.requests;
  const bounds = `${calls ? `${isOpen ? "" : "at most "}${count(calls)} calls` : "as many calls as are answered"} within ${count(plan.seconds || 10)} s`;
  const changes = method && !method.query;
  /** @param {keyof typeof set} name @param {string} label @param {unknown} most */
  const bound = (name, label, most) => h(Field, { label: `${label}${most ? `, at most ${count(most)}` : ""}` },
    h("input", { class: "short", inputMode: "decimal", value: set[name], onInput: (/** @type {any} */ e) => setSet({ ...set, [name]: e.currentTarget.value }) }));
  return h("div", null,
    method ? h("div", null,
      h("div", { class: "bar" },
        h(Field, { label: "Protocol" }, h("select", { value: protocol, onChange: (/** @type {any} */ e) => setProtocol(e.currentTarget.value) },
          ["connect", "grpc", "grpc-web", ...(method.kind === "unary" ? ["live"] : [])].map((one) => h("option", { key: one, value: one }, one)))),
        buttons),
      fields)
      : h(Field, { label: "Path of this server" }, h("input", { value: at, spellcheck: false, onInput: (/** @type {any} */ e) => setAt(e.currentTarget.value) })),
    h("fieldset", null,
      h("legend", null, "How"),
      h("label", { class: "check" }, h("input", { type: "radio", name: "model", checked: isOpen, onChange: () => setIsOpen(true) }), "Open: so many calls a second, whether or not those before were answered"),
      h("br", null),
      h("label", { class: "check" }, h("input", { type: "radio", name: "model", checked: !isOpen, onChange: () => setIsOpen(false) }), "Closed: each connection calls again as soon as it was answered"),
      h("div", { class: "bar" },
        isOpen ? bound("rate", "Calls a second", limits?.rate) : null,
        bound("seconds", "Seconds", limits?.seconds),
        bound("connections", "Connections", limits?.connections),
        bound("requests", "Calls in all, or empty", limits?.requests)),
      h("p", { class: "muted" }, isOpen
        ? "Times are from when a call was due, so that a server that stalls is seen in them."
        : "Times are from when a call was sent. A server that stalls is called less, so that they look better than they are to users who do not wait for each other.")),
    h(Problem, { error: isWrong ? new Error("write numbers above 0") : asked.error }),
    h("div", { class: "bar" },
      h(Act, {
        class: "primary", disabled: isWrong || isBusy || !mayStart || !asked.data, ask: changes ? `Change things by ${bounds}` : undefined,
        onAct: async () => onStart(await call("Loads/Start", { ...plan, message: text || "{}" })),
      }, "Start"),
      command && !isWrong && !asked.error ? h(Copy, { label: "Copy the line for a terminal", text: command }) : null,
      h("span", { class: "muted" }, isWrong ? "" : bounds)),
    changes ? h("p", { class: "muted" }, "This method changes something, and each call does it.") : null,
    command && !isWrong && !asked.error ? h("pre", { tabIndex: 0, "aria-label": "The line for a terminal" }, h(UntrustedText, { max: 20000 }, command)) : null);
}

const NOTHING = /** @type {import("./form.js").TypeInfo[]} */ ([]);

/** @param {{ running: NonNullable<typeof followed> }} props */
function Running({ running }) {
  const { load, error } = running;
  const place = useRef(/** @type {any} */ (null));
  useEffect(() => place.current?.scrollIntoView({ block: "nearest" }), []);
  const seconds = load?.seconds ?? [];
  const sum = (/** @type {string} */ name) => seconds.reduce((/** @type {number} */ all, /** @type {any} */ one) => all + Number(one[name] ?? 0), 0);
  return h("section", { ref: place, class: "detail", "aria-label": "The run that goes on" },
    h("h2", null, "It runs: ", h(UntrustedText, { max: 300 }, load?.plan?.method || load?.plan?.path || "")),
    h(Problem, { error }),
    load ? h("p", null, shape(load.plan ?? {})) : null,
    h("div", { class: "bar" },
      load?.plan?.seconds ? h("progress", { max: load.plan.seconds, value: Math.min(seconds.length, load.plan.seconds), "aria-label": "Seconds" }) : null,
      h("span", null, `${count(sum("ok"))} answered, ${count(sum("failed"))} failed${sum("dropped") ? `, ${count(sum("dropped"))} never sent` : ""}`),
      running.id ? h(Act, { onAct: () => call("Loads/Stop", { id: running.id }) }, "Stop") : null),
    h("p", { class: "muted" }, "It ends by its bounds, and within a minute when this tab is closed. You may look at other pages meanwhile."),
    seconds.length ? h(Charts, { seconds }) : null);
}

/** @param {{ seconds: any[], isWhole?: boolean }} props */
function Charts({ seconds, isWhole }) {
  return h("div", null,
    h(Chart, {
      label: "Calls in each second", rows: seconds, show: count, series: [
        ...(isWhole ? [{ name: "due or begun", class: "line c", of: (/** @type {any} */ one) => Number(one.offered ?? 0) }] : []),
        { name: "answered well", class: "line a", of: (one) => Number(one.ok ?? 0) },
        { name: "failed", class: "line b", of: (one) => Number(one.failed ?? 0) + Number(one.dropped ?? 0) },
      ],
    }),
    h(Chart, {
      label: "How long answers took in each second", rows: seconds, show: took, series: [
        { name: "half of them within", class: "line a", of: (one) => Number(one.p50Us ?? 0) },
        { name: "99 % within", class: "line b", of: (one) => Number(one.p99Us ?? 0) },
      ],
    }));
}

/** @param {{ id: string, loads: any[] }} props */
function Detail({ id, loads }) {
  const { data: load, error } = useCall("Loads/Get", { id });
  const [other, setOther] = useState("");
  const [compared, setCompared] = useState(/** @type {any} */ (null));
  const others = loads.filter((one) => one.id !== id && one.figures);
  if (!load) return h("section", { class: "detail", "aria-label": "Run" }, h(Problem, { error }));
  const it = load.figures;
  return h("section", { class: "detail", "aria-label": "Run" },
    h("h2", null, h(UntrustedText, { max: 300 }, load.plan?.method || load.plan?.path)),
    h("p", null, h(State, { state: load.state }), load.stoppedBy ? ["; stopped: ", h(UntrustedText, null, load.stoppedBy)] : null, `. ${shape(load.plan ?? {})}. ${times(load.atMs)}.`),
    load.problem ? h("p", { class: "problem" }, h(UntrustedText, null, load.problem)) : null,
    it ? [
      (it.notes ?? []).map((/** @type {string} */ note) => h("p", { key: note, class: "problem" }, "! ", h(UntrustedText, null, note))),
      h("dl", { key: "figures", class: "figures" }, [
        [it.model === "open" ? "Due" : "Begun", count(it.offered)], ["Answered well", count(it.ok)], ["Failed", count(it.failed)],
        ...(Number(it.dropped ?? 0) ? [["Never sent", count(it.dropped)]] : []), ["Answers a second", count(Number(it.okPerSecond ?? 0).toFixed(1))],
        ["Half within", took(it.answered?.p50Us)], ["90 % within", took(it.answered?.p90Us)], ["99 % within", took(it.answered?.p99Us)], ["99.9 % within", took(it.answered?.p999Us)], ["Longest", took(it.answered?.maxUs)],
      ].map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value)))),
      h("p", { key: "how", class: "muted" }, it.fromIntendedStart
        ? `Open model: times are from when a call was due. The generator noticed 99 % of due calls within ${took(it.generatorLateP99Us)}.`
        : "Closed model: times are from when a call was sent, and leave out what a stalled server kept from being sent.",
      " Failed calls are in no time above", Number(it.failed ?? 0) ? `; half of them took ${took(it.notAnswered?.p50Us)}.` : "."),
      it.failures?.length ? h("ul", { key: "failures" }, it.failures.map((/** @type {any} */ one) => h("li", { key: one.what }, `${count(one.times)} × `, h(UntrustedText, null, one.what)))) : null,
      h("p", { key: "machine" }, `On the same machine: the generator's busiest thread took ${(100 * Number(it.generatorBusy ?? 0)).toFixed(0)} % of a core`,
        Number(it.serverCores ?? 0) ? `, the server ${Number(it.serverCores).toFixed(2)} cores (${took(Math.round(Number(it.serverCpuUsPerCall ?? 0)))} a call) and ${size(it.serverMemoryBytes)}` : "", ".",
        Number(it.stalls ?? 0) ? ` Nothing was answered in ${count(it.stalls)} stretches.` : ""),
      load.seconds?.length ? h(Charts, { key: "charts", seconds: load.seconds, isWhole: true }) : null,
    ] : null,
    h("div", { class: "bar" }, h(Copy, { label: "Copy the line that repeats it", text: load.command })),
    h("pre", { tabIndex: 0, "aria-label": "The line that repeats it" }, h(UntrustedText, { max: 20000 }, load.command)),
    it && others.length ? h("div", { class: "bar" },
      h(Field, { label: "Compare with the run before" }, h("select", { value: other, onChange: (/** @type {any} */ e) => { setOther(e.currentTarget.value); setCompared(null); } },
        h("option", { value: "" }, "choose one"),
        others.map((one) => h("option", { key: one.id, value: one.id }, `${clock(one.atMs)} ${visible(one.plan?.method || one.plan?.path)}, ${shape(one.plan ?? {})}`)))),
      h("button", { type: "button", disabled: !other, onClick: async () => {
        setCompared({ isAsked: true });
        try { setCompared(await call("Loads/Compare", { base: other, new: id })); } catch (problem) { setCompared({ error: problem }); }
      } }, "Compare")) : null,
    compared ? h("div", { role: "group", "aria-label": "Comparison" }, h(Problem, { error: compared.error }),
      compared.isAsked ? "…" : null, compared.rows ? h(Comparison, { compared }) : null) : null);
}

/** Two runs, figure by figure. @param {{ compared: any }} props */
function Comparison({ compared }) {
  const reasons = compared.notComparable ?? [];
  return h("div", null,
    reasons.length ? h("div", { role: "note", class: "problem" },
      h("p", null, "✕ Not comparable: the generator, or what else ran, made these figures. Measure again with a core for the generator alone, on a machine that does nothing else."),
      h("ul", null, reasons.map((/** @type {string} */ why) => h("li", { key: why }, h(UntrustedText, { max: 2000 }, why))))) : null,
    h("table", { class: "compared" },
      h("caption", null, "The run before, and this one"),
      h("thead", null, h("tr", null, ["Figure", "Before", "After", "Ratio"].map((name) => h("th", { key: name, scope: "col" }, name)))),
      h("tbody", null, compared.rows.map((/** @type {any} */ row) => h("tr", { key: row.name },
        h("th", { scope: "row" }, h(UntrustedText, null, row.name)),
        h("td", null, h(UntrustedText, null, row.before)),
        h("td", null, h(UntrustedText, null, row.after)),
        h("td", null, reasons.length ? "not comparable" : h(ComparedRatio, { row })))))),
    (compared.notes ?? []).map((/** @type {string} */ note) => h("p", { key: note, class: "muted" }, h(UntrustedText, { max: 2000 }, note))),
    reasons.length ? null : h("p", { class: "muted" }, "In parentheses: ", h(UntrustedText, null, compared.intervals), "."));
}

/** After over before, its interval, and what that says. @param {{ row: any }} props */
function ComparedRatio({ row }) {
  const [ratio, low, high] = [row.ratio, row.low, row.high].map((one) => Number(one ?? 0));
  const verdict = row.verdict ?? "";
  const sign = verdict === "better" ? "✓ " : verdict === "worse" ? "✕ " : "";
  return [
    ratio || high ? `${ratio.toFixed(2)}×${high ? ` (${low.toFixed(2)}–${high.toFixed(2)})` : ""} ` : "– ",
    h("span", { class: verdict === "worse" ? "bad" : verdict === "better" ? "good" : "muted" }, `${sign}${verdict}`),
  ];
}
