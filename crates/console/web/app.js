// The console: who looks, which page, and the keys that work on every page.

import { h, render, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { begin, current, hasCode, onChange } from "./session.js";
import { age, UntrustedText } from "./text.js";
import { useKeys } from "./keys.js";
import { place, useEvery } from "./parts.js";
import { useCall } from "./ui.js";
import { Mocks } from "./mocks.js";
import { Calls } from "./calls.js";
import { Cache } from "./cache.js";
import { Services } from "./services.js";
import { Health } from "./health.js";
import { Load } from "./load.js";
import { Processes } from "./processes.js";
import { Settings } from "./settings.js";

/** @type {{ path: string, name: string, page: () => any }[]} */
const PAGES = [
  { path: "/mocks", name: "Mocks", page: Mocks },
  { path: "/calls", name: "Calls", page: Calls },
  { path: "/cache", name: "Cache", page: Cache },
  { path: "/services", name: "Services", page: Services },
  { path: "/processes", name: "Processes", page: Processes },
  { path: "/health", name: "Health", page: Health },
  { path: "/load", name: "Load", page: Load },
  { path: "/settings", name: "Settings", page: Settings },
];

const KEYS = [
  ["/", "to the filter"], ["j, k", "to the next row, to the one before"], ["Enter", "open the row"],
  ["e", "to the next row that failed"], ["p", "pause what moves"], ["1 – 8", "to a page"], ["?", "these keys"],
];

/** @param {{ why: string }} props */
function SignedOut({ why }) {
  return h("main", { class: "alone" },
    h("h1", null, "Tidewire console"),
    why === "none" ? null : h("p", { class: "problem", role: "alert" }, h(UntrustedText, null, why)),
    h("p", null, "To look at the program, run this where it runs, and open the address that it prints:"),
    h("pre", null, "tidewire console"),
    h("p", { class: "muted" }, "The address is good once, for a minute. A tab that is signed in lets other tabs of this browser in."));
}

function Shell() {
  const [at, go] = useState(place().path);
  const [help, showHelp] = useState(false);
  const { data, error, reload } = useCall("System/Overview", {});
  useEvery(reload, 5000);
  const [last, setLast] = useState(/** @type {any} */ (undefined));
  useEffect(() => {
    if (data) setLast(data);
  }, [data]);
  useLayoutEffect(() => {
    const changed = () => go(place().path);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    // Who mocks came to see mocks. The address itself is asked: it may be another by now than `at`.
    if (last && place().path === "/") location.replace(last.mocks ? "#/mocks" : "#/calls");
  }, [at, last]);
  useKeys((key) => {
    const page = PAGES[Number(key) - 1];
    if (page) location.hash = page.path;
    else if (key === "?") showHelp((shown) => !shown);
    return Boolean(page) || key === "?";
  });
  const found = PAGES.find(({ path }) => at === path || at.startsWith(`${path}/`));
  useEffect(() => {
    document.title = `${found?.name ?? "Console"} · Tidewire`;
  }, [found]);
  return h("div", { class: "shell" },
    h("a", { class: "skip", href: "#content", onClick: (/** @type {any} */ event) => {
      event.preventDefault();
      document.getElementById("content")?.focus();
    } }, "To the content"),
    h("header", null,
      h("span", { class: "brand" }, "Tidewire"),
      h("nav", { "aria-label": "Pages" }, PAGES.filter(({ path }) => path !== "/mocks" || last?.mocks || at.startsWith(path)).map(({ path, name }) =>
        h("a", { href: `#${path}`, "aria-current": found?.path === path ? "page" : undefined }, name))),
      h("span", { class: "state" }, h(State, { overview: last, error })),
      h("button", { type: "button", onClick: () => showHelp(true), "aria-label": "Keys", title: "Keys ( ? )" }, "?")),
    h("main", { id: "content", tabIndex: -1 },
      found ? h(found.page, null) : at === "/" ? null : h("p", null, "There is no such page.")),
    help ? h(Help, { onClose: () => showHelp(false) }) : null);
}

/** @param {{ overview: any, error?: Error }} props */
function State({ overview, error }) {
  if (error) return h("span", { role: "status", class: "bad" }, "✕ does not answer");
  if (!overview) return null;
  const role = current()?.act ? "" : ", read only";
  return h("span", { class: overview.ready ? "good" : "bad" },
    overview.ready ? "● takes calls" : "◌ drains", h("span", { class: "muted" }, ` ${age(overview.uptimeMs)}${role}`));
}

/** @param {{ onClose: () => void }} props */
function Help({ onClose }) {
  const dialog = useRef(/** @type {any} */ (null));
  useEffect(() => dialog.current.showModal(), []);
  return h("dialog", { ref: dialog, onClose, "aria-label": "Keys" },
    h("h2", null, "Keys"),
    h("dl", { class: "keys" }, KEYS.map(([key, what]) => h("div", null, h("dt", null, h("kbd", null, key)), h("dd", null, what)))),
    h("form", { method: "dialog" }, h("button", { autofocus: true }, "Close")));
}

/** @param {{ why: string }} props */
function App({ why: first }) {
  const [signedIn, set] = useState(Boolean(current()));
  const [why, setWhy] = useState(first);
  useEffect(() => {
    // An address with a code that is opened in this tab changes what is behind `#` alone: nothing is loaded anew.
    const changed = async () => {
      if (!hasCode()) return;
      setWhy(await begin());
      dispatchEvent(new HashChangeEvent("hashchange"));
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => onChange(() => set(Boolean(current()))), []);
  return signedIn ? h(Shell, null) : h(SignedOut, { why });
}

const why = await begin();
render(h(App, { why }), /** @type {HTMLElement} */ (document.getElementById("app")));
