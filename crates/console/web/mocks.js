// What is mocked: which rule answers and why, the files of rules, and what was asked for in vain.

import { h, useEffect, useState } from "./preact.js";
import { call } from "./api.js";
import { clock, count, pretty, UntrustedText, took } from "./text.js";
import { Field, Filter, Problem, Table, address, place, useEvery, useQuery } from "./parts.js";
import { Act, useCall } from "./ui.js";

const PARTS = [
  { path: "/mocks", name: "Rules", part: Rules }, { path: "/mocks/misses", name: "Near misses", part: Misses },
  { path: "/mocks/calls", name: "Mocked calls", part: MockedCalls }, { path: "/mocks/verify", name: "Verify", part: Verify },
  { path: "/mocks/sessions", name: "Sessions", part: Sessions }, { path: "/mocks/faults", name: "Faults", part: Faults }, { path: "/mocks/protos", name: "Protos", part: Protos },
];

export function Mocks() {
  const here = place().path;
  const found = PARTS.find(({ path }) => path === here) ?? PARTS[0];
  return h("div", { class: "page" },
    h("h1", null, "Mocks"),
    h("nav", { "aria-label": "Parts of Mocks", class: "parts" }, PARTS.map(({ path, name }) =>
      h("a", { href: `#${path}`, "aria-current": found.path === path ? "page" : undefined }, name))),
    h(found.part, null));
}

function Rules() {
  const [filter, setFilter] = useQuery("name");
  const [chosen, setChosen] = useQuery("method");
  const [named, setNamed] = useQuery("file");
  const { data, error, reload } = useCall("Mocks/ListRules", {});
  const [kept, keep] = useState(/** @type {any} */ (undefined));
  useEffect(() => { if (data) keep(data); }, [data]);
  useEvery(reload, 5000);
  const rules = (kept?.rules ?? []).filter((/** @type {any} */ one) => `${one.method} ${one.file ?? ""}`.toLowerCase().includes(filter.toLowerCase()));
  const files = kept?.files ?? [];
  const orphans = files.filter((/** @type {any} */ file) => !file.method);
  const method = (kept?.rules ?? []).find((/** @type {any} */ one) => one.method === chosen);
  const fileOf = files.find((/** @type {any} */ file) => file.method === chosen)?.name;
  const warnings = (/** @type {any} */ one) => files.filter((/** @type {any} */ file) => file.method === one.method).flatMap((/** @type {any} */ file) => file.findings ?? []);
  return h("div", null,
    h("div", { class: "bar" }, h(Filter, { label: "Filter by method", value: filter, onInput: setFilter })),
    h(Problem, { error }),
    h("div", { class: "split" },
      h("div", null,
        h(Table, {
          label: "Mocked methods", rows: rules, keyOf: (/** @type {any} */ one) => one.method, open: chosen, empty: kept ? "No method has such a name." : "…",
          isError: (one) => Boolean(one.fault) || warnings(one).some((/** @type {any} */ finding) => finding.error),
          onOpen: (one) => { setNamed(""); setChosen(chosen === one.method ? "" : one.method); },
          columns: [
            { name: "Method", of: (one) => h(UntrustedText, { max: 200 }, one.method) },
            { name: "Answered by", of: (one) => (one.fault ? h("span", { class: "bad" }, "✕ ", h(UntrustedText, { max: 200 }, one.fault))
              : one.responses?.length ? `${count(one.responses.length)} ${one.responses.length === 1 ? "response" : "responses"}` : "the schema alone") },
            { name: "Findings", of: (one) => (warnings(one).length ? h("span", { class: "bad" }, `! ${warnings(one).length}`) : ""), class: "number" },
          ],
        }),
        orphans.length ? h("section", { "aria-label": "Files that answer no method" }, h("h2", null, "Files that answer no method"),
          h("ul", { class: "plain" }, orphans.map((/** @type {any} */ file) => h("li", null,
            h("button", { type: "button", class: "row", onClick: () => { setChosen(""); setNamed(file.name); } }, h(UntrustedText, { max: 200 }, file.name)),
            h(Findings, { findings: file.findings ?? [] }))))) : null),
      chosen && method ? h(MethodRules, { key: chosen, method, file: fileOf, onWritten: reload })
        : named ? h("section", { class: "detail", "aria-label": named }, h(File, { key: named, name: named, onWritten: reload })) : null));
}

/** @param {{ method: any, file?: string, onWritten: () => void }} props */
function MethodRules({ method, file, onWritten }) {
  const name = file ?? `${method.method.replace("/", ".").toLowerCase()}.yaml`;
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  return h("section", { class: "detail", "aria-label": `Rules of ${method.method}` },
    h("h2", null, h(UntrustedText, { max: 300 }, method.method)),
    method.stubs ? h("p", { class: "muted" }, `Stubs, which go before this file: ${count(method.stubs)}.`) : null,
    h(Preview, { method: method.method, name, draft }),
    h(File, { key: name, name, isNew: !file, onWritten, onDraft: setDraft }));
}

const NEW_RULE = "responses:\n  - body: {}\n";

/** @param {{ name: string, isNew?: boolean, onWritten: () => void, onDraft?: (text: string | null) => void }} props */
function File({ name, isNew, onWritten, onDraft }) {
  const { data, error } = useCall("Mocks/GetFile", isNew ? null : { name });
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const [base, setBase] = useState({ text: isNew ? "" : null, etag: "" });
  const [findings, setFindings] = useState(/** @type {any[] | null} */ (null));
  useEffect(() => {
    if (data && text === null) { setText(data.text ?? ""); setBase({ text: data.text ?? "", etag: data.etag ?? "" }); }
  }, [data]);
  const set = (/** @type {string} */ next) => {
    setText(next);
    setFindings(null);
    onDraft?.(next === base.text ? null : next);
  };
  if (isNew && text === null) {
    return h("div", null, h("h3", null, "Rule file"), h("p", null, "There is none: what the schema makes plausible is answered."),
      h("button", { type: "button", onClick: () => set(NEW_RULE) }, `Write one`));
  }
  if (text === null) return h(Problem, { error });
  const taken = (/** @type {any} */ file) => {
    setBase({ text: file.text ?? "", etag: file.etag ?? "" });
    setText(file.text ?? "");
    setFindings(file.findings ?? []);
    onDraft?.(null);
    onWritten();
  };
  const changed = text !== base.text;
  return h("div", null,
    h("h3", null, "Rule file ", h(UntrustedText, { max: 200, class: "muted" }, name)),
    h("textarea", { class: "code", rows: 14, spellcheck: false, "aria-label": `Text of ${name}`, value: text, onInput: (/** @type {any} */ e) => set(e.currentTarget.value) }),
    h("div", { class: "bar" },
      h("button", { type: "button", onClick: async () => setFindings((await call("Mocks/Check", { name, text })).findings ?? []) }, "Check"),
      h(Act, { class: "primary", disabled: !changed, onAct: async () => taken(await call("Mocks/PutFile", { name, text, etag: base.etag })) }, "Save"),
      changed ? h("button", { type: "button", onClick: () => { setText(base.etag ? base.text : null); setFindings(null); onDraft?.(null); } }, "Undo") : null,
      base.etag ? h(Act, { ask: `Delete ${name}`, onAct: async () => { await call("Mocks/DeleteFile", { name, etag: base.etag }); setBase({ text: null, etag: "" }); setText(null); onDraft?.(null); onWritten(); } }, "Delete") : null,
      h("label", { class: "button" }, "Read from a file", h("input", { type: "file", accept: ".yaml,.yml,.json", class: "unseen", onChange: async (/** @type {any} */ e) => { const [chosen] = e.currentTarget.files; if (chosen) set(await chosen.text()); } }))),
    h("p", { class: "muted", role: "status" }, changed ? "Not saved." : "As on disk.", base.etag ? ` etag ${base.etag}` : ""),
    base.etag ? h(OnDisk, { key: base.etag, name, etag: base.etag }) : null,
    findings === null ? null : findings.length === 0 ? h("p", { class: "good", role: "status" }, "✓ Nothing is wrong with it.") : h(Findings, { findings }));
}

/** Tells when the file changed on disk since it was read. @param {{ name: string, etag: string }} props */
function OnDisk({ name, etag }) {
  const { data, reload } = useCall("Mocks/GetFile", { name });
  useEvery(reload, 5000);
  if (!data || data.etag === etag) return null;
  return h("p", { class: "problem", role: "alert" }, "The file on disk is another one since you read it; what you save now is refused. Copy your text, and open the file again.");
}

/** @param {{ findings: any[] }} props */
function Findings({ findings }) {
  if (findings.length === 0) return null;
  return h("ul", { class: "findings", "aria-label": "Findings" }, findings.map((one) => h("li", { class: one.error ? "bad" : "" },
    h("strong", null, one.error ? "error" : "warning", one.line ? ` ${one.line}:${one.column ?? 1}` : ""), " ", h(UntrustedText, null, one.message),
    one.help ? h("span", { class: "muted" }, " ", h(UntrustedText, null, one.help)) : null)));
}

/** @param {{ method: string, name: string, draft: string | null }} props */
function Preview({ method, name, draft }) {
  const sample = useCall("Services/Sample", { method });
  const [request, setRequest] = useState("");
  const [headers, setHeaders] = useState("");
  const [state, set] = useState(/** @type {{ reply?: any, error?: Error, of?: string }} */ ({}));
  useEffect(() => {
    // Whoever began to write keeps what is written.
    if (sample.data) setRequest((before) => before || pretty(sample.data.json || "{}"));
  }, [sample.data]);
  const look = async () => {
    const said = Object.fromEntries(headers.split("\n").map((line) => line.split(/:(.*)/s)).filter(([, value]) => value !== undefined).map(([key, value]) => [key.trim(), value.trim()]));
    const text = draft === null ? {} : { name, text: draft };
    try {
      set({ reply: await call("Mocks/Preview", { method, requests: [request || "{}"], headers: said, ...text }), of: draft === null ? "the rules as they are" : "the text below, not saved" });
    } catch (error) { set({ error: /** @type {Error} */ (error) }); }
  };
  return h("div", { class: "preview" },
    h("h3", null, "Preview"),
    h(Field, { label: "Request as JSON" }, h("textarea", { class: "code", rows: 5, spellcheck: false, value: request, onInput: (/** @type {any} */ e) => setRequest(e.currentTarget.value) })),
    h(Field, { label: "Headers, one a line (name: value)" }, h("textarea", { rows: 1, spellcheck: false, value: headers, onInput: (/** @type {any} */ e) => setHeaders(e.currentTarget.value) })),
    h("div", { class: "bar" }, h("button", { type: "button", onClick: look }, "Preview"), h("span", { class: "muted" }, "Nothing is counted or logged.")),
    h(Problem, { error: state.error }),
    state.reply ? h(Previewed, { reply: state.reply, of: state.of ?? "" }) : null);
}

/** @param {{ reply: any, of: string }} props */
function Previewed({ reply, of }) {
  return h("div", { role: "status" },
    h("p", null, "By ", of, ": ", reply.rule ? h("strong", null, h(UntrustedText, { max: 300 }, reply.rule), " answers") : h("strong", null, "the schema alone answers"),
      `, ${reply.code}`, reply.error ? h("span", null, ": ", h(UntrustedText, null, reply.error)) : null, reply.delayUs && Number(reply.delayUs) ? `, after ${took(reply.delayUs)}` : "", "."),
    reply.gateMisses?.length ? h("div", null, h("p", null, "The match of the file does not hold:"), h(Reasons, { reasons: reply.gateMisses })) : null,
    reply.responses?.length ? h("table", { "aria-label": "Responses and why they lost" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "Response"), h("th", { scope: "col" }, "Outcome"))),
      h("tbody", null, reply.responses.map((/** @type {any} */ one) => h("tr", { class: one.chosen ? "open" : "" },
        h("td", null, h(UntrustedText, { max: 200 }, one.rule), one.name ? h("span", { class: "muted" }, " ", h(UntrustedText, { max: 100 }, one.name)) : null),
        h("td", null, one.chosen ? h("strong", { class: "good" }, "✓ answers") : h("span", { class: "lost" }, h("span", null, "✕"), one.misses?.length ? h(Reasons, { reasons: one.misses }) : h(UntrustedText, null, one.loss || "lost"))))))) : null,
    reply.faults?.length ? h("p", null, "Goes wrong on purpose: ", h(UntrustedText, null, reply.faults.join(", "))) : null,
    (reply.replies ?? []).map((/** @type {string} */ text) => h("pre", { tabIndex: 0 }, h(UntrustedText, { max: 20000 }, pretty(text)))));
}

/** @param {{ reasons: string[] }} props */
const Reasons = ({ reasons }) => h("ul", { class: "plain" }, reasons.map((one) => h("li", null, h(UntrustedText, null, one))));

function Misses() {
  const { data, error, reload } = useCall("Mocks/NearMisses", { limit: 100 });
  const [kept, keep] = useState(/** @type {any} */ (undefined));
  useEffect(() => { if (data) keep(data); }, [data]);
  useEvery(reload, 3000);
  const rows = kept?.misses ?? [];
  return h("div", null,
    h("p", { class: "muted" }, "Calls that no response with conditions answered, the closest first, and the response that came nearest."),
    h(Problem, { error }),
    h(Table, {
      label: "Near misses", rows, keyOf: (/** @type {any} */ one) => String(one.call?.number), empty: kept ? "Every call was answered by a rule, or none came." : "…",
      columns: [
        { name: "Call", of: (one) => h("a", { href: address("/mocks", { method: one.call?.method }) }, `#${one.call?.number} `, h(UntrustedText, { max: 200 }, one.call?.method)) },
        { name: "Time", of: (one) => clock(one.call?.atMs), class: "tight" },
        { name: "Nearest", of: (one) => h(UntrustedText, { max: 200 }, one.nearest) },
        { name: "What does not hold", of: (one) => h(Reasons, { reasons: one.misses ?? [] }) },
      ],
    }));
}

function MockedCalls() {
  const [filter, setFilter] = useQuery("name");
  const [paused, setPaused] = useState(false);
  const [open, setOpen] = useQuery("call");
  const { data, error, reload } = useCall("Mocks/ListCalls", { bodies: true, limit: 1000 });
  const [kept, keep] = useState(/** @type {any} */ (undefined));
  useEffect(() => { if (data) keep(data); }, [data]);
  useEvery(reload, paused ? null : 2000);
  const rows = (kept?.calls ?? []).filter((/** @type {any} */ one) => one.method.toLowerCase().includes(filter.toLowerCase())).toReversed().slice(0, 500);
  const shown = rows.find((/** @type {any} */ one) => String(one.number) === open);
  return h("div", null,
    h("div", { class: "bar" }, h(Filter, { label: "Filter by method", value: filter, onInput: setFilter }),
      h("button", { type: "button", "data-pause": true, "aria-pressed": paused, onClick: () => setPaused(!paused) }, paused ? "Go on ( p )" : "Pause ( p )")),
    h(Problem, { error }),
    h("div", { class: "split" },
      h(Table, {
        label: "Mocked calls", rows, keyOf: (/** @type {any} */ one) => String(one.number), open, empty: kept ? "No call came." : "…",
        isError: (one) => one.code !== "ok" && one.code !== "running", onOpen: (one) => setOpen(open === String(one.number) ? "" : String(one.number)),
        columns: [
          { name: "Method", of: (one) => h(UntrustedText, { max: 200 }, one.method) },
          { name: "Time", of: (one) => clock(one.atMs), class: "tight" },
          { name: "Outcome", of: (one) => (one.code === "running" ? one.code : h("span", { class: one.code === "ok" ? "good" : "bad" }, one.code === "ok" ? "✓ " : "✕ ", one.code)), class: "tight" },
          { name: "Answered by", of: (one) => (one.rule ? h(UntrustedText, { max: 200 }, one.rule) : "the schema alone") },
          { name: "Session", of: (one) => h(UntrustedText, { max: 60 }, one.session), class: "wide" },
        ],
      }),
      shown ? h("section", { class: "detail", "aria-label": `Call ${shown.number}` },
        h("h2", null, h(UntrustedText, { max: 200 }, shown.method)),
        shown.reason ? h("p", { class: "bad" }, h(UntrustedText, { max: 4000 }, shown.reason)) : null,
        h("h3", null, "Request"), (shown.requests ?? []).map((/** @type {string} */ text) => h("pre", { tabIndex: 0 }, h(UntrustedText, { max: 20000 }, pretty(text)))),
        h("h3", null, "Headers"), h("dl", null, (shown.headers ?? []).map((/** @type {any} */ one) => h("div", null, h("dt", null, h(UntrustedText, { max: 100 }, one.name)), h("dd", null, one.value === undefined ? "not shown: it may be a secret" : h(UntrustedText, null, one.value)))))) : null));
}

function Verify() {
  const rules = useCall("Mocks/ListRules", {});
  const [form, setForm] = useState({ method: "", session: "", with: "", often: "atLeast", times: "1" });
  const [state, set] = useState(/** @type {{ reply?: any, error?: Error }} */ ({}));
  const put = (/** @type {string} */ name) => (/** @type {any} */ event) => setForm({ ...form, [name]: event.currentTarget.value });
  const ask = async () => {
    try {
      set({ reply: await call("Mocks/Verify", { method: form.method, session: form.session, with: form.with, [form.often]: Number(form.times) || 0 }) });
    } catch (error) { set({ error: /** @type {Error} */ (error) }); }
  };
  return h("form", { class: "narrow", onSubmit: (/** @type {any} */ event) => { event.preventDefault(); void ask(); } },
    h(Field, { label: "Method" }, h("select", { value: form.method, onChange: put("method") }, h("option", { value: "" }, "every method"),
      (rules.data?.rules ?? []).map((/** @type {any} */ one) => h("option", { value: one.method }, one.method)))),
    h(Field, { label: "With in the request, as JSON" }, h("input", { value: form.with, placeholder: '{"item.sku": "SK-1", "quantity": {"gt": 2}}', onInput: put("with") })),
    h(Field, { label: "Session" }, h("input", { value: form.session, placeholder: "all", onInput: put("session") })),
    h("div", { class: "bar" },
      h(Field, { label: "How often" }, h("select", { value: form.often, onChange: put("often") }, h("option", { value: "exactly" }, "exactly"), h("option", { value: "atLeast" }, "at least"), h("option", { value: "atMost" }, "at most"))),
      h(Field, { label: "Times" }, h("input", { class: "short", inputMode: "numeric", value: form.times, onInput: put("times") })),
      h("button", { class: "primary" }, "Verify")),
    h(Problem, { error: state.error ?? rules.error }),
    state.reply ? h("div", { role: "status" },
      h("p", null, state.reply.verified ? h("strong", { class: "good" }, "✓ As expected.") : h("strong", { class: "bad" }, "✕ Not as expected."), ` ${count(state.reply.calls)} such calls are in the log.`),
      state.reply.problem ? h("pre", { tabIndex: 0 }, h(UntrustedText, { max: 20000 }, state.reply.problem)) : null) : null);
}

function Sessions() {
  const { data, error, reload } = useCall("Mocks/ListSessions", {});
  useEvery(reload, 3000);
  const [kept, keep] = useState(/** @type {any} */ (undefined));
  useEffect(() => { if (data) keep(data); }, [data]);
  return h("div", null,
    h("p", { class: "muted" }, "A session is what the header x-mock-session says; its calls, counts and state are its own."),
    h(Problem, { error }),
    h(Table, {
      label: "Sessions", rows: kept?.sessions ?? [], keyOf: (/** @type {any} */ one) => one.name ?? "", empty: kept ? "No call came." : "…",
      columns: [
        { name: "Session", of: (one) => (one.name ? h(UntrustedText, { max: 200 }, one.name) : "without one") },
        { name: "Calls", of: (one) => count(one.calls), class: "number" },
        { name: "State", of: (one) => h("dl", null, Object.entries(one.state ?? {}).map(([key, value]) => h("div", null, h("dt", null, h(UntrustedText, { max: 100 }, key)), h("dd", null, h(UntrustedText, { max: 300 }, value))))) },
        { name: "Action", of: (one) => (one.name ? h(Act, { onAct: async () => { await call("Mocks/Reset", { session: one.name }); reload(); } }, "Drop") : "") },
      ],
    }),
    h(Act, { ask: "Forget all calls, counts and state", onAct: async () => { await call("Mocks/Reset", {}); reload(); } }, "Reset all"));
}

function Faults() {
  const { data, error, reload } = useCall("Mocks/GetFaults", {});
  const rules = useCall("Mocks/ListRules", {});
  const [method, setMethod] = useState("");
  const [text, setText] = useState("");
  const faults = data?.faults ?? [];
  return h("div", { class: "narrow" },
    h("p", { class: "muted" }, "What goes wrong with answers on purpose, whatever their rules, until the program ends or it is set to nothing."),
    h(Problem, { error }),
    faults.length ? h("ul", null, faults.map((/** @type {any} */ one) => h("li", null, one.method ? h(UntrustedText, null, one.method) : "all methods", ": ", h("code", null, h(UntrustedText, null, one.text))))) : h("p", null, data ? "Nothing does." : "…"),
    h(Field, { label: "Method" }, h("select", { value: method, onChange: (/** @type {any} */ e) => setMethod(e.currentTarget.value) }, h("option", { value: "" }, "all methods"),
      (rules.data?.rules ?? []).map((/** @type {any} */ one) => h("option", { value: one.method }, one.method)))),
    h(Field, { label: "Faults, as in a rule file" }, h("input", { value: text, placeholder: "{fault: {kind: reset, p: 0.1}, delay: 100ms}", onInput: (/** @type {any} */ e) => setText(e.currentTarget.value) })),
    h(Act, { class: "primary", onAct: async () => { await call("Mocks/SetFaults", { method, text }); reload(); } }, text ? "Set" : "End faults"));
}

function Protos() {
  const [filter, setFilter] = useQuery("name");
  const [named, setNamed] = useQuery("file");
  const [fresh, setFresh] = useState("");
  const { data, error, reload } = useCall("Mocks/ListProtos", {});
  const names = (data?.names ?? []).filter((/** @type {string} */ one) => one.toLowerCase().includes(filter.toLowerCase()));
  return h("div", null,
    h("p", { class: "muted" }, "The files that say what is mocked. What a type is made of is on the page Services."),
    h("div", { class: "bar" }, h(Filter, { label: "Filter by name", value: filter, onInput: setFilter }),
      h("input", { "aria-label": "Name of a new file", placeholder: "shop/v1/new.proto", value: fresh, onInput: (/** @type {any} */ e) => setFresh(e.currentTarget.value) }),
      h("button", { type: "button", disabled: !fresh.endsWith(".proto"), onClick: () => { setNamed(fresh); setFresh(""); } }, "New file")),
    h(Problem, { error }),
    h("div", { class: "split" },
      h(Table, {
        label: "Proto files", rows: names.map((/** @type {string} */ name) => ({ name })), keyOf: (/** @type {any} */ one) => one.name, open: named,
        empty: data ? "There are none, or the mock is not made of a folder." : "…", onOpen: (one) => setNamed(named === one.name ? "" : one.name),
        columns: [{ name: "File", of: (one) => h(UntrustedText, { max: 300 }, one.name) }],
      }),
      named && data ? h("section", { class: "detail", "aria-label": named }, h(Proto, { key: named, name: named, isNew: !(data.names ?? []).includes(named), onWritten: reload })) : null));
}

/** @param {{ name: string, isNew: boolean, onWritten: () => void }} props */
function Proto({ name, isNew, onWritten }) {
  const { data, error } = useCall("Mocks/GetProto", isNew ? null : { name });
  const [text, setText] = useState(/** @type {string | null} */ (isNew ? 'syntax = "proto3";\n' : null));
  const [etag, setEtag] = useState("");
  const [problems, setProblems] = useState(/** @type {string[] | null} */ (null));
  useEffect(() => { if (data && text === null) { setText(data.text ?? ""); setEtag(data.etag ?? ""); } }, [data]);
  if (text === null) return h(Problem, { error });
  const written = (/** @type {any} */ file) => { setEtag(file.etag ?? ""); setProblems(file.problems ?? []); onWritten(); };
  return h("div", null,
    h("h2", null, h(UntrustedText, { max: 300 }, name)),
    h("textarea", { class: "code", rows: 18, spellcheck: false, "aria-label": `Text of ${name}`, value: text, onInput: (/** @type {any} */ e) => setText(e.currentTarget.value) }),
    h("div", { class: "bar" },
      h(Act, { class: "primary", onAct: async () => written(await call("Mocks/PutProto", { name, text, etag })) }, "Save"),
      etag ? h(Act, { ask: `Delete ${name}`, onAct: async () => { const { problems: left } = await call("Mocks/DeleteProto", { name, etag }); written({ problems: left }); } }, "Delete") : null,
      h("label", { class: "button" }, "Read from a file", h("input", { type: "file", accept: ".proto", class: "unseen", onChange: async (/** @type {any} */ e) => { const [chosen] = e.currentTarget.files; if (chosen) setText(await chosen.text()); } }))),
    problems === null ? null : problems.length === 0 ? h("p", { class: "good", role: "status" }, "✓ In effect.")
      : h("ul", { class: "findings", role: "status" }, problems.map((one) => h("li", null, h(UntrustedText, null, one)))));
}
