// How the program is, on one page, and what somebody should look at.

import { h, useEffect, useState } from "./preact.js";
import { age, count, UntrustedText, share, size, took } from "./text.js";
import { address, Problem, Table, useEvery } from "./parts.js";
import { useCall } from "./ui.js";
import { State } from "./processes.js";

/**
 * The last reply of a method, asked every few seconds.
 * @param {string} method @param {boolean} [wanted]
 */
function useLatest(method, wanted = true) {
  const { data, error, reload } = useCall(method, wanted ? {} : null);
  useEvery(reload, wanted ? 3000 : null);
  const [last, setLast] = useState(/** @type {any} */ (undefined));
  useEffect(() => {
    if (data) setLast(data);
  }, [data]);
  return { last, error };
}

export function Health() {
  const { last: system, error } = useLatest("System/Overview");
  const { last: memo } = useLatest("Memo/Overview");
  const { last: methods } = useLatest("Calls/Methods");
  const { last: processes } = useLatest("Processes/List");
  const { last: rules } = useLatest("Mocks/ListRules", Boolean(system?.mocks));
  if (!system) return h("div", { class: "page" }, h("h1", null, "Health"), h(Problem, { error }));
  const figures = methods?.methods ?? [];
  const sum = (/** @type {(of: any) => number} */ of) => figures.reduce((/** @type {number} */ all, /** @type {any} */ one) => all + of(one), 0);
  const calls = sum((of) => Number(of.calls ?? 0));
  const failed = sum(failures);
  const attention = problems({ system, processes, rules });
  const log = system.changeLog;
  return h("div", { class: "page" },
    h("h1", null, "Health"),
    h(Problem, { error }),
    h("section", { "aria-label": "What to look at" },
      h("h2", null, "What to look at"),
      attention.length === 0 ? h("p", { class: "good" }, "✓ Nothing.")
        : h("ul", { class: "plain" }, attention.map(({ what, why, where }) => h("li", { key: what },
          h("strong", { class: "bad" }, `✕ ${what}`), why ? [": ", h(UntrustedText, { max: 400 }, why)] : null,
          where ? [" ", h("a", { href: where }, "open")] : null)))),
    h("dl", { class: "figures" }, [
      ["Version", system.version], ["Runs for", age(system.uptimeMs)], ["Takes calls", system.ready ? "yes" : "no: it drains"],
      ["Calls", count(calls)], ["Failed by the server", share(failed, calls)],
      ["Calls that wait", count(system.callsWaiting)], ["Commands under way", count(system.commandsRunning)],
      ["Connections", `${count(system.connectionsOpen)} open, ${count(system.connectionsAccepted)} in all`],
      ["Cache", memo ? `${count(memo.entries)} entries, ${size(memo.bytes)}` : ""], ["Hit share", memo ? share(memo.hits, memo.asked) : ""],
      ["Change log", log ? (log.suspended ? "suspended: nothing is given from memory" : `${took(log.lagUs)} behind`) : ""],
      ["Addresses", (system.addresses ?? []).join(", ")],
    ].filter(([, value]) => value).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, h(UntrustedText, null, value))))),
    processes?.processes?.length ? h("section", { "aria-label": "Programs" },
      h("h2", null, "Programs"),
      h("ul", { class: "plain" }, processes.processes.map((/** @type {any} */ one) => h("li", { key: one.name },
        h("a", { href: address("/processes", { program: one.name }) }, h(UntrustedText, { max: 100 }, one.name)), " ", h(State, { state: one.state }))))) : null,
    h("section", { "aria-label": "Methods" },
      h("h2", null, "Methods"),
      h(Table, {
        label: "Methods that were called", rows: figures, keyOf: (one) => `${one.method} ${one.protocol}`, isError: (one) => failures(one) > 0,
        empty: "Nothing was called yet.",
        columns: [
          { name: "Method", of: (one) => h(UntrustedText, { max: 200 }, one.method) },
          { name: "Protocol", of: (one) => one.protocol },
          { name: "Calls", of: (one) => `${count(one.calls)}${Number(one.running ?? 0) ? `, ${count(one.running)} run` : ""}`, class: "number" },
          { name: "Failed", of: (one) => count(failures(one)), class: "number" },
          { name: "Half within", of: (one) => took(one.p50Us), class: "number" },
          { name: "99 % within", of: (one) => took(one.p99Us), class: "number" },
          { name: "Hit share", of: (one) => (Number(one.askedMemory ?? 0) ? share(one.fromMemory, one.askedMemory) : ""), class: "number wide" },
        ],
      })));
}

/** Outcomes that are the server's fault. */
const FAULTS = new Set(["internal", "unknown", "data_loss", "unavailable", "deadline_exceeded", "5xx", "panicked"]);

/** @param {any} of */
const failures = (of) => (of.outcomes ?? []).filter((/** @type {any} */ one) => FAULTS.has(one.code)).reduce((/** @type {number} */ all, /** @type {any} */ one) => all + Number(one.count), 0);

/**
 * What is wrong now, the worst first.
 * @param {{ system: any, processes: any, rules: any }} known
 * @returns {{ what: string, why?: string, where?: string }[]}
 */
function problems({ system, processes, rules }) {
  const found = [];
  if (!system.ready) found.push({ what: "It drains", why: "new calls are refused" });
  for (const one of processes?.processes ?? []) {
    if (one.state === "broken") found.push({ what: `${one.name} is broken`, why: one.failure, where: address("/processes", { program: one.name }) });
    else if (one.failure) found.push({ what: `${one.name} failed before`, why: one.failure, where: address("/processes", { program: one.name }) });
  }
  const log = system.changeLog;
  if (log?.suspended) found.push({ what: "Nothing is given from memory", why: log.problem || "the change log was not read in time" });
  for (const source of log?.sources ?? []) {
    if (source.problem) found.push({ what: `Changes of ${source.name} are not captured`, why: source.problem });
  }
  const findings = (rules?.files ?? []).filter((/** @type {any} */ file) => file.findings?.length);
  if (findings.length) found.push({ what: `${count(findings.length)} rule files have findings`, where: address("/mocks") });
  for (const bound of system.bounds ?? []) {
    if (Number(bound.times ?? 0)) found.push({ what: `${bound.key} was reached`, why: `${count(bound.times)} times since the start`, where: address("/settings", { name: bound.key }) });
  }
  return found;
}
