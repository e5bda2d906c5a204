// Puts React 18 in the place of 19: node --import ./tests/support/react18.ts --test tests/react.test.ts
import { createRequire, registerHooks } from "node:module";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(new URL("../react18/package.json", import.meta.url));
const names = ["react", "react/jsx-runtime", "react-dom", "react-dom/client", "react-dom/server", "react-dom/test-utils"];
// Looked up before the hook is there, which would be asked for these, too.
const urls = new Map(names.map((name) => [name, pathToFileURL(resolve(name)).href]));

registerHooks({
  resolve(specifier, context, next) {
    const url = urls.get(specifier);
    return url ? { url, format: "commonjs", shortCircuit: true } : next(specifier, context);
  },
});
