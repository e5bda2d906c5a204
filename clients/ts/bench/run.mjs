// The bars of the browser client, beside its peers: npm ci here and in .., npm run build and npm run generate
// there, cargo build --release --package live-client-server; then: npm run bench [-- ROUNDS]. It writes
// bench-runs/live/typescript.{json,md}. Rounds go around the peers, so that what else the machine does
// meets all alike.
import { execFile, execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { cpus, loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { bundle, sizesOfPackages } from "../sizes.mjs";
import { weighParts } from "./parts.mjs";
import { table } from "./report.mjs";
import { start } from "./server.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const ROUNDS = Number(process.argv[2] ?? 3);
const SECONDS = 2;
const program = process.env.SERVER ?? here("../../../target/release/live-client-server");
const run = promisify(execFile);
const env = { ...process.env, NODE_ENV: "production" };
const child = async (...args) => JSON.parse((await run(process.execPath, args, { cwd: here("."), env, maxBuffer: 1e7 })).stdout);
const production = { "process.env.NODE_ENV": '"production"' };

/** What each round measures: a name, and a function that gives figures. */
const figures = {};
const note = (name, figure) => {
  (figures[name] ??= []).push(figure);
  console.log(`${name}: ${JSON.stringify(figure)}`);
};

const browserOf = async () => {
  const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic"] });
};

const { outputFiles } = await build({
  entryPoints: [here("page.mjs")], bundle: true, format: "esm", write: false, minify: true, define: production,
});
const files = createServer(({ url }, response) => {
  response.setHeader("content-type", url === "/page.js" ? "text/javascript" : "text/html");
  response.end(url === "/page.js" ? outputFiles[0].contents : '<script type="module" src="/page.js"></script>');
});
await new Promise((resolve) => files.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${files.address().port}`;
// Hits run as browsers run them: bundled for production.
await build({
  entryPoints: [here("hits.mjs")], outfile: here(".hits.mjs"), bundle: true, platform: "node", format: "esm", define: production,
});

const tidewire = await start(program, { TIDEWIRE_CORS_ORIGINS: origin });
const trpc = await start(process.execPath, {}, [here("trpc-server.mjs")]);
const addressOf = (peer) => (peer.startsWith("tRPC") ? trpc.url : tidewire.url);
const loads = [];
for (let round = 0; round < ROUNDS; round++) {
  loads.push(loadavg()[0]);
  for (const peer of ["live", "live, full path", "connect-web (fetch)", "connect-node (HTTP/2)", "tRPC (WebSocket)"]) {
    note(`Node, ${peer}`, await child("calls.mjs", peer, addressOf(peer), `${SECONDS}`));
  }
  const browser = await browserOf();
  for (const peer of ["live", "connect-web (fetch)", "tRPC (WebSocket)"]) {
    const page = await browser.newPage();
    await page.goto(origin);
    await page.waitForFunction("globalThis.run");
    note(`Chromium, ${peer}`, await page.evaluate(([one, url, seconds]) => globalThis.run(one, url, seconds), [peer, addressOf(peer), SECONDS]));
    await page.close();
  }
  await browser.close();
  note("hits", await child(".hits.mjs"));
  note("10,000 queries, live", await child("--expose-gc", "watches.mjs", "live", program));
  note("10,000 queries, TanStack Query over connect-web", await child("--expose-gc", "watches.mjs", "polling", program));
}
loads.push(loadavg()[0]);
await Promise.all([tidewire.stop(), trpc.stop()]);
files.close();

const peers = {
  "@connectrpc/connect-web": 'export { createConnectTransport } from "@connectrpc/connect-web"',
  "@tanstack/query-core": 'export { QueryClient, QueryObserver } from "@tanstack/query-core"',
  "@connectrpc/connect-query": 'export * from "@connectrpc/connect-query"',
  "@trpc/client, wsLink": 'export { createTRPCClient, createWSClient, wsLink } from "@trpc/client"',
  convex: 'export { ConvexReactClient, useQuery, useMutation } from "convex/react"',
  "@rocicorp/zero": 'export { Zero } from "@rocicorp/zero"',
};
const external = ["react", "react-dom", "@bufbuild/*", "@connectrpc/connect", "@connectrpc/connect/*", "@tanstack/react-query"];
const peerSizes = {};
for (const [name, entry] of Object.entries(peers)) {
  peerSizes[name] = await bundle(entry, name === "@connectrpc/connect-query" ? [...external, "@tanstack/*"] : external, here("."));
}
const machine = {
  cpu: cpus()[0].model, cores: cpus().length, node: process.version, rounds: ROUNDS, loads,
  commit: execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim(),
  browser: execFileSync("chromium", ["--version"], { encoding: "utf8" }).trim(),
  versions: JSON.parse(readFileSync(here("package.json"), "utf8")).dependencies,
};
const result = { machine, figures, sizes: await sizesOfPackages(), parts: await weighParts(), peerSizes };
const target = here("../../../bench-runs/live/typescript");
writeFileSync(`${target}.json`, `${JSON.stringify(result, undefined, 1)}\n`);
writeFileSync(`${target}.md`, table(result));
console.log(`bench-runs/live/typescript.md is written`);
process.exit();
