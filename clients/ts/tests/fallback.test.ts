// Networks that let no WebSocket through.
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { isNotRun, isOutcomeUnknown, type LiveOptions } from "../packages/live/src/index.ts";
import { createLiveClient } from "../packages/live/src/replica/index.ts";
import { BehaviourService } from "./gen/tidewire/test/v1/behaviour_pb.js";
import { withClock, withoutClock, World } from "./support/world.ts";

let reaches = true;
beforeEach(() => {
  withClock();
  reaches = true;
  mock.method(globalThis, "fetch", async () => {
    if (!reaches) throw new TypeError("failed");
    return new Response();
  });
});
afterEach(() => {
  mock.restoreAll();
  withoutClock();
});

function start(options: Partial<LiveOptions> = {}) {
  const http = {
    value: "over HTTP", looks: 0, fails: false, isSilent: false,
    /** What the server answers in place of a value. */
    error: undefined as Code | undefined,
    /** Of `authorization`: the header that is needed, and all that came. */
    token: undefined as string | undefined, tokens: [] as (string | null)[],
  };
  const answers = ({ requestHeader }: { requestHeader: Headers }) => {
    const token = requestHeader.get("authorization");
    http.tokens.push(token);
    if (http.token && token !== http.token) throw new ConnectError("who are you?", Code.Unauthenticated);
    if (http.error) throw new ConnectError("no", http.error);
  };
  const fallback = async () =>
    createRouterTransport(({ service }) =>
      service(BehaviourService, {
        look: (_, context) => {
          answers(context);
          return { value: http.value, looks: http.looks++ };
        },
        echo: ({ text }, context) => {
          answers(context);
          return http.isSilent ? new Promise<never>(() => {}) : { text };
        },
        count: async function* (_, context) {
          answers(context);
          for (const number of [1, 2]) yield { number };
        },
      }),
    );
  const world = new World({
    ...options,
    fallback: async () => {
      const transport = await fallback();
      const { unary } = transport;
      return {
        ...transport,
        unary: (...call: Parameters<typeof unary>) => {
          if (http.fails) throw new ConnectError("network", Code.Unavailable);
          return unary(...call);
        },
      } as typeof transport;
    },
  });
  world.network.isDown = true;
  return { world, http };
}

test("after two sockets that do not open, calls go over HTTP and watches are polled", async () => {
  const { world, http } = start();
  const { heard, state } = world.watch("a");
  await world.pass(2_000);
  assert.equal(world.status, "fallback");
  assert.deepEqual(heard, ["over HTTP", "stale"]);
  assert.equal((await world.client.look({ key: "b" })).value, "over HTTP");
  http.value = "changed";
  await world.pass(7_000);
  assert.deepEqual(heard.slice(2, 4), ["changed", "stale"]);
  assert.ok(state.isStale, "polled answers never pass as current");
});

test("an equal answer is not told again, and an own command asks at once", async () => {
  const { world, http } = start();
  const { heard } = world.watch("a");
  await world.pass(2_000);
  await world.pass(20_000);
  assert.deepEqual([...new Set(heard.slice(2))], ["fresh", "stale"]);
  heard.length = 2;
  http.value = "mine";
  await world.client.echo({ text: "k=v" });
  await world.settle();
  assert.deepEqual(heard.slice(2, 4), ["mine", "stale"]);
});

test("a command that HTTP lost is unknown", async () => {
  const { world, http } = start();
  world.watch("a");
  await world.pass(2_000);
  http.fails = true;
  const error = await world.client.echo({ text: "k=v" }).catch((cause) => cause);
  assert.ok(isOutcomeUnknown(error));
});

test("when sockets open again, watches are told of changes", async () => {
  const { world } = start();
  const { heard, state } = world.watch("a");
  await world.pass(2_000);
  world.network.isDown = false;
  world.server.values.set("a", "live");
  await world.pass(61_000);
  assert.equal(world.status, "open");
  assert.equal(heard.at(-1), "live");
  world.server.set("a", "pushed");
  await world.settle();
  assert.equal(heard.at(-1), "pushed");
  assert.equal(state.isStale, false);
});

test("where nothing is reached there is no fallback", async () => {
  const { world } = start();
  reaches = false;
  world.watch("a");
  await world.pass(5_000);
  assert.equal(world.status, "connecting");
});

test("a command that was sent over the socket is unknown, when that gives way", async () => {
  const { world } = start();
  world.network.isDown = false;
  await Promise.all([world.client.look({ key: "a" }), world.settle()]);
  const command = world.client.echo({ text: "k=v" }).catch((error) => error);
  await new Promise(setImmediate);
  world.network.isDown = true;
  world.cut(1_000);
  await world.pass(5_000);
  assert.equal(world.status, "fallback");
  assert.ok(isOutcomeUnknown(await command));
});

test("fetch gives what is polled, also when it did not change", async () => {
  const { world } = start();
  const client = createLiveClient(world.transport);
  const query = client.query(BehaviourService.method.look, { key: "a" });
  query.subscribe(() => {});
  await world.pass(2_000);
  const again = query.fetch();
  await world.pass(8_000);
  assert.equal((await again).value, "over HTTP");
});

test("replicas show polled data", async () => {
  const { world } = start();
  const client = createLiveClient(world.transport);
  const query = client.query(BehaviourService.method.look, { key: "a" });
  query.subscribe(() => {});
  await world.pass(2_000);
  assert.equal(query.getSnapshot().data!.value, "over HTTP");
  assert.equal(query.getSnapshot().isStale, true);
  assert.equal(client.connection.getSnapshot().status, "fallback");
});

test("close() ends it: calls that are under way, calls that come, and what is polled", async () => {
  const { world, http } = start();
  world.watch("a");
  await world.pass(2_000);
  assert.equal(world.status, "fallback");
  http.isSilent = true;
  const underWay = world.client.echo({ text: "k=1" }).catch((error) => error);
  await new Promise(setImmediate);
  await world.transport.close();
  assert.equal(world.status, "closed");
  const error = await underWay;
  assert.deepEqual([error.code, isOutcomeUnknown(error)], [Code.Canceled, true]);
  http.isSilent = false;
  const { looks } = http;
  await assert.rejects(world.client.look({ key: "b" }), { code: Code.Unavailable });
  await world.pass(70_000);
  assert.deepEqual([http.looks, world.status], [looks, "closed"]);
});

test("close() while it begins: it does not begin", async () => {
  const { world, http } = start();
  let answer = (_: Response) => {};
  mock.method(globalThis, "fetch", () => new Promise((resolve) => (answer = resolve)));
  world.watch("a");
  await world.pass(2_000);
  await world.transport.close();
  answer(new Response());
  await world.pass(10_000);
  await assert.rejects(world.client.look({ key: "a" }), { code: Code.Unavailable });
  assert.deepEqual([world.status, http.looks], ["closed", 0]);
});

describe("calls of a page that has just begun", () => {
  test("wait until it is known that they go over HTTP", async () => {
    const { world } = start();
    const items: number[] = [];
    const count = async () => {
      for await (const { number } of world.client.count({ n: 2 })) items.push(number);
    };
    const calls = Promise.all([world.client.look({ key: "a" }), world.client.echo({ text: "k=v" }), count()]);
    calls.catch(() => {});
    await world.pass(3_000);
    assert.deepEqual((await calls).slice(0, 2).map((reply) => "value" in reply! ? reply.value : reply!.text), ["over HTTP", "k=v"]);
    assert.deepEqual([world.status, items], ["fallback", [1, 2]]);
  });

  test("go over the socket where that opens, also at the second attempt", async () => {
    const { world, http } = start();
    world.server.values.set("a", "live");
    const calls = [world.client.look({ key: "a" })];
    await world.settle();
    world.network.isDown = false;
    await world.pass(1_000);
    calls.push(world.client.look({ key: "a" }));
    await world.settle();
    assert.deepEqual((await Promise.all(calls)).map(({ value }) => value), ["live", "live"]);
    assert.deepEqual([http.looks, world.status], [0, "open"]);
  });

  test("fail where nothing is reached, and did not run", async () => {
    const { world } = start();
    reaches = false;
    for (let round = 0; round < 2; round++) {
      const command = world.client.echo({ text: "k=v" }).catch((error) => error);
      await world.pass(3_000);
      const error = await command;
      assert.deepEqual([error.code, isNotRun(error)], [Code.Unavailable, true]);
    }
  });

  test("obey their signal, their time and close()", async () => {
    const { world, http } = start();
    mock.method(globalThis, "fetch", () => new Promise(() => {}));
    const controller = new AbortController();
    const fails = (call: Promise<unknown>): Promise<any> => call.catch((error) => error);
    const calls = [
      fails(world.client.echo({ text: "k=1" }, { signal: controller.signal })),
      fails(world.client.echo({ text: "k=2" }, { signal: AbortSignal.abort() })),
      fails(world.client.echo({ text: "k=3" }, { timeoutMs: 2_000 })),
      fails(world.client.echo({ text: "k=4" })),
    ];
    await world.pass(1_900);
    controller.abort();
    await world.pass(200);
    await world.transport.close();
    const errors = await Promise.all(calls);
    assert.deepEqual(errors.map(({ code }) => code), [Code.Canceled, Code.Canceled, Code.DeadlineExceeded, Code.Canceled]);
    assert.ok(errors.every(isNotRun));
    assert.deepEqual(http.tokens, []);
  });

  test("have what is left of their time over HTTP", async () => {
    const { world, http } = start();
    http.isSilent = true;
    const call = world.client.echo({ text: "k=v" }, { timeoutMs: 3_000 }).catch((error) => error);
    await world.pass(3_100);
    assert.equal(world.status, "fallback");
    assert.equal((await call).code, Code.DeadlineExceeded);
  });
});

describe("headers of the application", () => {
  const reasons: string[] = [];
  beforeEach(() => void (reasons.length = 0));
  const asks = (token: () => string): Partial<LiveOptions> => ({
    headers: (why) => {
      reasons.push(why);
      return { authorization: token() };
    },
  });

  test("are sent over HTTP, asked for once, and a call's own go before them", async () => {
    const { world, http } = start(asks(() => "Bearer 1"));
    const first = world.client.look({ key: "a" });
    first.catch(() => {});
    await world.pass(3_000);
    await first;
    reasons.length = 0;
    world.watch("a");
    await world.pass(6_000);
    await world.client.echo({ text: "k=v" }, { headers: { authorization: "mine" } });
    for await (const _ of world.client.count({ n: 2 }));
    assert.deepEqual([...new Set(http.tokens)], ["Bearer 1", "mine"]);
    assert.equal(http.tokens.filter((token) => token === "mine").length, 1);
    assert.deepEqual(reasons, []);
  });

  test("are asked for again when the server refused them, once for all calls", async () => {
    let token = 0;
    const { world, http } = start(asks(() => `Bearer ${token}`));
    world.watch("a");
    await world.pass(3_000);
    reasons.length = 0;
    http.token = "Bearer 1";
    token = 1;
    const replies = await Promise.all([world.client.look({ key: "a" }), world.client.echo({ text: "k=v" })]);
    assert.equal(replies.length, 2);
    assert.deepEqual(reasons, ["refused"]);
  });

  test("that are refused as well: a call fails, and polling does not go on asking for others", async () => {
    const { world, http } = start(asks(() => "Bearer 0"));
    const { heard } = world.watch("a");
    await world.pass(3_000);
    http.token = "Bearer 1";
    reasons.length = 0;
    await assert.rejects(world.client.look({ key: "a" }), { code: Code.Unauthenticated });
    await world.pass(20_000);
    assert.deepEqual(reasons, ["refused"]);
    assert.ok(heard.includes(`error ${Code.Unauthenticated}`));
  });

  test("that are not to be had are no reason to go over HTTP: calls fail and did not run", async () => {
    let isDown = true;
    const { world } = start({
      headers: () => {
        if (isDown) throw new Error("no tokens today");
        return { authorization: "Bearer 1" };
      },
    });
    world.network.isDown = false;
    const call = world.client.echo({ text: "k=v" }).catch((error) => error);
    await world.pass(3_000);
    const error = await call;
    assert.deepEqual([error.code, isNotRun(error), world.status], [Code.Unavailable, true, "connecting"]);
    assert.match(error.message, /no tokens today/);
    isDown = false;
    await Promise.all([world.client.echo({ text: "k=v" }), world.pass(10_000)]);
    assert.equal(world.status, "open");
  });

  test("that are not to be had over HTTP: the call fails and did not run, and the next one asks again", async () => {
    let isDown = false;
    const { world, http } = start({
      headers: () => {
        if (isDown) throw new Error("no tokens today");
        return { authorization: "Bearer 1" };
      },
    });
    world.watch("a");
    await world.pass(3_000);
    http.token = "Bearer 2"; // So that others are asked for.
    isDown = true;
    const error = await world.client.echo({ text: "k=v" }).catch((cause) => cause);
    assert.deepEqual([error.code, isNotRun(error)], [Code.Unavailable, true]);
    http.token = "Bearer 1";
    isDown = false;
    assert.equal((await world.client.echo({ text: "k=v" })).text, "k=v");
  });
});

test("while nothing is reached over HTTP the state has the error", async () => {
  const { world, http } = start();
  world.watch("a");
  await world.pass(3_000);
  const state = () => world.transport.connection.getSnapshot();
  assert.deepEqual(state(), { status: "fallback" });
  http.fails = true;
  await world.pass(7_000);
  assert.deepEqual([state().status, state().error?.rawMessage], ["fallback", "network"]);
  await world.pass(61_000); // A socket is tried meanwhile.
  assert.equal(state().error?.rawMessage, "network");
  http.fails = false;
  http.error = Code.NotFound;
  await assert.rejects(world.client.echo({ text: "k=v" }), { code: Code.NotFound });
  assert.deepEqual([state().status, state().error], ["fallback", undefined]);
});

test("an error of the server is an answer, and one of the network does not take its place", async () => {
  const { world, http } = start();
  http.error = Code.NotFound;
  const client = createLiveClient(world.transport);
  const query = client.query(BehaviourService.method.look, { key: "a" });
  query.subscribe(() => {});
  const { heard } = world.watch("a");
  const shown = () => {
    const { status, data, error, isStale } = query.getSnapshot();
    return [status, data?.value ?? error?.code, isStale];
  };
  await world.pass(3_000);
  assert.deepEqual(shown(), ["error", Code.NotFound, true]);
  assert.deepEqual(heard, [`error ${Code.NotFound}`, "stale"]);
  http.fails = true;
  await world.pass(14_000);
  assert.deepEqual(shown(), ["error", Code.NotFound, true]);
  http.fails = false;
  await world.pass(7_000);
  assert.deepEqual([...new Set(heard)], [`error ${Code.NotFound}`, "stale", "fresh"], "an equal one is not told again");
  assert.equal(heard.filter((word) => word.startsWith("error")).length, 1);
  http.error = undefined;
  await world.pass(7_000);
  assert.deepEqual(shown(), ["success", "over HTTP", true]);
  http.error = Code.NotFound;
  await world.pass(7_000);
  assert.deepEqual(shown(), ["error", Code.NotFound, true]);
});
