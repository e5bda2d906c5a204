// The client by itself, its server a few lines within the same process (tests/bench.ts), for whom bars of
// CPU time are meant: node bench/alone.mjs [ROUNDS], after run.mjs, whose page it completes.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { table } from "./report.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const target = here("../../../bench-runs/live/typescript");
const result = JSON.parse(readFileSync(`${target}.json`, "utf8"));
result.alone = { loads: [], figures: {} };
for (let round = 0; round < Number(process.argv[2] ?? 3); round++) {
  result.alone.loads.push(loadavg()[0]);
  const env = { ...process.env, NODE_ENV: "production" };
  const said = execFileSync(process.execPath, ["--expose-gc", here("../tests/bench.ts")], { encoding: "utf8", env });
  for (const [, name, rate, cpu] of said.matchAll(/^(.*?) +(\d+) calls\/s, ([\d.]+) µs/gm)) {
    (result.alone.figures[name] ??= []).push({ rate: Number(rate), cpu: Number(cpu) });
  }
}
writeFileSync(`${target}.json`, `${JSON.stringify(result, undefined, 1)}\n`);
writeFileSync(`${target}.md`, table(result));
