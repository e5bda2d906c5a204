// Text of others as text: what it says is shown, what it would do to a reader is not done.

import { h } from "./preact.js";

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

/**
 * A text whose control characters, and those that turn the direction of writing, can be seen.
 * @param {unknown} text
 * @returns {string}
 */
export function visible(text) {
  return String(text ?? "").replace(HIDDEN, (char) => `\\u{${char.charCodeAt(0).toString(16)}}`);
}

/** Text that others wrote, in its own direction; very long text is cut.
 * @param {{ children?: unknown, max?: number, class?: string }} props */
export function UntrustedText({ children, max = 2000, class: name }) {
  const text = String(children ?? "");
  const shown = visible(text.length > max ? text.slice(0, max) : text);
  const more = text.length - max;
  return h("bdi", { class: name }, shown, more > 0 ? h("span", { class: "muted" }, ` … and ${count(more)} more characters`) : null);
}

/**
 * JSON with a line a member; numbers stay as they are written, whatever this language makes of them.
 * @param {string} text JSON
 */
export function pretty(text) {
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g, (token) => (token.startsWith('"') ? token : `"\ue000${token}"`));
  try {
    return JSON.stringify(JSON.parse(marked), null, 2).replace(/"\ue000(-?\d[-+.\deE]*)"/g, "$1");
  } catch {
    return text;
  }
}

/** @param {unknown} number */
export const count = (number) => Number(number ?? 0).toLocaleString("en");

/** @param {unknown} micros */
export function took(micros) {
  const us = Number(micros ?? 0);
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 1 : 0)} ms`;
  return `${(us / 1e6).toFixed(1)} s`;
}

/** @param {unknown} bytes */
export function size(bytes) {
  const n = Number(bytes ?? 0);
  if (n < 1024) return `${n} B`;
  if (n < 1 << 20) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / (1 << 20)).toFixed(1)} MiB`;
}

/** @param {unknown} millis since 1970 */
export function clock(millis) {
  const at = new Date(Number(millis));
  return Number.isNaN(at.getTime()) ? "" : at.toLocaleTimeString("en-GB", { hour12: false });
}

/** @param {unknown} millis */
export function age(millis) {
  const s = Math.floor(Number(millis ?? 0) / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/** @param {unknown} hits @param {unknown} asked */
export function share(hits, asked) {
  const all = Number(asked ?? 0);
  return all === 0 ? "not recorded" : `${((100 * Number(hits ?? 0)) / all).toFixed(1)} %`;
}

/** @param {unknown} millis @returns {string} local and UTC */
export function times(millis) {
  const at = new Date(Number(millis));
  return Number.isNaN(at.getTime()) ? "" : `${at.toLocaleString()} (local), ${at.toISOString()}`;
}
