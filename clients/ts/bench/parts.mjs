// Where the kilobytes of the transport are: how much less its bundle weighs without each part, whose
// functions are then missing. Parts share what gzip finds in several, so the sum is less than the whole.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const folder = fileURLToPath(new URL("..", import.meta.url));
const parts = {
  "watches: answers that go on, asked again, polled, large ones": ["transport/watch", "transport/watches", "transport/large"],
  "socket: dials, backoff, page life, timers, credentials": ["socket/socket", "socket/backoff", "socket/credentials", "socket/dial", "socket/wake", "socket/state"],
  "items and credit: bodies over 16 KiB, streams": ["session/stream", "wire/items"],
  "sending: order, bounds, commands, deadlines, cancelling": ["session/caller", "session/commands", "session/methods"],
  "resuming after a lost connection or session": ["session/resume", "session/again"],
  "unary calls, errors, headers": ["transport/unary", "transport/errors", "transport/headers", "transport/method"],
  "metadata and the table of header names": ["wire/metadata"],
  "answers and what they may not be": ["session/answers", "session/dispatch"],
  "the handshake": ["wire/hello"],
  "keep-alive, waking": ["session/alive"],
};

async function weigh(without) {
  const names = readFileSync(`${folder}internal-names.txt`, "utf8").trim().split(/\s+/);
  const cut = {
    name: "cut",
    setup(own) {
      own.onResolve({ filter: /\.ts$/ }, ({ path, kind }) => (kind === "dynamic-import" ? { path, external: true } : undefined));
      own.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        if (!without.some((name) => path.endsWith(`/src/${name}.ts`))) return undefined;
        const source = readFileSync(path, "utf8");
        const missing = [...source.matchAll(/^export (?:async )?(?:function\*?|class|const) (\w+)/gm)];
        const contents = missing.map(([, name]) => `export const ${name}: any = (globalThis as any).z;`);
        const passedOn = source.match(/^export \* from .*/gm) ?? [];
        return { contents: [...contents, ...passedOn].join("\n"), loader: "ts", resolveDir: path.replace(/\/[^/]*$/, "") };
      });
    },
  };
  const { outputFiles } = await build({
    entryPoints: [`${folder}packages/live/src/core.ts`], bundle: true, minify: true, format: "esm", target: "es2022",
    write: false, packages: "external", platform: "neutral", plugins: [cut],
    mangleProps: new RegExp(`^(${names.join("|")})$`),
  });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length / 1000;
}

export async function weighParts() {
  const whole = await weigh([]);
  const without = {};
  for (const [name, files] of Object.entries(parts)) without[name] = whole - (await weigh(files));
  return { whole, without };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(await weighParts());
