// Each package as a user gets it: linted, its types resolved, packed, installed into an empty folder,
// where the code of the guide is generated, compiled and bundled.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { build } from "esbuild";

const packages = ["live", "react", "tanstack-query"];
const run = (program, args, cwd = ".") =>
  execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
const bin = (name) => `node_modules/.bin/${name}`;

const folder = mkdtempSync(join(tmpdir(), "tidewire-packages-"));
try {
  const tarballs = {};
  for (const name of packages) {
    const [{ filename }] = JSON.parse(run("npm", ["pack", `./packages/${name}`, "--json", "--pack-destination", folder]));
    const tarball = join(folder, filename);
    run(bin("publint"), ["--strict", tarball]);
    run(bin("attw"), ["--profile", "esm-only", tarball]);
    tarballs[`@tidewire/${name}`] = `file:${tarball}`;
    console.log(`${name}: publint and attw have nothing to say`);
  }
  // Peers at the versions of the tests; what is in npm's cache is taken from it.
  const { devDependencies: versions } = JSON.parse(readFileSync("package.json", "utf8"));
  const peers = ["@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-query", "@connectrpc/connect-web", "@tanstack/react-query", "react", "react-dom"];
  const tools = ["@bufbuild/buf", "@bufbuild/protoc-gen-es", "@types/react", "@types/react-dom", "typescript"];
  const dependencies = { ...tarballs, ...Object.fromEntries([...peers, ...tools].map((name) => [name, versions[name]])) };
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module", dependencies }));
  run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts"], folder);
  const program = `
    import { createLiveTransport, isOutcomeUnknown } from "@tidewire/live";
    import { createLiveClient } from "@tidewire/live/replica";
    import { useQuery } from "@tidewire/react";
    import { withQueryClient } from "@tidewire/tanstack-query";
    const transport = createLiveTransport({ baseUrl: "http://127.0.0.1:9" });
    const client = createLiveClient(transport);
    for (const one of [client.query, useQuery, withQueryClient, isOutcomeUnknown]) if (typeof one !== "function") throw one;
    console.log(transport.connection.getSnapshot().status);
  `;
  writeFileSync(join(folder, "program.js"), program);
  const said = run(process.execPath, ["program.js"], folder).trim();
  if (said !== "idle") throw new Error(`the program said ${said}`);
  console.log("installed into an empty folder, imported, run");

  const guide = readFileSync("../../docs/guide/browser.md", "utf8");
  mkdirSync(join(folder, "src"));
  symlinkSync(resolve("../.."), join(folder, "tidewire"));
  for (const [, name, code] of guide.matchAll(/^```(?:tsx?|yaml) (\S+)\n(.*?)^```$/gms)) {
    writeFileSync(join(folder, name.endsWith(".yaml") ? "" : "src", name), code);
  }
  const [generate] = /^mkdir -p proto\n.*?(?=^```$)/ms.exec(guide);
  run("bash", ["-e", "-c", generate], folder);
  const compilerOptions = {
    target: "ES2022", lib: ["ES2022", "DOM", "DOM.Iterable"], module: "ESNext", moduleResolution: "bundler",
    jsx: "react-jsx", strict: true, noEmit: true, allowImportingTsExtensions: true,
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["src"] }));
  run("npx", ["tsc"], folder);
  const entry = join(folder, "src/main.tsx");
  await build({ entryPoints: [entry], bundle: true, splitting: true, format: "esm", outdir: join(folder, "out"), jsx: "automatic", logLevel: "error" });
  console.log("the guide's code is generated, compiled and bundled there");
} finally {
  rmSync(folder, { recursive: true });
}
