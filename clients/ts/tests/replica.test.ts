// Queries whose data are kept: one watch for all, no half-applied changes, optimistic edits.
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { createConnectTransport } from "@connectrpc/connect-web";
import { createRouterTransport } from "@connectrpc/connect";
import { createLiveClient, type Query } from "../packages/live/src/replica/index.ts";
import { keyOf } from "../packages/live/src/replica/key.ts";
import { BehaviourService, EchoRequestSchema, type LookReply } from "./gen/tidewire/test/v1/behaviour_pb.js";
import { withClock, withoutClock, World } from "./support/world.ts";

const { look, echo } = BehaviourService.method;

beforeEach(withClock);
afterEach(withoutClock);

function start(...options: ConstructorParameters<typeof World>) {
  const world = new World(...options);
  const client = createLiveClient(world.transport);
  /** Subscribes, and writes down what a view would show. */
  const view = <T>(query: Query<T>, show: (data: T) => unknown = (data) => (data as LookReply).value) => {
    const shown: unknown[] = [];
    const note = () => {
      const { status, data, isStale } = query.getSnapshot();
      shown.push(status === "success" ? `${show(data as T)}${isStale ? "?" : ""}` : status);
    };
    note();
    return { shown, end: query.subscribe(note) };
  };
  return { world, client, view, server: world.server };
}

describe("queries", () => {
  test("equal inputs are one object and one watch", async () => {
    const { client, world, view } = start();
    const one = client.query(look, { key: "a" });
    assert.equal(client.query(look, { key: "a" }), one);
    assert.notEqual(client.query(look, { key: "b" }), one);
    const first = view(one);
    const second = view(one);
    await world.settle();
    assert.deepEqual(world.server.requests, ["Look"]);
    world.server.set("a", "1");
    await world.settle();
    assert.deepEqual(first.shown, ["pending", "", "1"]);
    assert.deepEqual(second.shown, ["pending", "", "1"]);
  });

  test("inputs are equal whatever the order of the entries of their maps", () => {
    const one = create(EchoRequestSchema, { counts: { x: 1, y: 2 } });
    const other = create(EchoRequestSchema, { counts: { y: 2, x: 1 } });
    assert.equal(keyOf(echo, one), keyOf(echo, other));
    assert.notEqual(keyOf(echo, one), keyOf(echo, { counts: { x: 2, y: 1 } }));
  });

  test("an input that was changed after it was used is named in development", () => {
    const { client } = start();
    const input = { key: "a" };
    client.query(look, input);
    input.key = "b";
    assert.throws(() => client.query(look, input), /changed after it was used/);
  });

  test("a query that nobody uses is let go after a while, and found again before", async () => {
    const { client, world, view, server } = start();
    const one = view(client.query(look, { key: "a" }));
    await world.settle();
    one.end();
    await world.pass(4_000);
    server.set("a", "1");
    await world.settle();
    const again = view(client.query(look, { key: "a" }));
    assert.deepEqual(again.shown, ["1"], "it was watched all the time");
    again.end();
    await world.pass(11_000);
    assert.deepEqual(view(client.query(look, { key: "a" })).shown, ["pending"]);
  });

  test("one that was made and never used is let go", async () => {
    const { client, world } = start();
    client.query(look, { key: "a" });
    await world.pass(11_000);
    assert.deepEqual(world.server.requests, []);
  });

  test("equal answers are one reference, also over a lost connection", async () => {
    const { client, world } = start();
    const query = client.query(look, { key: "a" });
    query.subscribe(() => {});
    await world.settle();
    const { data } = query.getSnapshot();
    world.cut();
    assert.equal(query.getSnapshot().isStale, true);
    await world.pass(1_000);
    assert.equal(query.getSnapshot().data, data);
    assert.equal(query.getSnapshot().isStale, false);
  });

  test("data are frozen in development", async () => {
    const { client, world } = start();
    const query = client.query(look, { key: "a" });
    const [data] = await Promise.all([query.fetch(), world.settle()]);
    assert.throws(() => {
      (data as { value: string }).value = "mine";
    }, TypeError);
  });

  test("fetch gives what is current, once it is", async () => {
    const { client, world, server } = start();
    const query = client.query(look, { key: "a" });
    query.subscribe(() => {});
    await world.settle();
    world.cut();
    server.values.set("a", "1");
    const data = query.fetch();
    await world.pass(1_200);
    assert.equal((await data).value, "1");
  });

  test("fetch that is aborted leaves the query to others", async () => {
    const { client, world } = start();
    const query = client.query(look, { key: "a" });
    const controller = new AbortController();
    const mine = query.fetch(controller.signal);
    const theirs = query.fetch();
    controller.abort(new Error("enough"));
    await assert.rejects(mine, /enough/);
    await world.settle();
    assert.equal((await theirs).value, "");
  });

  test("a listener that throws stops no other", async () => {
    const { client, world, view } = start();
    const query = client.query(look, { key: "a" });
    const thrown: unknown[] = [];
    const handler = (error: unknown) => thrown.push(error);
    process.setUncaughtExceptionCaptureCallback(handler);
    query.subscribe(() => {
      throw new Error("in a view");
    });
    const { shown } = view(query);
    await world.settle();
    process.setUncaughtExceptionCaptureCallback(null);
    assert.deepEqual(shown, ["pending", ""]);
    assert.equal(thrown.length, 1);
  });

  test("the next user sees none of the data of the one before", async () => {
    const { client, world, view, server } = start();
    server.values.set("a", "secret");
    const { shown } = view(client.query(look, { key: "a" }));
    await world.settle();
    client.clear();
    await new Promise(setImmediate);
    assert.equal(shown.at(-1), "pending");
    await world.settle();
    assert.equal(shown.at(-1), "secret", "whoever still listens asks as the one who is there now");
  });
});

describe("computed", () => {
  test("it is made of what it reads, and told once for all that a message changed", async () => {
    const { client, world, view, server } = start();
    let runs = 0;
    const both = client.computed((get) => {
      runs++;
      return `${get(client.query(look, { key: "a" })).value}-${get(client.query(look, { key: "b" })).value}`;
    });
    const { shown } = view(both, (text) => text);
    await world.settle();
    await world.settle();
    server.values.set("a", "1");
    server.values.set("b", "1");
    server.set("c", "x"); // Tells of all three at once.
    await world.settle();
    assert.deepEqual(shown, ["pending", "-", "1-1"]);
    assert.ok(runs <= 5, `${runs}`);
  });

  test("a diamond is never seen half-made", async () => {
    const { client, world, view, server } = start();
    const base = client.query(look, { key: "a" });
    const left = client.computed((get) => `l${get(base).value}`);
    const right = client.computed((get) => `r${get(base).value}`);
    const all = client.computed((get) => `${get(left)} ${get(right)} ${get(base).value}`);
    const seen = view(all, (text) => text);
    const other = view(left, (text) => text);
    await world.settle();
    server.set("a", "1");
    await world.settle();
    assert.deepEqual(seen.shown, ["pending", "l r ", "l1 r1 1"]);
    assert.deepEqual(other.shown, ["pending", "l", "l1"]);
  });

  test("its dependencies change with what it reads", async () => {
    const { client, world, view, server } = start();
    server.values.set("which", "a");
    const chosen = client.computed((get) => get(client.query(look, { key: get(client.query(look, { key: "which" })).value })).value);
    const { shown } = view(chosen, (text) => text);
    await world.settle();
    server.set("which", "b");
    server.set("b", "B");
    await world.settle();
    server.set("a", "ignored");
    await world.settle();
    assert.equal(shown.at(-1), "B");
  });

  test("get.all asks for all at once", async () => {
    const { client, world, view } = start();
    const all = client.computed((get) => get.all([client.query(look, { key: "a" }), client.query(look, { key: "b" })]).length);
    view(all, (count) => count);
    await new Promise(setImmediate);
    world.network.socket!.open();
    await new Promise(setImmediate);
    await world.settle();
    assert.deepEqual(world.server.requests, ["Look", "Look"]);
    assert.equal(all.getSnapshot().data, 2);
  });

  test("what it throws is its error, and it recovers", async () => {
    const { client, world, view, server } = start();
    const picky = client.computed((get) => {
      const { value } = get(client.query(look, { key: "a" }));
      if (value === "bad") throw new Error("no good");
      return value;
    });
    const { shown } = view(picky, (text) => text);
    await world.settle();
    server.set("a", "bad");
    await world.settle();
    server.set("a", "fine");
    await world.settle();
    assert.deepEqual(shown, ["pending", "", "error", "fine"]);
  });

  test("a cycle, and reading after the computation, are errors that say so", () => {
    const { client } = start();
    const cycle: Query<unknown> = client.computed((get) => get(cycle));
    assert.match(cycle.getSnapshot().error!.message, /reads itself/);
    const later = client.computed(async () => 1);
    assert.match(later.getSnapshot().error!.message, /may not be async/);
  });

  test("equal values are not told", async () => {
    const { client, world, view, server } = start();
    const length = client.computed((get) => get(client.query(look, { key: "a" })).value.length);
    const { shown } = view(length, (number) => number);
    await world.settle();
    server.set("a", "x");
    await world.settle();
    server.set("a", "y");
    await world.settle();
    assert.deepEqual(shown, ["pending", "0", "1"]);
  });

  test("ended while it is pending, it holds nothing", async () => {
    const { client, world, view } = start();
    const { end } = view(client.computed((get) => get(client.query(look, { key: "a" })).value), (text) => text);
    end();
    await world.pass(11_000);
    assert.deepEqual(view(client.query(look, { key: "a" })).shown, ["pending"]);
  });

  test("while an input is suspect, its next answer is awaited for a moment", async () => {
    const { client, world, view, server } = start();
    const [a, b] = ["a", "b"].map((key) => client.query(look, { key }));
    const { shown } = view(client.computed((get) => `${get(a!).value}-${get(b!).value}`), (text) => text);
    await world.settle();
    // `a` is told twice: the second value waits until the first is taken.
    server.set("a", "1");
    server.set("a", "2");
    server.set("b", "2");
    await world.settle();
    mock.timers.tick(60);
    await world.settle();
    assert.equal(shown.at(-1), "2-2");
    assert.ok(!shown.includes("1-2"), shown.join());
  });
});

describe("optimistic edits", () => {
  test("shown at once, replaced by the answer without a flicker", async () => {
    const { client, world, view, server } = start();
    const query = client.query(look, { key: "k" });
    const { shown } = view(query);
    await world.settle();
    const done = client.mutate(echo, { text: "k=v" }, {
      optimistic: (store) => store.set(query, { ...store.get(query)!, value: "v" }),
    });
    await new Promise(setImmediate);
    assert.deepEqual(shown, ["pending", "", "v"]);
    await world.settle();
    await done;
    assert.deepEqual(shown, ["pending", "", "v"]);
    assert.equal(server.values.get("k"), "v");
    server.set("k", "later");
    await world.settle();
    assert.equal(shown.at(-1), "later");
  });

  test("a failure takes it back", async () => {
    const { client, world, view } = start({}, { tokens: new Set() });
    const query = client.query(look, { key: "k" });
    const { shown } = view(query);
    await world.settle();
    const done = client.mutate(echo, { text: "k=v" }, {
      optimistic: (store) => store.set(query, { value: "v" } as LookReply),
    });
    await Promise.all([assert.rejects(done), world.settle()]);
    // The query, which is refused as well, is asked again after a command.
    assert.deepEqual(shown.slice(-3), ["v?", "error", "error"]);
  });

  test("an answer to somebody else's change goes below it", async () => {
    const { client, world, view, server } = start();
    const query = client.query(look, { key: "k" });
    const { shown } = view(query);
    await world.settle();
    void client.mutate(echo, { text: "other=1" }, {
      optimistic: (store) => store.set(query, { ...store.get(query)!, value: `${store.get(query)!.value}+` }),
    });
    await new Promise(setImmediate);
    server.set("k", "theirs");
    world.network.socket!.deliver("toClient");
    await new Promise(setImmediate);
    assert.deepEqual(shown, ["pending", "", "+", "theirs+"]);
    await world.settle();
    assert.equal(shown.at(-1), "theirs");
  });

  test("one that throws is told to the caller, and leaves nothing behind", async () => {
    const { client, world, view } = start();
    const query = client.query(look, { key: "k" });
    const { shown } = view(query);
    await world.settle();
    const done = client.mutate(echo, { text: "k=v" }, {
      optimistic() {
        throw new Error("no");
      },
    });
    await assert.rejects(done, /no/);
    assert.deepEqual(shown, ["pending", ""]);
  });
});

describe("pages that a server makes", () => {
  const router = (value: string) =>
    createRouterTransport(({ service }) => service(BehaviourService, { look: () => ({ value }) }));

  test("data go with the page, are shown at once, and confirmed", async () => {
    const { client, world, view, server } = start();
    const onServer = createLiveClient(router("1"));
    await onServer.query(look, { key: "a" }).fetch();
    const text = onServer.dehydrate();
    assert.doesNotMatch(text, /[<>"]/);
    server.values.set("a", "2"); // It changed in between.
    client.hydrate(text);
    client.hydrate(text);
    const { shown } = view(client.query(look, { key: "a" }));
    assert.deepEqual(shown, ["1?"]);
    await world.settle();
    assert.deepEqual(shown, ["1?", "2"]);
  });

  test("data with a validator are not sent again", async () => {
    const { client, world, server } = start();
    server.values.set("a", "1");
    client.query(look, { key: "a" }).subscribe(() => {});
    await world.settle();
    const text = client.dehydrate();
    const other = createLiveClient(world.transport);
    other.hydrate(text);
    const query = other.query(look, { key: "a" });
    const { data } = query.getSnapshot();
    query.subscribe(() => {});
    await world.settle();
    assert.equal(query.getSnapshot().data, data);
    assert.equal(query.getSnapshot().isStale, false);
  });

  test("what was cut off, or of another schema, is left out", () => {
    const { client } = start();
    for (const text of ["", "%%%", "AQ", "AgAA", "AQPBwQ"]) client.hydrate(text);
    assert.equal(client.query(look, { key: "a" }).getSnapshot().status, "pending");
  });

  test("over a transport that tells of nothing, data never pass as current", async () => {
    const client = createLiveClient(router("1"));
    const query = client.query(look, { key: "a" });
    query.subscribe(() => {});
    await query.fetch();
    await new Promise(setImmediate);
    assert.equal(query.getSnapshot().isStale, true);
    assert.equal(client.connection.getSnapshot().status, "fallback");
    void createConnectTransport;
  });
});
