// A chart of what each second was like, drawn by hand: steps, so that one second is seen, too.

import { h } from "./preact.js";

/** @typedef {{ name: string, class: string, of: (row: any) => number }} Series */

const WIDE = 600;
const HIGH = 100;

/**
 * The figures stand beside it: a picture of lines says nothing to who does not see it.
 * @param {{ label: string, rows: any[], series: Series[], show: (value: number) => string }} props
 */
export function Chart({ label, rows, series, show }) {
  const most = Math.max(1, ...series.flatMap(({ of }) => rows.map(of)));
  const x = (/** @type {number} */ at) => ((at * WIDE) / Math.max(rows.length, 1)).toFixed(1);
  const y = (/** @type {number} */ value) => (HIGH - (value * HIGH) / most).toFixed(1);
  const points = (/** @type {Series} */ { of }) => rows.flatMap((row, at) => [`${x(at)},${y(of(row))}`, `${x(at + 1)},${y(of(row))}`]).join(" ");
  const last = rows.at(-1);
  return h("figure", { class: "chart" },
    h("figcaption", null, label),
    h("div", { class: "plot" },
      h("span", { class: "muted" }, show(most)),
      h("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
        [0.25, 0.5, 0.75].map((part) => h("line", { key: part, class: "grid", x1: 0, x2: WIDE, y1: part * HIGH, y2: part * HIGH })),
        series.map((one) => h("polyline", { key: one.name, class: one.class, points: points(one) }))),
      h("span", { class: "muted" }, `0 to ${rows.length} s`)),
    h("ul", { class: "plain legend" }, series.map((one) => h("li", { key: one.name },
      h("svg", { class: "sample", viewBox: "0 0 28 8", "aria-hidden": "true", focusable: "false" }, h("line", { class: one.class, x1: 0, x2: 28, y1: 4, y2: 4 })),
      `${one.name}: ${last ? show(one.of(last)) : "none yet"} in the last second, at most ${show(Math.max(0, ...rows.map(one.of)))}`))));
}
