// Components: what they show, how often they render, and what StrictMode, suspense and errors do.
import "./support/dom.ts";
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { Code, createRouterTransport } from "@connectrpc/connect";
import { cleanup, render } from "@testing-library/react";
import { HydrationBoundary, LiveProvider, skipToken, useComputed, useConnectionState, useMutation, useQuery, useSuspenseQueries, useSuspenseQuery, useLiveClient } from "@tidewire/react";
import { LiveDevtools } from "@tidewire/react/devtools";
import * as React from "react";
import { hydrateRoot } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { createLiveClient, type LiveClient } from "../packages/live/src/replica/index.ts";
import { BehaviourService, type LookReply } from "./gen/tidewire/test/v1/behaviour_pb.js";
import { withClock, withoutClock, World } from "./support/world.ts";

const { look, echo } = BehaviourService.method;
const { createElement: h, StrictMode, Suspense, act, useState, startTransition } = React;

beforeEach(withClock);
afterEach(() => {
  mock.restoreAll();
  cleanup();
  withoutClock();
});

test("the version of React", () => {
  assert.match(React.version, process.env.REACT === "18" ? /^18\./ : /^19\./);
});

class Page {
  readonly world: World;
  readonly client: LiveClient;
  private view: ReturnType<typeof render> | undefined;

  constructor(...options: ConstructorParameters<typeof World>) {
    this.world = new World(...options);
    this.client = createLiveClient(this.world.transport);
  }

  show(children: React.ReactNode, isStrict = false): void {
    const tree = h(LiveProvider, { client: this.client }, children);
    const whole = isStrict ? h(StrictMode, null, tree) : tree;
    if (this.view) this.view.rerender(whole);
    else this.view = render(whole);
  }

  get text(): string {
    return this.view!.container.textContent ?? "";
  }

  hide(): void {
    this.view!.unmount();
  }

  settle(action: () => void = () => {}): Promise<void> {
    return act(async () => {
      action();
      await this.world.settle();
    });
  }

  pass(milliseconds: number): Promise<void> {
    return act(() => this.world.pass(milliseconds));
  }
}

function Value({ name, count }: { name: string; count?: { renders: number } }) {
  const { status, data, error, isStale } = useQuery(look, { key: name });
  if (count) count.renders++;
  if (status === "error") return `error ${error!.code}`;
  return status === "pending" ? "…" : `[${data!.value}${isStale ? "?" : ""}]`;
}

describe("useQuery", () => {
  test("it shows the answer, and each that follows", async () => {
    const page = new Page();
    page.show(h(Value, { name: "a" }));
    assert.equal(page.text, "…");
    await page.settle();
    assert.equal(page.text, "[]");
    await page.settle(() => page.world.server.set("a", "1"));
    assert.equal(page.text, "[1]");
  });

  test("in StrictMode there is one request and one watch", async () => {
    const page = new Page();
    page.show([h(Value, { name: "a", key: 1 }), h(Value, { name: "a", key: 2 })], true);
    await page.settle();
    assert.equal(page.text, "[][]");
    assert.deepEqual(page.world.server.requests, ["Look"]);
    assert.equal(page.world.network.dials, 1);
  });

  test("unmounted and mounted again before it is let go, it is there at once", async () => {
    const page = new Page();
    page.show(h(Value, { name: "a" }));
    await page.settle();
    page.show(null);
    await page.pass(1_000);
    page.show(h(Value, { name: "a" }));
    assert.equal(page.text, "[]");
    page.hide();
    await page.pass(11_000);
    assert.deepEqual(page.world.server.requests, ["Look"]);
  });

  test("unmounted while its request is on the way", async () => {
    const page = new Page();
    page.show(h(Value, { name: "a" }));
    page.hide();
    await page.pass(11_000);
    assert.equal(page.world.status, "open");
  });

  test("what one message of the server changed is one render, without tearing", async () => {
    const page = new Page();
    const seen: string[] = [];
    let commits = 0;
    function Both() {
      const [a, b] = [useQuery(look, { key: "a" }), useQuery(look, { key: "b" })];
      seen.push(`${a.data?.value}-${b.data?.value}`);
      React.useEffect(() => void commits++);
      return null;
    }
    page.show(h(Both));
    await page.settle();
    const { server } = page.world;
    server.values.set("a", "1");
    server.values.set("b", "1");
    const before = commits;
    await page.settle(() => server.set("c", "x"));
    assert.ok(!seen.includes("1-") && !seen.includes("-1"), seen.join());
    assert.equal(seen.at(-1), "1-1");
    assert.equal(commits - before, 1);
  });

  test("with select a component renders when its part changes", async () => {
    const page = new Page();
    let renders = 0;
    function Length() {
      renders++;
      const { data } = useQuery(look, { key: "a" }, { select: lengthOf });
      return `${data}`;
    }
    page.show(h(Length));
    await page.settle();
    await page.settle(() => page.world.server.set("a", "x"));
    const before = renders;
    await page.settle(() => page.world.server.set("a", "y"));
    assert.equal(renders, before);
    await page.settle(() => page.world.server.set("a", "yy"));
    assert.equal(page.text, "2");
  });

  test("skipToken asks nothing", async () => {
    const page = new Page();
    function Maybe({ name }: { name?: string }) {
      const { data, status } = useQuery(look, name === undefined ? skipToken : { key: name });
      return `${status} ${data?.value}`;
    }
    page.show(h(Maybe));
    await page.settle();
    assert.equal(page.text, "pending undefined");
    assert.deepEqual(page.world.server.requests, []);
    page.show(h(Maybe, { name: "a" }));
    await page.settle();
    assert.equal(page.text, "success ");
  });

  test("an input that changes in a transition keeps what is shown until the other is there", async () => {
    const page = new Page();
    page.world.server.values.set("a", "A").set("b", "B");
    let choose: (name: string) => void = () => {};
    function Chosen() {
      const [name, set] = useState("a");
      choose = (other) => startTransition(() => set(other));
      return h(Suspense, { fallback: "waiting" }, h(Shown, { name }));
    }
    function Shown({ name }: { name: string }) {
      return useSuspenseQuery(look, { key: name }).data.value;
    }
    page.show(h(Chosen));
    await page.settle();
    assert.equal(page.text, "A");
    await act(async () => choose("b"));
    assert.equal(page.text, "A", "no fallback in a transition");
    await page.settle();
    assert.equal(page.text, "B");
  });

  test("what is typed counts after a pause", async () => {
    const page = new Page();
    function Search({ text }: { text: string }) {
      return useQuery(look, { key: text }, { debounce: 300 }).data?.value ?? "…";
    }
    page.world.server.values.set("tea", "found tea");
    page.show(h(Search, { text: "" }));
    await page.settle();
    for (const text of ["t", "te", "tea"]) {
      page.show(h(Search, { text }));
      await page.pass(100);
    }
    assert.deepEqual(page.world.server.requests, ["Look"]);
    await page.pass(400);
    await page.settle();
    assert.equal(page.text, "found tea");
    assert.deepEqual(page.world.server.requests, ["Look", "Look"]);
  });

  test("a lost connection is shown as stale, and as current when it is confirmed", async () => {
    const page = new Page();
    page.show(h(Value, { name: "a" }));
    await page.settle();
    await act(async () => page.world.cut());
    assert.equal(page.text, "[?]");
    await page.pass(1_000);
    assert.equal(page.text, "[]");
  });
});

const lengthOf = ({ value }: LookReply) => value.length;

describe("suspense", () => {
  function Shown({ name }: { name: string }) {
    const { data, isStale } = useSuspenseQuery(look, { key: name });
    return `${data.value}${isStale ? "?" : ""}`;
  }

  test("it suspends until there are data, and never again", async () => {
    const page = new Page();
    page.show(h(Suspense, { fallback: "waiting" }, h(Shown, { name: "a" })));
    assert.equal(page.text, "waiting");
    await page.settle();
    assert.equal(page.text, "");
    await act(async () => page.world.cut());
    assert.equal(page.text, "?");
    await page.pass(1_000);
    assert.equal(page.text, "");
  });

  test("several are asked at once: no waterfall", async () => {
    const page = new Page();
    function Both() {
      const client = useLiveClient();
      const [a, b] = useSuspenseQueries([client.query(look, { key: "a" }), client.query(look, { key: "b" })]);
      return `${a.value}|${b.value}`;
    }
    page.show(h(Suspense, { fallback: "waiting" }, h(Both)));
    await act(async () => {
      await new Promise(setImmediate);
      page.world.network.socket!.open();
      await new Promise(setImmediate);
    });
    await page.settle();
    assert.equal(page.text, "|");
    assert.deepEqual(page.world.server.requests, ["Look", "Look"]);
  });

  test("an error goes to the boundary; reset asks again", async () => {
    const tokens = new Set<string>();
    const page = new Page({}, { tokens });
    class Boundary extends React.Component<{ children: React.ReactNode }, { error?: Error }> {
      override state: { error?: Error } = {};
      static getDerivedStateFromError(error: Error) {
        return { error };
      }
      override render() {
        return this.state.error ? `caught ${(this.state.error as never as { code: number }).code}` : this.props.children;
      }
    }
    let boundary: Boundary | null = null;
    const ref = (one: Boundary | null) => void (boundary = one);
    mock.method(console, "error", () => {});
    page.show(h(Boundary, { ref } as never, h(Suspense, { fallback: "waiting" }, h(Shown, { name: "a" }))));
    await page.settle();
    assert.equal(page.text, `caught ${Code.Unauthenticated}`);
    tokens.add("");
    await act(async () => {
      page.client.resetErrors();
      boundary!.setState({ error: undefined });
    });
    await page.settle();
    assert.equal(page.text, "");
  });

  test("a page that a server made is shown as it is, then confirmed", async () => {
    const router = createRouterTransport(({ service }) => service(BehaviourService, { look: () => ({ value: "1" }) }));
    const onServer = createLiveClient(router);
    await onServer.query(look, { key: "a" }).fetch();
    const page = new Page();
    page.world.server.values.set("a", "2");
    page.show(h(HydrationBoundary, { state: onServer.dehydrate() }, h(Suspense, { fallback: "waiting" }, h(Shown, { name: "a" }))));
    assert.equal(page.text, "1?");
    await page.settle();
    assert.equal(page.text, "2");
  });
});

describe("renders that are not what is shown in the end", () => {
  test("one that is thrown away leaves no watch behind", async () => {
    const page = new Page();
    let resolve!: () => void;
    const never = new Promise<void>((done) => (resolve = done));
    let isThrown = true;
    function Late() {
      useQuery(look, { key: "discarded" });
      if (isThrown) throw never;
      return null;
    }
    page.show(h(Suspense, { fallback: "waiting" }, h(Late)));
    await page.settle();
    isThrown = false;
    page.show("something else");
    resolve();
    await page.pass(11_000);
    assert.equal(page.text, "something else");
    assert.deepEqual(page.client.inspect(), []);
    assert.deepEqual(page.world.server.requests, []);
  });

  test("hydration finds what the server rendered, whatever came since, and then shows that", async () => {
    const router = createRouterTransport(({ service }) => service(BehaviourService, { look: () => ({ value: "1" }) }));
    const onServer = createLiveClient(router);
    await onServer.query(look, { key: "a" }).fetch();
    const state = onServer.dehydrate();
    const tree = (client: LiveClient) =>
      h(LiveProvider, { client }, h(HydrationBoundary, { state }, h("p", null, h(Value, { name: "a" }))));
    const container = document.createElement("div");
    document.body.append(container);
    container.innerHTML = renderToString(tree(onServer));
    assert.equal(container.textContent, "[1?]");
    const world = new World();
    world.server.values.set("a", "2");
    const errors = mock.method(console, "error", () => {});
    const client = createLiveClient(world.transport);
    const recovered: unknown[] = [];
    const root = await act(async () => hydrateRoot(container, tree(client), { onRecoverableError: (error) => recovered.push(error) }));
    assert.equal(container.textContent, "[1?]");
    await act(() => world.settle());
    assert.equal(container.textContent, "[2]");
    // The boundary renders again with the state that came with the page: nothing old comes back.
    await act(async () => root.render(tree(client)));
    assert.equal(container.textContent, "[2]");
    assert.deepEqual([recovered, errors.mock.callCount()], [[], 0]);
    await act(async () => root.unmount());
  });
});

describe("the other hooks", () => {
  test("useComputed", async () => {
    const page = new Page();
    function Sum({ names }: { names: string[] }) {
      const client = useLiveClient();
      const { data } = useComputed((get) => get.all(names.map((key) => client.query(look, { key }))).map((one) => one.value).join("+"), [names.join()]);
      return data ?? "…";
    }
    page.world.server.values.set("a", "1").set("b", "2");
    page.show(h(Sum, { names: ["a", "b"] }), true);
    await page.settle();
    assert.equal(page.text, "1+2");
    await page.settle(() => page.world.server.set("b", "3"));
    assert.equal(page.text, "1+3");
    page.show(h(Sum, { names: ["b"] }), true);
    await page.settle();
    assert.equal(page.text, "3");
  });

  test("useMutation: an edit is shown at once, and its outcome told", async () => {
    const page = new Page();
    let mutation = {} as ReturnType<typeof useMutation<typeof echo.input, typeof echo.output>>;
    function Editor() {
      const client = useLiveClient();
      const query = client.query(look, { key: "k" });
      mutation = useMutation(echo, {
        optimistic: (store, { text }) => store.set(query, { ...store.get(query)!, value: text!.split("=")[1]! }),
      });
      return mutation.status;
    }
    page.show([h(Value, { name: "k", key: 1 }), " ", h(Editor, { key: 2 })]);
    await page.settle();
    await act(async () => mutation.mutate({ text: "k=v" }));
    assert.equal(page.text, "[v] pending");
    await page.settle();
    assert.equal(page.text, "[v] success");
    await act(async () => {
      mutation.mutate({ text: "k=w" });
      await new Promise(setImmediate);
      page.world.network.socket!.deliver("toServer");
      page.world.server.restart();
      page.world.cut();
    });
    await page.pass(2_000);
    assert.equal(mutation.status, "error");
    assert.equal(mutation.outcomeUnknown, true);
  });

  test("useConnectionState", async () => {
    const page = new Page();
    const Line = () => useConnectionState().status;
    page.show([h(Line, { key: 1 }), h(Value, { name: "a", key: 2 })]);
    await page.settle();
    assert.match(page.text, /^open/);
    await act(async () => page.world.cut());
    assert.match(page.text, /^connecting/);
  });

  test("the panel of the devtools names connection and queries", async () => {
    const page = new Page();
    page.show([h(LiveDevtools, { key: 1 }), h(Value, { name: "a", key: 2 })]);
    await page.settle();
    await page.pass(600);
    assert.match(page.text, /tidewire: open.*BehaviourService\.Look.*"key":"a".*success.*shown.*answered/);
    await act(async () => page.world.cut());
    await page.pass(0);
    assert.match(page.text, /tidewire: connecting, again in/);
  });
});

// The last one, since the pages of all tests are one window.
test("a page that ends keeps what it shows: its last words are what is stored", async () => {
  const page = new Page();
  page.world.server.values.set("a", "1");
  page.show(h(Value, { name: "a" }));
  await page.settle();
  await act(async () => void dispatchEvent(Object.assign(new Event("pagehide"), { persisted: false })));
  await page.settle();
  assert.equal(page.world.status, "closed");
  assert.equal(page.text, "[1?]");
  const { data } = page.client.query(look, { key: "a" }).getSnapshot();
  assert.equal(data!.value, "1");
});
