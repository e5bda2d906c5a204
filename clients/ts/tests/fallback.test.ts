// Networks that let no WebSocket through.
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { isOutcomeUnknown } from "../packages/live/src/index.ts";
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

function start() {
  const http = { value: "over HTTP", looks: 0, fails: false, isSilent: false };
  const fallback = async () =>
    createRouterTransport(({ service }) =>
      service(BehaviourService, {
        look: () => ({ value: http.value, looks: http.looks++ }),
        echo: ({ text }) => (http.isSilent ? new Promise<never>(() => {}) : { text }),
      }),
    );
  const world = new World({
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
