// What pages of the console are made of beside parts.js: calls of the program, and buttons that ask.

import { h, useCallback, useEffect, useState } from "./preact.js";
import { call } from "./api.js";
import { Problem } from "./parts.js";
import { current } from "./session.js";

/** @typedef {import("./preact.js").ComponentChildren} Children */

/**
 * What a method answers, and again when a dependency changes.
 * @param {string} method @param {object | null} request null asks nothing
 * @param {unknown[]} [more]
 */
export function useCall(method, request, more = []) {
  const [state, set] = useState(/** @type {{ data?: any, error?: Error, at: string }} */ ({ at: "" }));
  const [turn, again] = useState(0);
  const asked = JSON.stringify([method, request]);
  useEffect(() => {
    if (!request) return undefined;
    const ends = new AbortController();
    call(method, request, ends.signal).then(
      (data) => set({ data, at: asked }),
      (error) => ends.signal.aborted || set({ error, at: asked }),
    );
    return () => ends.abort();
  }, [asked, turn, ...more]);
  const reload = useCallback(() => again((n) => n + 1), []);
  const fits = state.at === asked;
  return { data: fits ? state.data : undefined, error: fits ? state.error : undefined, reload };
}

/** Whether this session may change anything. */
export const mayAct = () => Boolean(current()?.act);

/**
 * A button that changes something: it says what it did, or why not.
 * @param {{ children?: Children, onAct: () => Promise<unknown>, ask?: string, disabled?: boolean, class?: string, title?: string }} props
 */
export function Act({ children, onAct, ask, disabled, class: name, title }) {
  const [state, set] = useState(/** @type {{ busy?: boolean, asks?: boolean, error?: Error }} */ ({}));
  const run = async () => {
    if (ask && !state.asks) return set({ asks: true });
    set({ busy: true });
    try {
      await onAct();
      set({});
    } catch (error) {
      set({ error: /** @type {Error} */ (error) });
    }
  };
  const allowed = mayAct();
  return h("span", { class: "act" },
    h("button", {
      type: "button", onClick: run, disabled: disabled || state.busy || !allowed, class: name,
      title: allowed ? title : "this session may only look",
    }, state.asks ? `${ask} – sure?` : children),
    state.asks ? h("button", { type: "button", onClick: () => set({}) }, "No") : null,
    h(Problem, { error: state.error }));
}
