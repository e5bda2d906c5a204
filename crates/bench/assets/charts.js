// Charts of reports: what `report.html` and `compare.html` share. The page has an element `charts`.
"use strict";
const host = document.getElementById("charts");
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const time = s => s == null ? "–" : s >= 1 ? +s.toPrecision(3) + " s" : s >= 1e-3 ? +(s * 1e3).toPrecision(3) + " ms" : +(s * 1e6).toPrecision(3) + " µs";
const count = v => v == null ? "–" : v >= 1e6 ? +(v / 1e6).toPrecision(3) + " M" : v >= 1e4 ? +(v / 1e3).toPrecision(3) + " k" : "" + +v.toPrecision(4);
const size = v => v == null ? "–" : +(v / 1048576).toPrecision(3) + " MiB";
const live = [];

function chart(title, x, series, options) {
  const box = document.createElement("div");
  box.className = "chart";
  const head = document.createElement("h2");
  head.textContent = title;
  box.append(head);
  (options.host ?? host).append(box);
  const draw = width => {
    box.querySelector(".uplot")?.remove();
    const axis = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") }, font: "12px system-ui" };
    const show = options.show ?? time;
    const decades = (u, splits) => splits.map(v => v != null && Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9 ? v : null);
    const sparse = log => log ? { filter: decades, grid: { ...axis.grid, filter: decades }, ticks: { ...axis.ticks, filter: decades } } : {};
    const right = series.some(one => one.right);
    // Rates on a logarithmic axis: 1, 2 and 5 of each decade, and no empty decade after the last.
    const rates = options.logX && !options.xSplits;
    const steps = (u, axis, lo, hi) => {
      const splits = [];
      for (let decade = 10 ** Math.floor(Math.log10(lo)); decade <= hi; decade *= 10)
        splits.push(...[1, 2, 5].map(one => one * decade).filter(one => one >= lo && one <= hi));
      return splits;
    };
    const all = { filter: (u, splits) => splits, grid: { ...axis.grid, filter: (u, splits) => splits }, ticks: { ...axis.ticks, filter: (u, splits) => splits } };
    const plot = new uPlot({
      width: width ?? box.clientWidth, height: 250, cursor: { sync: options.sync ? { key: options.sync } : undefined },
      scales: { x: { time: false, distr: options.logX ? 3 : 1, range: rates ? (u, lo, hi) => [lo * 0.9, hi * 1.1] : options.xRange ? () => options.xRange : undefined }, y: { distr: options.log ? 3 : 1, range: options.log ? undefined : (u, lo, hi) => [0, (hi || 1) * 1.08] },
        right: { range: (u, lo, hi) => [0, (hi || 1) * 1.15] } },
      axes: [
        { ...axis, label: options.xLabel, labelSize: 20, labelFont: "12px system-ui", values: (u, ticks) => ticks.map(t => t == null ? "" : (options.xTick ?? options.xShow ?? count)(t)), ...(options.xSplits || rates ? { splits: options.xSplits ?? steps, ...all } : {}) },
        { ...axis, ...sparse(options.log), size: 66, values: (u, ticks) => ticks.map(t => t == null ? "" : show(t)) },
        ...(right ? [{ ...axis, scale: "right", side: 1, size: 84, incrs: Array.from({ length: 34 }, (_, power) => 2 ** (power + 10)), grid: { show: false }, values: (u, ticks) => ticks.map(t => size(t)) }] : []),
      ],
      series: [{ label: options.xLabel, value: (u, v) => v == null ? "–" : (options.xShow ?? count)(v) },
        ...series.map(one => ({ label: one.name, stroke: css(one.color), width: 2, dash: one.dash, scale: one.right ? "right" : "y", spanGaps: true, points: { show: x.length < 40, size: 5 },
          value: (u, v) => (one.right ? size : show)(v) }))],
      hooks: { draw: [u => (options.marks ?? [options.mark]).forEach((at, line) => mark(u, at, line))] },
    }, [x, ...series.map(one => one.values.map(v => options.log && !(v > 0) ? null : v))], box);
    return plot;
  };
  live.push(draw);
}

function mark(u, at, line) {
  if (at == null) return;
  const c = u.ctx, px = u.valToPos(at.x, "x", true);
  c.save();
  c.strokeStyle = c.fillStyle = css(at.color ?? "--bad");
  c.setLineDash([6, 4]);
  c.lineWidth = 2;
  c.beginPath(); c.moveTo(px, u.bbox.top); c.lineTo(px, u.bbox.top + u.bbox.height); c.stroke();
  c.font = `${12 * devicePixelRatio}px system-ui`;
  c.textAlign = px > u.bbox.left + u.bbox.width * 0.7 ? "right" : "left";
  c.fillText(at.text, px + (c.textAlign === "left" ? 6 : -6) * devicePixelRatio, u.bbox.top + (14 + 15 * line) * devicePixelRatio);
  c.restore();
}

// The histograms of several runs as one.
function together(summaries) {
  const all = new Map();
  for (const [value, n] of summaries.flatMap(one => one.histogram)) all.set(value, (all.get(value) ?? 0) + n);
  return { histogram: [...all].sort((a, b) => a[0] - b[0]) };
}

function percentiles(summary) {
  const total = summary.histogram.reduce((sum, [, n]) => sum + n, 0);
  let seen = 0;
  return summary.histogram.map(([value, n]) => { seen += n; return [1 / Math.max(1 - seen / total, 1 / (2 * total)), value / 1e9]; });
}


// Drawn when every box is in place: the grid decides how wide each is.
// Half a sheet of paper is narrower than the grid of a screen, which it still is before printing.
const PAPER = 340, redraw = width => live.forEach(draw => draw(width));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
let timer; addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(redraw, 100); });
addEventListener("beforeprint", () => redraw(PAPER)); addEventListener("afterprint", () => redraw());
