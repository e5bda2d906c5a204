// The code of the guide compiles.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

test("the code of browser.md and browser-migrating.md compiles", () => {
  const folder = here(".guide/");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  let count = 0;
  for (const page of ["browser.md", "browser-migrating.md"]) {
    const text = readFileSync(here(`../../../docs/guide/${page}`), "utf8");
    for (const [, name, code] of text.matchAll(/^```tsx? (\S+)\n(.*?)^```$/gms)) {
      writeFileSync(`${folder}${name}`, code!.replaceAll('"./gen/', '"../gen/'));
      count++;
    }
  }
  writeFileSync(`${folder}tsconfig.json`, JSON.stringify({
    extends: "../tsconfig.json",
    compilerOptions: { jsx: "react-jsx" },
    include: ["*.ts", "*.tsx"],
  }));
  const { stdout, status } = spawnSync(here("../node_modules/.bin/tsc"), ["--project", folder], { encoding: "utf8", timeout: 60_000 });
  assert.equal(status, 0, stdout);
  assert.equal(count, 10);
});
