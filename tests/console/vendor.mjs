// Makes crates/console/web/preact.js of the pinned packages; with --check, says whether it is what they make.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = fileURLToPath(new URL("../../crates/console/web/", import.meta.url));
const { version } = JSON.parse(readFileSync(new URL("node_modules/preact/package.json", import.meta.url), "utf8"));
const { outputFiles } = await build({
  stdin: { contents: 'export { h, render, Fragment } from "preact"; export * from "preact/hooks";', resolveDir: import.meta.dirname },
  bundle: true, format: "esm", target: "es2022", minify: true, write: false, legalComments: "none",
  banner: { js: `/* Preact ${version}, MIT: see preact.LICENSE. Made by tests/console/vendor.mjs. */` },
});
const made = { "preact.js": Buffer.from(outputFiles[0].contents), "preact.LICENSE": readFileSync(new URL("node_modules/preact/LICENSE", import.meta.url)) };
for (const [name, bytes] of Object.entries(made)) {
  if (!process.argv.includes("--check")) writeFileSync(web + name, bytes);
  else if (!readFileSync(web + name).equals(bytes)) {
    console.error(`crates/console/web/${name} is not what the packages make; run npm run vendor in tests/console`);
    process.exitCode = 1;
  }
}
