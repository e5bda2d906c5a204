// Puts what is built in the place of the source: node --import ./tests/support/dist.ts --test ...
// The build shortens names; what works in the source works there, too.
import { registerHooks } from "node:module";

const entry = /\/packages\/live\/src\/((?:replica\/|offline\/)?index)\.ts$/;

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    const name = entry.exec(found.url)?.[1];
    if (!name) return found;
    return { ...found, url: found.url.replace(entry, `/packages/live/dist/${name}.js`), format: "module" };
  },
});
