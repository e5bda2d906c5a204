// TanStack Query and connect-query, whose queries are told of changes.
import "./support/dom.ts";
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { TransportProvider, useInfiniteQuery as useConnectInfiniteQuery, useQuery as useConnectQuery } from "@connectrpc/connect-query";
import { QueryClient, QueryClientProvider, QueryObserver } from "@tanstack/react-query";
import { cleanup, render } from "@testing-library/react";
import { liveQueryOptions, withQueryClient } from "@tidewire/tanstack-query";
import * as React from "react";
import { BehaviourService } from "./gen/tidewire/test/v1/behaviour_pb.js";
import { withClock, withoutClock, World } from "./support/world.ts";

const { look } = BehaviourService.method;
const { createElement: h, act } = React;

beforeEach(withClock);
afterEach(() => {
  cleanup();
  withoutClock();
});

function start(...options: ConstructorParameters<typeof World>) {
  const world = new World(...options);
  const queryClient = new QueryClient({ defaultOptions: { queries: { retry: false, gcTime: 5_000 } } });
  const observe = (key: string) => {
    const observer = new QueryObserver(queryClient, liveQueryOptions(look, { key }, { transport: world.transport }));
    const shown: unknown[] = [];
    const end = observer.subscribe(({ data, status }) => shown.push(status === "success" ? data!.value : status));
    return { observer, shown, end };
  };
  return { world, queryClient, observe };
}

describe("liveQueryOptions", () => {
  test("answers are pushed into the cache, and nothing is fetched again", async () => {
    const { world, observe } = start();
    const { observer } = observe("a");
    await world.settle();
    world.server.set("a", "1");
    await world.settle();
    assert.equal(observer.getCurrentResult().data!.value, "1");
    await observer.refetch();
    assert.equal(observer.getCurrentResult().data!.value, "1");
    assert.deepEqual(world.server.requests, ["Look"]);
  });

  test("a refetch while an answer is on its way never brings back an older one", async () => {
    const { world, observe } = start();
    const { observer } = observe("a");
    await world.settle();
    world.cut();
    const refetched = observer.refetch();
    world.server.set("a", "2");
    await world.pass(1_200);
    assert.equal((await refetched).data!.value, "2");
    assert.equal(observer.getCurrentResult().data!.value, "2");
  });

  test("cancelled, the watch goes on for others", async () => {
    const { world, observe, queryClient } = start();
    const { observer } = observe("a");
    await queryClient.cancelQueries();
    await world.settle();
    world.server.set("a", "1");
    await world.settle();
    assert.equal(observer.getCurrentResult().data!.value, "1");
  });

  test("collected, the watch ends; mounted again, it is asked anew", async () => {
    const { world, observe } = start();
    const { end } = observe("a");
    await world.settle();
    end();
    await world.pass(6_000);
    world.server.set("a", "1");
    const again = observe("a");
    await world.settle();
    assert.equal(again.observer.getCurrentResult().data!.value, "1");
    assert.deepEqual(world.server.requests, ["Look", "Look"]);
  });

  test("an error is the query's, and it recovers", async () => {
    const tokens = new Set<string>();
    const { world, observe } = start({}, { tokens });
    const { observer } = observe("a");
    await world.settle();
    assert.equal(ConnectError.from(observer.getCurrentResult().error).code, Code.Unauthenticated);
    tokens.add("");
    await Promise.all([observer.refetch(), world.settle()]);
    assert.equal(observer.getCurrentResult().data!.value, "");
  });
});

test("connect-query's hooks are told of changes by withQueryClient", async () => {
  const { world, queryClient } = start();
  const transport = withQueryClient(world.transport, queryClient);
  function Value() {
    const { data, status } = useConnectQuery(look, { key: "a" });
    return data ? `[${data.value}]` : status;
  }
  const tree = h(TransportProvider, { transport } as never, h(QueryClientProvider, { client: queryClient }, h(Value)));
  const { container } = render(tree);
  await act(() => world.pass(300)); // TanStack tells its observers by timers.
  assert.equal(container.textContent, "[]");
  world.server.set("a", "1");
  await act(() => world.pass(300)); // TanStack tells its observers by timers.
  assert.equal(container.textContent, "[1]");
  assert.deepEqual(world.server.requests, ["Look"]);
});

test("connect-query's infinite queries are asked page by page, and no watch mixes them up", async () => {
  const { world, queryClient } = start();
  world.server.values.set("1", "first");
  world.server.values.set("2", "second");
  const transport = withQueryClient(world.transport, queryClient);
  let more: () => unknown = () => {};
  function Pages() {
    const { data, fetchNextPage } = useConnectInfiniteQuery(look, { key: "1" }, {
      pageParamKey: "key",
      getNextPageParam: ({ value }) => (value === "first" ? "2" : undefined),
    });
    more = fetchNextPage;
    return data ? data.pages.map(({ value }) => `[${value}]`).join("") : "…";
  }
  const tree = h(TransportProvider, { transport } as never, h(QueryClientProvider, { client: queryClient }, h(Pages)));
  const { container } = render(tree);
  await act(() => world.pass(300));
  assert.equal(container.textContent, "[first]");
  await act(async () => void more());
  await act(() => world.pass(300));
  assert.equal(container.textContent, "[first][second]");
  assert.deepEqual(world.server.requests, ["Look", "Look"]);
});
