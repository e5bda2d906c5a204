// Bun and Deno: npm ci here first. `make proof` runs it.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { start } from "../../bench/server.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const server = await start(here("../../../../target/debug/live-client-server"));
const runtimes = {
  "node_modules/.bin/bun": ["smoke.mjs"],
  "node_modules/.bin/deno": ["run", "--allow-all", "--node-modules-dir=manual", "smoke.mjs"],
};
for (const [program, words] of Object.entries(runtimes)) {
  const said = execFileSync(here(program), [...words, server.url], { cwd: here("."), encoding: "utf8", timeout: 60_000 }).trim();
  if (said !== "a call, 3 ticks, a watch") throw new Error(`${program} said ${said}`);
  console.log(`${program}: ${said}`);
}
await server.stop();
