// Every setting, its value and where that comes from; the level of the log can be changed here.

import { h, useState } from "./preact.js";
import { call } from "./api.js";
import { UntrustedText } from "./text.js";
import { Field, Filter, Problem, Table, useQuery } from "./parts.js";
import { Act, useCall } from "./ui.js";

export function Settings() {
  const [filter, setFilter] = useQuery("name");
  const [own, setOwn] = useQuery("own");
  const { data, error, reload } = useCall("System/Settings", {});
  const [level, setLevel] = useState("");
  const [said, say] = useState("");
  const wanted = filter.toLowerCase();
  const rows = (data?.settings ?? []).filter((/** @type {any} */ one) => (!own || one.origin !== "default")
    && `${one.key} ${one.about ?? ""}`.toLowerCase().includes(wanted));
  return h("div", { class: "page" },
    h("h1", null, "Settings"),
    h(Problem, { error }),
    h("form", { class: "bar", onSubmit: (/** @type {any} */ event) => event.preventDefault() },
      h(Field, { label: "Level of the log, until the program ends" }, h("input", {
        value: level, placeholder: "info,hyper=debug", spellcheck: false, onInput: (/** @type {any} */ e) => setLevel(e.currentTarget.value),
      })),
      h(Act, {
        disabled: level.trim() === "", onAct: async () => {
          await call("System/SetLogLevel", { level: level.trim() });
          say(`The level is ${level.trim()} now.`);
          reload();
        },
      }, "Set the level"),
      h("span", { role: "status", class: "good" }, said)),
    h("div", { class: "bar" },
      h(Filter, { label: "Filter by name", value: filter, onInput: setFilter }),
      h("label", null, h("input", { type: "checkbox", checked: own !== "", onChange: (/** @type {any} */ e) => setOwn(e.currentTarget.checked ? "1" : "") }), " Only what is set")),
    h(Table, {
      label: "Settings", rows, keyOf: (one) => one.key, empty: data ? "No setting has that." : "…",
      columns: [
        { name: "Setting", of: (one) => h("code", null, h(UntrustedText, { max: 200 }, one.key)) },
        { name: "Value", of: (one) => h(UntrustedText, { max: 300 }, one.value ?? "") },
        { name: "From", of: (one) => h("span", { class: one.origin === "default" ? "muted" : undefined }, h(UntrustedText, { max: 300 }, one.origin)) },
        { name: "What it is", of: (one) => h(UntrustedText, { max: 500 }, one.about ?? ""), class: "wide" },
      ],
    }));
}
