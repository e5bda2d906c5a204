// The Markdown of a run: node report.mjs makes it again from the committed JSON.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { bars } from "../sizes.mjs";

const sorted = (values) => [...values].sort((one, other) => one - other);
const median = (values) => sorted(values)[(values.length - 1) >> 1];
const number = (value) => {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value.toFixed(value < 10 ? 2 : 1);
};
/** Median, and least to most. */
const spread = (values) => `${number(median(values))} (${number(sorted(values)[0])} to ${number(sorted(values).at(-1))})`;

export function table({ machine, figures, sizes, parts, peerSizes, alone }) {
  const of = (name, key) => figures[name].map((one) => one[key]);
  const lines = [];
  const rows = (head, all) => {
    lines.push("", `| ${head.join(" | ")} |`, `|${head.map((_, at) => (at ? "--:" : "---")).join("|")}|`);
    for (const row of all) lines.push(`| ${row.join(" | ")} |`);
  };
  const names = (place) => Object.keys(figures).filter((name) => name.startsWith(`${place}, `));
  const loads = machine.loads.map((load) => load.toFixed(1)).join(", ");
  lines.push(
    "# The browser client beside its peers",
    "",
    "Written by `clients/ts/bench/run.mjs` (`npm run bench` in `clients/ts`, see there); `report.mjs` makes this page of",
    "`typescript.json`. Each figure is the median of the rounds, and least to most. Rounds go around the peers.",
    "",
    `Commit ${machine.commit}, ${machine.rounds} rounds, ${machine.cores} cores of ${machine.cpu}, Node ${machine.node}, ${machine.browser}.`,
    `**The machine was busy with other work**: load averages before each round and at the end ${loads}. Ratios mean`,
    "something, times of one line alone do not.",
    "",
    "The server of live, connect-web and connect-node is one Rust program (`live-client-server`, release build) on the same",
    "machine, so that its work is in the calls a second; tRPC's is Node's. Question and answer are the same.",
    "",
    "## Calls, 100 in flight",
  );
  for (const place of ["Node", "Chromium"]) {
    const live = median(of(`${place}, live`, "rate"));
    rows(
      [place, "calls/s", "live is so many times as fast", ...(place === "Node" ? ["client's CPU, µs a call", "times that of live"] : [])],
      names(place).map((name) => {
        const rate = of(name, "rate");
        const row = [name.slice(place.length + 2), spread(rate), number(live / median(rate))];
        if (place === "Node") row.push(spread(of(name, "cpu")), number(median(of(name, "cpu")) / median(of("Node, live", "cpu"))));
        return row;
      }),
    );
  }
  lines.push("", "Bars: in Node at least 100,000 calls/s, 30 × fetch, 25 × HTTP/2, at most 8 µs (full path 20 µs) of CPU a call; in", "Chromium at least 40,000 and 50 × fetch.");
  if (alone) {
    lines.push("", `By itself, with a server of a few lines in the same process (\`bench/alone.mjs\`, right after; load ${alone.loads.map((load) => load.toFixed(1)).join(", ")}):`);
    const all = Object.entries(alone.figures);
    rows(["Node, the client alone, 100 in flight", "calls/s", "CPU, µs a call"], all.map(([name, each]) => [
      name.replace("100 in flight, ", ""), spread(each.map(({ rate }) => rate)), spread(each.map(({ cpu }) => cpu)),
    ]));
  }
  lines.push("", "## What is there already", "", "Read from the page's memory; bundled for production, as a browser runs it.");
  const hits = { handle: ["by handle", "20 ns"], object: ["by the same input object", "50 ns"], input: ["by input", "2.5 µs"], "connect-query": ["connect-query: key and `getQueryData`", ""] };
  rows(["hit", "ns", "bar"], Object.entries(hits).map(([key, [name, bar]]) => [name, spread(of("hits", key)), bar]));
  const [live, polling] = ["10,000 queries, live", "10,000 queries, TanStack Query over connect-web"];
  lines.push("", "## Ten thousand queries on one page", "", "TanStack Query shows a change by asking all again; live by being told. Against the same server.");
  const row = (name, key, bar, other) => [name, spread(of(live, key)), bar, other ? spread(of(polling, key)) : "", other ? number(median(of(polling, key)) / median(of(live, key))) : ""];
  rows(["", "live", "bar", "TanStack Query, connect-web", "times that of live"], [
    row("open, ms", "open", "1,000", true),
    row("one write changes all, ms", "change", "150", true),
    row("tasks in which views are told of that", "commits", "1"),
    row("heap a query beyond its message, bytes", "bytes", "800", true),
    row("resumed after a cut, ms", "resume", "200"),
    row("answers sent again by that", "resumedAnswers", "0"),
    row("asked again of a server that started anew, ms", "restart", "12,000"),
  ]);
  lines.push("", "## Sizes", "", "kB, minified and gzipped; peers (protobuf, connect, React, query-core) left out but in `app`, which is generated", "code, client and transport. *Later* is loaded when it is first used: streams, interceptors, HTTP in place of WebSockets.");
  rows(["", "kB", "bar", "later"], Object.entries(sizes).map(([name, { size, later }]) => [name, size.toFixed(2), bars[name] ?? "", later ? later.toFixed(1) : ""]));
  lines.push(
    "",
    "The bars of `live`, `replica` and `app` do not hold. The transport keeps each promise of the protocol's caller: what follows is",
    "what its bundle would lose without each part, and none of them alone, nor two, is the difference. What could go has gone:",
    "names of internal properties are shortened in the build, streams, interceptors and HTTP are loaded when they are used.",
  );
  const parted = Object.entries(parts.without).sort(([, one], [, other]) => other - one);
  rows([`of ${parts.whole.toFixed(2)} kB`, "kB less without it"], parted.map(([name, size]) => [name, size.toFixed(2)]));
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`).join(", ");
  lines.push("", `Clients of others, with what they need but React, protobuf and connect (${versions}):`);
  rows(["", "kB"], Object.entries(peerSizes).map(([name, { size, later }]) => [name, (size + later).toFixed(1)]));
  return `${lines.join("\n")}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const target = fileURLToPath(new URL("../../../bench-runs/live/typescript", import.meta.url));
  writeFileSync(`${target}.md`, table(JSON.parse(readFileSync(`${target}.json`, "utf8"))));
}
