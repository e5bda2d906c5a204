// Makes ../tour/live.js, which is committed: `make demo` needs Rust alone. Run it where clients/ts
// is installed and built; with `--check` it says whether the committed file is what it would make.
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const clients = here("../../../clients/ts");
const { build } = createRequire(`${clients}/package.json`)("esbuild");

rmSync(here(".protos"), { recursive: true, force: true });
for (const name of ["google", "buf", "tidewire"]) {
  cpSync(here(`../../../crates/proto/proto/${name}`), here(`.protos/${name}`), { recursive: true });
}
cpSync(here("../proto/contacts"), here(".protos/contacts"), { recursive: true });
// Rules and routes are the server's: the page has no use for their descriptors.
const template = {
  version: "v2",
  clean: true,
  plugins: [{ local: `${clients}/node_modules/.bin/protoc-gen-es`, out: ".gen", opt: ["target=js", "import_extension=js"] }],
};
const excluded = ["google.api.http", "buf.validate", "tidewire.v1.method"].flatMap((name) => ["--exclude-type", name]);
const buf = ["generate", ".protos", "--path", ".protos/contacts", "--template", JSON.stringify(template), ...excluded];
execFileSync(`${clients}/node_modules/.bin/buf`, buf, { cwd: here("."), stdio: "inherit" });

const { outputFiles } = await build({
  entryPoints: [here("live.js")],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  write: false,
  define: { "process.env.NODE_ENV": '"production"' },
  nodePaths: [`${clients}/node_modules`],
  banner: { js: "// Made by examples/contacts/web/build.mjs of live.js beside it, @tidewire/live and its peers." },
  legalComments: "none",
});
const made = outputFiles[0].text;
const file = here("../tour/live.js");
if (!process.argv.includes("--check")) {
  writeFileSync(file, made);
  console.log(`tour/live.js has ${made.length} bytes`);
} else if (readFileSync(file, "utf8") !== made) {
  console.error("examples/contacts/tour/live.js is not current: cd clients/ts && npm run build && npm run contacts");
  process.exitCode = 1;
} else console.log("examples/contacts/tour/live.js is current");
