// What the console and the docs page are made of: tables that keys go through, errors, places in the address.

import { h, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { UntrustedText } from "./text.js";

/** @typedef {import("./preact.js").ComponentChildren} Children */

/** Does something every so many milliseconds, while the tab is seen.
 * @param {() => void} work @param {number | null} every */
export function useEvery(work, every) {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    if (!every) return undefined;
    const timer = setInterval(() => document.hidden || latest.current(), every);
    return () => clearInterval(timer);
  }, [every]);
}

/** @param {{ error?: Error | null }} props */
export function Problem({ error }) {
  if (!error) return null;
  const code = /** @type {any} */ (error).code;
  return h("p", { class: "problem", role: "alert" }, h("strong", null, code ? `${code}: ` : ""), h(UntrustedText, null, error.message));
}

/**
 * A table whose rows j and k go through, and Enter or a click opens.
 * @param {{
 *   label: string, rows: any[], total?: number, keyOf: (row: any) => string, open?: string,
 *   columns: { name: string, of: (row: any) => Children, class?: string }[],
 *   onOpen?: (row: any) => void, isError?: (row: any) => boolean, empty?: Children,
 * }} props
 */
export function Table({ label, rows, total, keyOf, open, columns, onOpen, isError, empty }) {
  if (rows.length === 0) return h("p", { class: "muted" }, empty ?? "There is nothing here.");
  return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": `${label}, table` },
    h("table", { role: "table", "aria-label": label, "aria-rowcount": (total ?? rows.length) + 1 },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(({ name, class: of }) => h("th", { role: "columnheader", scope: "col", class: of }, name)))),
      h("tbody", { role: "rowgroup" }, rows.map((row, at) => {
        const key = keyOf(row);
        const cells = columns.map(({ of, class: name, name: column }, place) => {
          const content = of(row);
          const inside = place === 0 && onOpen
            ? h("button", { type: "button", class: "row", "aria-expanded": open === key, onClick: () => onOpen(row) }, content)
            : content;
          return h("td", { role: "cell", class: name, "data-label": column }, inside);
        });
        const failed = isError?.(row) ?? false;
        return h("tr", { role: "row", key, "aria-rowindex": at + 2, class: `${open === key ? "open " : ""}${failed ? "failed" : ""}`, "data-error": failed || undefined }, cells);
      }))));
}

/** @param {{ value: string, onInput: (text: string) => void, label: string, placeholder?: string }} props */
export function Filter({ value, onInput, label, placeholder }) {
  return h("input", {
    type: "search", class: "filter", "data-filter": true, "aria-label": label, placeholder: placeholder ?? `${label}  ( / )`, value,
    onInput: (/** @type {any} */ event) => onInput(event.currentTarget.value),
  });
}

/** What the address says behind `#`: `/calls?failed=1`. */
export function place() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  return { path: path || "/", query: new URLSearchParams(query ?? "") };
}

/** @param {string} path @param {Record<string, string>} [query] */
export function address(path, query = {}) {
  const said = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  return `#${path}${said.size ? `?${said}` : ""}`;
}

/**
 * One word of the address that a page reads and sets.
 * @param {string} name
 * @returns {[string, (value: string) => void]}
 */
export function useQuery(name) {
  const [, turn] = useState(0);
  useLayoutEffect(() => {
    const changed = () => turn((n) => n + 1);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return [place().query.get(name) ?? "", (value) => {
    const { path, query } = place();
    if (value === "") query.delete(name);
    else query.set(name, value);
    history.replaceState(null, "", address(path, Object.fromEntries(query)));
    dispatchEvent(new HashChangeEvent("hashchange"));
  }];
}

/** @param {{ label: string, children?: Children, class?: string }} props */
export function Field({ label, children, class: name }) {
  return h("label", { class: `field ${name ?? ""}` }, h("span", null, label), children);
}

/** @param {{ text: string, label?: string }} props */
export function Copy({ text, label }) {
  const [copied, set] = useState(/** @type {string | null} */ (null));
  return h("button", {
    type: "button",
    onClick: async () => {
      await navigator.clipboard.writeText(text);
      set(text);
    },
  }, copied === text ? "Copied" : label ?? "Copy");
}
