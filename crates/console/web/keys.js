// The keys that work on every page: through rows, to the filter, away from a field.

import { useLayoutEffect, useRef } from "./preact.js";

/** @param {(key: string) => boolean} onOther what a page has beside, and whether it was one of these */
export function useKeys(onOther) {
  const other = useRef(onOther);
  other.current = onOther;
  // Before anything is seen: no key is lost that is pressed then.
  useLayoutEffect(() => {
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (target.closest("input, textarea, select")) {
        if (event.key === "Escape") target.blur();
        return;
      }
      if (event.key === "/") focusOn("[data-filter]");
      else if (event.key === "p") /** @type {HTMLElement | null} */ (document.querySelector("[data-pause]"))?.click();
      else if (event.key === "j") step(1, "button.row");
      else if (event.key === "k") step(-1, "button.row");
      else if (event.key === "e") step(1, "[data-error] button.row");
      else if (!other.current(event.key)) return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

/** @param {string} selector */
const focusOn = (selector) => /** @type {HTMLElement | null} */ (document.querySelector(selector))?.focus();

/**
 * Moves the focus to the next of these, or the one before; at the end it stays.
 * @param {1 | -1} by @param {string} selector
 */
function step(by, selector) {
  const all = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]);
  const here = document.activeElement;
  const after = (/** @type {HTMLElement} */ one) => (here && here !== document.body
    ? Boolean(here.compareDocumentPosition(one) & (by > 0 ? Node.DOCUMENT_POSITION_FOLLOWING : Node.DOCUMENT_POSITION_PRECEDING))
    : by > 0);
  const next = by > 0 ? all.find(after) : all.filter(after).at(-1);
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
