// What is cached, of what it was made, and why it was computed again: as far as that was observed.

import { h, useState } from "./preact.js";
import { call } from "./api.js";
import { age, clock, count, UntrustedText, share, size } from "./text.js";
import { Filter, Problem, Table, useEvery, useQuery } from "./parts.js";
import { Act, useCall } from "./ui.js";

export function Cache() {
  const [memo, setMemo] = useQuery("memo");
  const [entry, setEntry] = useQuery("entry");
  const [filter, setFilter] = useQuery("name");
  const overview = useCall("Memo/Overview", {});
  const memos = useCall("Memo/ListMemos", {});
  const reload = () => { overview.reload(); memos.reload(); };
  useEvery(reload, 3000);
  const figures = useLast(overview.data);
  const listed = useLast(memos.data);
  const rows = (listed?.memos ?? []).filter((/** @type {any} */ one) => one.name.toLowerCase().includes(filter.toLowerCase()));
  const counting = Boolean(listed?.counting);
  return h("div", { class: "page" },
    h("h1", null, "Cache"),
    h(Problem, { error: overview.error ?? memos.error }),
    figures ? h("dl", { class: "figures" }, [
      ["Entries", count(figures.entries)], ["Memory", size(figures.bytes)], ["Computed", count(figures.computed)],
      ["Hit share of methods", share(figures.hits, figures.asked)], ["Verified unchanged", count(figures.verified)],
      ["Cut off", count(figures.cutOff)], ["Evicted", count(figures.evicted)], ["Expired", count(figures.expired)],
    ].map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))) : null,
    h("div", { class: "bar" },
      h(Filter, { label: "Filter by name", value: filter, onInput: setFilter }),
      h(Act, { onAct: async () => { await call("Memo/CountHits", { seconds: 10 }); reload(); }, title: "Hits within the program; while they are counted they are slower" }, counting ? "Counts hits…" : "Count hits for 10 s (slows hits)"),
      h(Act, { onAct: () => call("Memo/Observe", { seconds: 600 }), title: "What happens to entries, and why" }, "Observe for 10 min")),
    h("div", { class: "split" },
      h(Table, {
        label: "Memos and sources", rows, keyOf: (/** @type {any} */ one) => one.name, open: memo,
        onOpen: (one) => { setEntry(""); setMemo(memo === one.name ? "" : one.name); },
        empty: "Nothing is cached yet: no method with a cache option was called, and no memo ran.",
        columns: [
          { name: "Name", of: (one) => h(UntrustedText, { max: 200 }, one.name) },
          { name: "Kind", of: (one) => (one.source ? "source" : "memo") },
          { name: "Entries", of: (one) => count(one.entries), class: "number" },
          { name: "Memory", of: (one) => size(one.bytes), class: "number wide" },
          { name: "Hit share", of: (one) => (one.source ? "" : share(one.hits, one.asked)), class: "number" },
          { name: "Served within", of: (one) => (one.source ? "" : counting || Number(one.served ?? 0) > 0 ? count(one.served) : "not recorded"), class: "number wide" },
        ],
      }),
      memo ? h("section", { class: "detail", "aria-label": "Keys" }, entry
        ? h(Entry, { id: entry, onOpen: setEntry, onClose: () => setEntry("") })
        : h(Keys, { memo, onOpen: setEntry })) : null),
    h(Invalidators, null));
}

/** The last answer, while the next one is under way.
 * @template T @param {T} data @returns {T} */
function useLast(data) {
  const [kept, set] = useState(data);
  if (data && data !== kept) set(data);
  return data ?? kept;
}

/** @param {{ memo: string, onOpen: (id: string) => void }} props */
function Keys({ memo, onOpen }) {
  const [after, setAfter] = useState([0]);
  const [key, setKey] = useState("");
  const { data, error, reload } = useCall("Memo/ListEntries", { memo, after: after.at(-1), key, limit: 100 });
  const kept = useLast(data);
  return h("div", null,
    h("h2", null, h(UntrustedText, { max: 200 }, memo)),
    h("div", { class: "bar" },
      h("input", { type: "search", "aria-label": "Only keys with", placeholder: "Only keys with", value: key, onInput: (/** @type {any} */ e) => setKey(e.currentTarget.value) }),
      h("button", { type: "button", onClick: reload }, "Look again"),
      h(Act, { ask: "Make all of it stale", onAct: async () => { await call("Memo/Invalidate", { memo }); reload(); } }, "Invalidate all")),
    h(Problem, { error }),
    h(Entries, { label: "Keys of the memo", entries: kept?.entries ?? [], onOpen }),
    h("div", { class: "bar" },
      after.length > 1 ? h("button", { type: "button", onClick: () => setAfter(after.slice(0, -1)) }, "The page before") : null,
      kept?.next ? h("button", { type: "button", onClick: () => setAfter([...after, kept.next]) }, "The next page") : null));
}

/** @param {{ label: string, entries: any[], onOpen: (id: string) => void }} props */
function Entries({ label, entries, onOpen }) {
  return h(Table, {
    label, rows: entries, keyOf: (one) => String(one.id), onOpen: (one) => onOpen(String(one.id)), empty: "There are no keys.",
    columns: [
      { name: "Key", of: (one) => h("span", null, h(UntrustedText, { max: 20, class: "muted" }, one.memo), " ", h(UntrustedText, { max: 300 }, one.key)) },
      { name: "State", of: (one) => `${one.state}${one.computing ? ", computing" : ""}${one.watched ? ", watched" : ""}` },
      { name: "Reads", of: (one) => count(one.dependencies), class: "number" },
      { name: "Dependants", of: (one) => count(one.dependants), class: "number" },
    ],
  });
}

/** @param {{ id: string, onOpen: (id: string) => void, onClose: () => void }} props */
function Entry({ id, onOpen, onClose }) {
  const { data, error, reload } = useCall("Memo/GetEntry", { id });
  const why = useCall("Memo/Explain", { id });
  const again = () => { reload(); why.reload(); };
  if (!data) return h("div", null, h(Problem, { error }), h("button", { type: "button", onClick: onClose }, "Back to the keys"));
  const { entry, dependencies = [], dependants = [] } = data;
  return h("div", null,
    h("button", { type: "button", onClick: onClose }, "← Keys"),
    h("h2", null, h(UntrustedText, { max: 500 }, `${entry.memo}(${entry.key})`)),
    h("dl", null, [
      ["State", entry.state], ["Version", `${entry.version ?? 0} (orders values, says no time)`], ["Memory", size(entry.bytes)],
      ["Age", data.ageMs === undefined ? "not recorded" : age(data.ageMs)],
    ].map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    h("div", { class: "bar" },
      h("button", { type: "button", onClick: again }, "Look again"),
      h(Act, { onAct: async () => { await call("Memo/Invalidate", { ids: [id] }); again(); } }, "Invalidate"),
      h(Act, { onAct: async () => { await call("Memo/Evict", { ids: [id] }); again(); } }, "Evict")),
    h("h3", null, "Why it was computed again"),
    h(Why, { reply: why.data, error: why.error }),
    h("h3", null, `What it read (${count(entry.dependencies)})`),
    h(Entries, { label: "What it read", entries: dependencies, onOpen }),
    h("h3", null, `What depends on it (${count(entry.dependants)})`),
    h(Entries, { label: "What depends on it", entries: dependants, onOpen }));
}

/** @param {{ reply: any, error?: Error }} props */
function Why({ reply, error }) {
  if (!reply) return h(Problem, { error });
  const events = reply.events ?? [];
  if (events.length === 0) {
    return h("p", null, "not recorded", h("span", { class: "muted" }, reply.observing
      ? ": nothing happened to it since it is observed."
      : ": nobody observed. Press “Observe”, and look again after the next change."));
  }
  return h("div", null,
    h("ol", { class: "events" }, events.map((/** @type {any} */ event) => h("li", null,
      h("span", { class: "muted" }, clock(event.atMs)), " ", h("strong", null, event.what),
      event.changed ? h("span", null, ": ", h(UntrustedText, { max: 300 }, event.changed), " changed") : null,
      event.dependencies ? `, because dependency ${event.dependency} of ${event.dependencies} was newer` : null))),
    reply.dropped && Number(reply.dropped) ? h("p", { class: "muted" }, `${count(reply.dropped)} notes of all keys went because newer ones came.`) : null);
}

function Invalidators() {
  const { data, reload } = useCall("Memo/Invalidators", {});
  useEvery(reload, 5000);
  const kept = useLast(data);
  const rows = kept?.invalidators ?? [];
  return h("section", { "aria-label": "What made most stale" },
    h("h2", null, "What made most stale"),
    rows.length === 0
      ? h("p", { class: "muted" }, kept?.observing ? "Nothing changed since it is observed." : "not recorded: nobody observes.")
      : h(Table, {
        label: "What made most stale", rows, keyOf: (/** @type {any} */ one) => one.changed,
        columns: [
          { name: "Changed", of: (one) => h(UntrustedText, { max: 300 }, one.changed) },
          { name: "Times", of: (one) => count(one.times), class: "number" },
          { name: "Values made stale", of: (one) => count(one.marked), class: "number" },
        ],
      }));
}
