// Builds what users install: declarations by tsc, then modules by esbuild, which shortens the names
// of internal properties (internal-names.txt), since no minifier of an application may do that.
// Source maps hold the source.
//
// Of `live`, what is in core.ts is one module. The other entries import it, and so does what is
// loaded when it is first used (`import()`).
import { execFileSync } from "node:child_process";
import { globSync, readFileSync, rmSync } from "node:fs";
import { basename, dirname, relative, resolve } from "node:path";
import { build } from "esbuild";
import { namesOfPeers } from "./check-names.mjs";

const builds = [
  { folder: "live", entries: ["core"] },
  { folder: "live", entries: ["index", "replica/index", "offline/index", "transport/stream", "transport/interceptors", "transport/fallback"] },
  { folder: "react", entries: ["index", "devtools"] },
  { folder: "tanstack-query", entries: ["index"] },
];
const names = readFileSync("internal-names.txt", "utf8").trim().split(/\s+/);
// The short names, the same in each build: the first, which is the largest, chooses them.
let short = {};

const folders = new Set(builds.map(({ folder }) => `packages/${folder}`));
for (const folder of folders) rmSync(`${folder}/dist`, { recursive: true, force: true });
for (const file of globSync("packages/*/*.tsbuildinfo")) rmSync(file);
execFileSync("node_modules/.bin/tsc", ["--build"], { stdio: "inherit" });
const refused = namesOfPeers(new Set(names), [...folders].map((folder) => `${folder}/tsconfig.json`));
if (refused.length) throw new Error(`internal-names.txt has names of peers:\n${refused.join("\n")}`);
for (const folder of folders) for (const file of globSync(`${folder}/dist/**/*.js`)) rmSync(file);
for (const { folder, entries } of builds) {
  const source = resolve(`packages/${folder}/src`);
  const { mangleCache } = await build({
    entryPoints: entries.map((entry) => `${source}/${entry}.ts`),
    outdir: `packages/${folder}/dist`,
    outbase: source,
    bundle: true,
    splitting: entries.length > 1,
    packages: "external",
    platform: "neutral", // Leaves `process.env.NODE_ENV` to the bundler of the application.
    format: "esm",
    target: "es2022",
    // Fields that a constructor sets are not set before to undefined: smaller, and nothing else.
    tsconfigRaw: { compilerOptions: { useDefineForClassFields: false } },
    chunkNames: "shared/[name]",
    sourcemap: true,
    minifySyntax: true,
    mangleProps: new RegExp(`^(${names.join("|")})$`),
    mangleCache: short,
    logLevel: "warning",
    plugins: [{ name: "core", setup: (own) => core(own, source, entries) }],
  });
  short = mangleCache;
}

/** Keeps apart what is in core.ts, what the other entries bring, and what is loaded later. */
function core(own, source, entries) {
  own.onResolve({ filter: /^\.\.?\/.*\.ts$/ }, ({ path, resolveDir, kind }) => {
    const file = relative(source, resolve(resolveDir, path));
    if (kind === "dynamic-import") return { path: `./${file.replace(/ts$/, "js")}`, external: true };
    // Files of constants alone are put where they are used.
    if (/^wire\/(code|kinds|tags)\.ts$/.test(file)) return undefined;
    const isShared = /^(core|wire\/|session\/|socket\/|transport\/)/.test(file) && !entries.includes(file.slice(0, -3));
    if (entries.includes("core") || !isShared) return undefined;
    const from = entries.find((entry) => resolve(source, dirname(entry)) === resolveDir) ?? basename(resolveDir);
    const up = relative(`${source}/${dirname(from)}`, `${source}/core.js`);
    return { path: up.startsWith(".") ? up : `./${up}`, external: true };
  });
}
