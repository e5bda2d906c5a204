// The types of preact.js; `npm run types` in tests/console has the package that says them.
export { h, render, Fragment } from "preact";
export type { ComponentChildren, VNode, JSX } from "preact";
export * from "preact/hooks";
