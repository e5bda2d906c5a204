// Bad cases of the design that no other file has: what a page goes through, and what it must not show.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Code } from "@connectrpc/connect";
import { createLiveClient } from "../packages/live/src/replica/index.ts";
import { BehaviourService } from "./gen/tidewire/test/v1/behaviour_pb.js";
import { withClock, withoutClock, World } from "./support/world.ts";

const { look } = BehaviourService.method;

beforeEach(withClock);
afterEach(withoutClock);
afterEach(() => mock.restoreAll());

describe("a page", () => {
  test("that was frozen for longer than the server keeps its session asks again with what it holds", async () => {
    const world = new World();
    const [same, other] = [world.watch("a"), world.watch("b")];
    await world.settle();
    world.server.restart(); // As to the page: nobody knows its session.
    world.server.values.set("b", "2");
    mock.timers.setTime(Date.now() + 3_600_000);
    world.cut();
    world.transport.wake();
    assert.deepEqual(same.heard, ["", "stale"], "nothing passes as current before it is confirmed");
    await world.pass(1_500);
    assert.deepEqual(same.heard, ["", "stale", "fresh"]);
    assert.deepEqual(other.heard, ["", "stale", "2"]);
  });

  test("whose connection is lost before the first answer hears that answer, once, and no word before it", async () => {
    const world = new World();
    const { heard } = world.watch("a");
    await new Promise(setImmediate);
    world.network.socket!.open();
    world.cut();
    world.server.set("a", "1");
    await world.pass(1_500);
    assert.deepEqual(heard, ["1"]);
  });

  test("whose data came with it, and changed since, shows the new ones after the old, and the old as stale", async () => {
    const world = new World();
    world.server.values.set("a", "1");
    const before = createLiveClient(world.transport);
    before.query(look, { key: "a" }).subscribe(() => {});
    await world.settle();
    const state = before.dehydrate();
    world.server.values.set("a", "2");
    const later = new World();
    later.server.values.set("a", "2");
    const client = createLiveClient(later.transport);
    client.hydrate(state);
    const query = client.query(look, { key: "a" });
    const seen: string[] = [];
    const see = () => {
      const { data, isStale } = query.getSnapshot();
      seen.push(`${data?.value}${isStale ? "?" : ""}`);
    };
    query.subscribe(see);
    see();
    await later.settle();
    assert.deepEqual(seen, ["1?", "2"]);
    client.hydrate(state); // A second one, of the same page, brings nothing old back.
    see();
    assert.equal(seen.at(-1), "2");
  });
});

describe("listeners that throw", () => {
  test("stop no other watch, nor the connection; the error is the page's", async () => {
    const world = new World();
    const thrown: unknown[] = [];
    mock.method(globalThis, "queueMicrotask", (action: () => void) => {
      void Promise.resolve().then(action).catch((error) => thrown.push(error.message));
    });
    const nothing = () => {};
    world.transport.watch(look, { key: "a" }, {
      next() {
        throw new Error("of the view");
      },
      stale: nothing, fresh: nothing, error: nothing,
    });
    const { heard } = world.watch("a");
    await world.settle();
    world.server.set("a", "1");
    await world.settle();
    assert.deepEqual(heard, ["", "1"]);
    assert.deepEqual(thrown, ["of the view", "of the view"]);
    assert.equal(world.status, "open");
  });

  test("keep nobody else from hearing of a cut, nor of the end, nor close() from ending it", async () => {
    const world = new World();
    const thrown: unknown[] = [];
    mock.method(globalThis, "queueMicrotask", (action: () => void) => {
      void Promise.resolve().then(action).catch((error) => thrown.push(error.message));
    });
    const fails = (text: string) => () => {
      throw new Error(text);
    };
    world.transport.watch(look, { key: "a" }, { next() {}, stale: fails("stale"), fresh() {}, error() {} });
    const { heard } = world.watch("a");
    await world.settle();
    world.cut();
    await world.pass(2_000);
    assert.deepEqual(heard, ["", "stale", "fresh"]);
    world.transport.connection.subscribe(fails("connection"));
    const statuses: string[] = [];
    world.transport.connection.subscribe(() => statuses.push(world.status));
    await world.transport.close();
    await world.settle();
    assert.deepEqual([heard.at(-1), world.status, statuses.at(-1)], ["stale", "closed", "closed"]);
    assert.deepEqual([...new Set(thrown)], ["stale", "connection"]);
    assert.equal(world.network.sockets.size, 0);
  });
});

describe("a socket that is closed with a reason in place of a goaway", () => {
  for (const [code, status, again] of [
    [4_019, "unauthenticated", false], // No credential that would do.
    [4_002, "closed", false], // Another version of the protocol.
    [4_021, "open", true], // The server's fault: dialed again.
  ] as const) {
    test(`${code}: ${status}`, async () => {
      const world = new World();
      world.watch("a");
      await world.settle();
      const dials = world.network.dials;
      world.network.socket!.onclose?.({ code, reason: "said so" });
      await world.pass(40_000);
      assert.equal(world.status, status);
      assert.equal(world.network.dials > dials, again);
    });
  }
});

describe("a call over streams or interceptors", () => {
  test("that is made after close() ends as not run", async () => {
    const world = new World({ interceptors: [(next) => next] });
    await world.transport.close();
    await assert.rejects(world.client.look({ key: "a" }), { code: Code.Unavailable });
    await assert.rejects(async () => {
      for await (const _ of world.client.count({ n: 1 })) throw new Error("an item");
    }, { code: Code.Unavailable });
  });
});

test("where the platform has no TextDecoder (Hermes), the encoding that protobuf was given serves", () => {
  const folder = fileURLToPath(new URL("..", import.meta.url));
  const program = `
    import { configureTextEncoding } from "@bufbuild/protobuf/wire";
    const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];
    delete globalThis.TextEncoder;
    delete globalThis.TextDecoder;
    configureTextEncoding({
      checkUtf8: () => true,
      decodeUtf8: (bytes) => decoder.decode(bytes),
      encodeUtf8: (text) => encoder.encode(text),
    });
    const { World } = await import("./tests/support/world.ts");
    const world = new World();
    const { heard } = world.watch("ä");
    await world.settle();
    world.server.set("ä", "ö");
    await world.settle();
    console.log(heard.join());
    await world.transport.close();
  `;
  const options = { cwd: folder, encoding: "utf8", timeout: 300_000 } as const;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], options);
  assert.equal(stdout.trim(), ",ö", stderr);
});
