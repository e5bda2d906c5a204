// A page for React, without a browser. Imported before React and the testing library.
import { Window } from "happy-dom";

const window = new Window({ url: "http://page.test/" });
const names = ["document", "HTMLElement", "Element", "Node", "Text", "Event", "MutationObserver", "HTMLIFrameElement", "getComputedStyle", "DocumentFragment", "SVGElement"];
for (const name of names) {
  Object.defineProperty(globalThis, name, { value: (window as never)[name], configurable: true, writable: true });
}
Object.defineProperty(globalThis, "window", { value: globalThis, configurable: true, writable: true });
Object.defineProperty(globalThis, "IS_REACT_ACT_ENVIRONMENT", { value: true, configurable: true, writable: true });
for (const name of ["addEventListener", "removeEventListener", "dispatchEvent"] as const) {
  (globalThis as any)[name] = (window as any)[name].bind(window);
}
