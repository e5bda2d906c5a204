// What goes wrong: each case of the design's list that needs no browser, and is not in another file.
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createLiveTransport, isNotRun, isOutcomeUnknown, type LiveOptions } from "../packages/live/src/index.ts";
import * as F from "../packages/live/src/wire/frame.ts";
import * as M from "../packages/live/src/wire/metadata.ts";
import { Writer } from "../packages/live/src/wire/varint.ts";
import { BehaviourService } from "./gen/tidewire/test/v1/behaviour_pb.js";
import { inPage, withClock, withoutClock, World } from "./support/world.ts";

beforeEach(withClock);
afterEach(withoutClock);

const codeOf = (error: unknown) => ConnectError.from(error).code;

/** The server writes a frame of the test's. */
function write(world: World, kind: number, stream: number, flags: number, put: (out: Writer) => void = () => {}, payload = F.EMPTY): void {
  const out = new Writer();
  const at = F.beginFrame(out, kind, stream, flags);
  put(out);
  F.endMetadata(out, at);
  out.bytes(payload);
  F.endFrame(out, at);
  world.network.socket!.toClient.push(out.take());
}

/** Connects, and sends a request that the server has not answered. */
async function asked(world: World, request: () => Promise<unknown>): Promise<Promise<unknown>> {
  await Promise.all([world.client.look({ key: "warm" }), world.settle()]);
  const reply = request().catch((error) => error);
  await new Promise(setImmediate);
  world.network.socket!.deliver("toServer");
  world.server.pending.length = 0; // Answered by the test.
  return [reply] as never;
}

describe("the connection", () => {
  test("1006 for ever: the backoff grows to half a minute, and no further", async () => {
    const world = new World();
    world.network.isDown = true;
    world.watch("a");
    await world.pass(600_000);
    // At most 30 s apart with jitter; at least as many as without.
    assert.ok(world.network.dials > 20 && world.network.dials < 120, `${world.network.dials}`);
  });

  test("a page that comes back during the backoff dials at once", async () => {
    const world = new World();
    world.network.isDown = true;
    world.watch("a");
    await world.pass(120_000);
    const { dials } = world.network;
    world.network.isDown = false;
    world.transport.wake();
    await world.settle();
    assert.equal(world.network.dials, dials + 1);
    assert.equal(world.status, "open");
  });

  test("waking again and again makes no second socket", async () => {
    const world = new World();
    world.watch("a");
    for (let count = 0; count < 5; count++) world.transport.wake();
    await world.settle();
    for (let count = 0; count < 5; count++) world.transport.wake();
    await world.settle();
    assert.equal(world.network.dials, 1);
  });

  test("a timer that a hidden tab got late asks before it drops", async () => {
    const world = new World();
    const { state } = world.watch("a");
    await world.settle();
    // A minute without timers, as browsers do to hidden tabs; nothing was lost meanwhile.
    mock.timers.setTime(Date.now() + 60_000);
    mock.timers.tick(1);
    await world.settle();
    assert.equal(world.network.dials, 1, "the connection is kept");
    assert.equal(state.isStale, false);
  });

  test("connections that were of use do not make the next wait longer, however short", async () => {
    mock.method(Math, "random", () => 0.99);
    const world = new World();
    const { state } = world.watch("a");
    await world.settle();
    for (let loss = 0; loss < 20; loss++) {
      if (loss >= 10) world.server.restart(); // Or their sessions.
      world.cut();
      await world.pass(1_100);
      assert.deepEqual([world.status, state.isStale], ["open", false], `${loss}`);
    }
    mock.restoreAll();
  });

  test("a server that accepts and ends at once is dialed less and less", async () => {
    const world = new World();
    const accept = world.server.accept.bind(world.server);
    world.server.accept = (pipe) => {
      const connection = accept(pipe);
      const receive = connection.receive.bind(connection);
      connection.receive = (message) => {
        receive(message);
        connection.goAway(21);
      };
      return connection;
    };
    world.watch("a");
    await world.pass(600_000);
    assert.ok(world.network.dials > 20 && world.network.dials < 120, `${world.network.dials}`);
  });

  test("a clock that is set back stops nothing", async () => {
    const world = new World();
    const { heard } = world.watch("a");
    await world.settle();
    const { now } = Date;
    Date.now = () => now() - 3_600_000;
    world.cut();
    const { retryAt } = world.transport.connection.getSnapshot();
    assert.ok(retryAt! >= Date.now() && retryAt! <= Date.now() + 500, "of the clock as it is now");
    await world.pass(1_100);
    assert.deepEqual([world.status, heard], ["open", ["", "stale", "fresh"]]);
    Date.now = () => now() - 7_200_000;
    const socket = world.network.socket!;
    socket.deliver = () => false; // A zombie.
    await world.pass(40_000);
    assert.equal(socket.state, "closed");
    assert.equal(heard[3], "stale");
  });

  test("a page that is told `offline` asks whether that is so, and dials nothing for it", async (context) => {
    const page = inPage(context);
    const world = new World();
    const { heard } = world.watch("a");
    await world.settle();
    page.dispatchEvent(new Event("offline"));
    assert.deepEqual(heard, ["", "stale"]);
    await world.settle();
    assert.deepEqual(heard, ["", "stale", "fresh"], "it was not");
    const socket = world.network.socket!;
    socket.deliver = () => false;
    page.dispatchEvent(new Event("offline"));
    assert.equal(heard.at(-1), "stale");
    world.network.isDown = true;
    await world.pass(3_100);
    assert.equal(socket.state, "closed");
    await world.pass(60_000);
    const { dials } = world.network;
    page.dispatchEvent(new Event("offline"));
    await world.settle();
    assert.equal(world.network.dials, dials);
    world.network.isDown = false;
    page.dispatchEvent(new Event("online"));
    await world.settle();
    assert.equal(world.status, "open");
    await world.transport.close();
  });

  test("`online` that is a lie costs one attempt", async () => {
    const world = new World();
    world.network.isDown = true;
    world.watch("a");
    await world.settle();
    world.transport.wake();
    await world.settle();
    assert.equal(world.status, "connecting");
  });

  test("part of a frame, and one that is too long, end the session", async () => {
    for (const bytes of [new Uint8Array(9), new Uint8Array([0, 0, 9, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0])]) {
      const world = new World();
      await Promise.all([world.client.look({ key: "a" }), world.settle()]);
      const { socket } = world.network;
      socket!.toClient.push(bytes);
      await world.settle();
      assert.equal(world.status, "closed");
      assert.equal(socket!.closedWith, bytes.length === 9 ? 4005 : 4004);
    }
  });

  test("two transports are two sessions", async () => {
    const world = new World();
    const other = createLiveTransport({ baseUrl: "http://server.test", webSocket: world.network.webSocket });
    const second = createClient(BehaviourService, other);
    await Promise.all([world.client.echo({ text: "k=1" }), second.echo({ text: "k=2" }), world.settle()]);
    assert.equal(world.server.hellos.length, 2);
    assert.equal(world.server.values.get("k"), "2");
    await other.close();
  });

  test("without WebSocket here, calls say so", async () => {
    const given = Object.getOwnPropertyDescriptor(globalThis, "WebSocket")!;
    Object.defineProperty(globalThis, "WebSocket", { value: undefined, configurable: true });
    try {
      const transport = createLiveTransport({ baseUrl: "http://server.test" });
      const error = await createClient(BehaviourService, transport).look({}).catch((cause) => cause);
      assert.equal(codeOf(error), Code.Unavailable);
      assert.match(error.message, /WebSocket/);
    } finally {
      Object.defineProperty(globalThis, "WebSocket", given);
    }
  });
});

describe("calls", () => {
  test("more than the server takes at once wait, and all are answered", async () => {
    const world = new World();
    const all = Promise.all(Array.from({ length: 2_500 }, (_, key) => world.client.look({ key: `${key}` })));
    await world.settle();
    for (let round = 0; round < 3_000; round++) if (!world.server.run()) break;
    await world.settle();
    await world.settle();
    assert.equal((await all).length, 2_500);
  });

  test("commands wait while too many of their replies are kept", async () => {
    const world = new World();
    const all = Promise.all(Array.from({ length: 1_300 }, (_, key) => world.client.echo({ text: `${key}=1` })));
    await world.settle();
    assert.equal((await all).length, 1_300);
    assert.ok([...world.server.runs.values()].every((runs) => runs === 1));
  });

  test("repeated and binary headers, details of unknown types, and codes of the future come through", async () => {
    const world = new World();
    const [reply] = (await asked(world, () => world.client.look({ key: "a" }))) as unknown as [Promise<unknown>];
    write(world, F.ERROR, 1, 0, (out) => {
      M.putNumber(out, M.CODE, 99);
      const detail = new Writer();
      detail.string(M.utf8Bytes("of.another.Schema"));
      detail.bytes(new Uint8Array([1, 2, 3]));
      M.putField(out, 10, detail.take());
      M.putHeaders(out, [["x-one", "a"], ["x-one", "b"], ["x-data-bin", "AAEC"]]);
    });
    await world.settle();
    const error = ConnectError.from(await reply);
    assert.equal(error.code, Code.Unknown);
    assert.equal(error.metadata.get("x-one"), "a, b");
    assert.equal(error.metadata.get("x-data-bin"), "AAEC");
    assert.deepEqual(error.details, [{ type: "of.another.Schema", value: new Uint8Array([1, 2, 3]) }]);
  });

  test("what the server says of a command's outcome is told", async () => {
    for (const [outcome, unknown, notRun] of [[1, false, true], [2, true, false], [3, false, false], [77, true, false]] as const) {
      const world = new World();
      const [reply] = (await asked(world, () => world.client.echo({ text: "k=v" }))) as unknown as [Promise<unknown>];
      write(world, F.ERROR, 1, 0, (out) => {
        M.putNumber(out, M.CODE, 10);
        M.putNumber(out, M.OUTCOME, outcome);
      });
      await world.settle();
      const error = await reply;
      assert.deepEqual([isOutcomeUnknown(error), isNotRun(error)], [unknown, notRun], `${outcome}`);
    }
  });

  test("a request that the server would refuse for its size ends here, and names the limit", async () => {
    const world = new World();
    const call = world.client.echo({ text: "x".repeat(5_000_000) }).catch((error) => error);
    const headers = world.client.look({}, { headers: { "x-long": "y".repeat(20_000) } }).catch((error) => error);
    await world.settle();
    assert.match(ConnectError.from(await call).message, /resource_exhausted.*5000005 bytes, the server takes 4194304/);
    assert.match(ConnectError.from(await headers).message, /resource_exhausted.*headers/);
    assert.equal((await Promise.all([world.client.look({ key: "a" }), world.settle()]))[0].value, "");
  });

  test("an answer that is not such a message is the call's error, and the connection goes on", async () => {
    const world = new World();
    const [reply] = (await asked(world, () => world.client.look({ key: "a" }))) as unknown as [Promise<unknown>];
    write(world, F.REPLY, 1, F.END, undefined, new Uint8Array([0xff, 0xff]));
    await world.settle();
    assert.equal(codeOf(await reply), Code.InvalidArgument);
    assert.equal(world.status, "open");
  });

  const message = [10, 1, 0x61];
  const large = new Uint8Array([10, 0x84, 0x80, 1, ...Array(16_388).fill(0x61)]);
  const piece = (world: World) => {
    write(world, F.ITEMS, 1, F.MORE, undefined, large.subarray(0, 16_384));
    write(world, F.ITEMS, 1, 0, undefined, large.subarray(16_384));
  };
  const item = (world: World, count: number) => {
    write(world, F.ITEMS, 1, 0, undefined, new Uint8Array(Array(count).fill([message.length, ...message]).flat()));
  };
  for (const [how, put] of [
    ["in one frame", (world: World) => item(world, 2)],
    ["in two", (world: World) => [1, 2].forEach(() => item(world, 1))],
    ["in pieces", (world: World) => [1, 2].forEach(() => piece(world))],
    ["after none", () => {}],
  ] as const) {
    test(`an answer of more than one message, or none, is an internal error: ${how}`, async () => {
      const world = new World();
      const [reply] = (await asked(world, () => world.client.echo({ text: "a" }))) as unknown as [Promise<unknown>];
      write(world, F.REPLY, 1, 0);
      put(world);
      write(world, F.STREAM_END, 1, 0);
      await world.settle();
      const error = await reply;
      assert.equal(codeOf(error), Code.Internal);
      assert.ok(!isNotRun(error) && !isOutcomeUnknown(error), "the handler has answered");
      assert.equal(world.status, "open");
    });
  }

  for (const [how, put] of [["small", (world: World) => item(world, 1)], ["in pieces", piece]] as const) {
    test(`an answer that comes as a stream of one message is that: ${how}`, async () => {
      const world = new World();
      const [reply] = (await asked(world, () => world.client.echo({ text: "a" }))) as unknown as [Promise<{ text: string }>];
      write(world, F.REPLY, 1, 0);
      put(world);
      write(world, F.STREAM_END, 1, 0);
      await world.settle();
      assert.match((await reply).text, /^a+$/);
    });
  }
});

describe("watches", () => {
  const named = (out: Writer) => M.putField(out, M.VALIDATOR, new Uint8Array(16).fill(5));
  const value = new Uint8Array([10, 1, 0x61]);

  async function watching() {
    const world = new World();
    await Promise.all([world.client.look({ key: "warm" }), world.settle()]);
    const watch = world.watch("a");
    await new Promise(setImmediate);
    world.network.socket!.deliver("toServer");
    world.server.pending.length = 0;
    return { world, ...watch };
  }

  test("an answer that is suspect from the start is shown as stale", async () => {
    const { world, heard } = await watching();
    write(world, F.REPLY, 1, F.WATCHED | F.SUSPECT, named, value);
    await world.settle();
    assert.deepEqual(heard, ["a", "stale"]);
    write(world, F.REPLY, 1, F.WATCHED | F.UNCHANGED, named);
    await world.settle();
    assert.deepEqual(heard, ["a", "stale", "fresh"]);
  });

  test("what was overtaken while it was made is shown, and stays stale until one is fresh", async () => {
    const { world, heard } = await watching();
    const other = (out: Writer) => M.putField(out, M.VALIDATOR, new Uint8Array(16).fill(6));
    write(world, F.REPLY, 1, F.WATCHED, named, value);
    write(world, F.REPLY, 1, F.WATCHED | F.SUSPECT, other, new Uint8Array([10, 1, 0x62]));
    await world.settle();
    write(world, F.ERROR, 1, F.WATCHED | F.SUSPECT, (out) => {
      named(out);
      M.putNumber(out, M.CODE, 5);
    });
    await world.settle();
    assert.deepEqual(heard, ["a", "b", "stale", `error ${Code.NotFound}`, "stale"]);
    write(world, F.REPLY, 1, F.WATCHED, named, value);
    await world.settle();
    assert.deepEqual(heard.slice(5), ["a"]);
  });

  test("UNCHANGED of nothing that is held ends the session as malformed", async () => {
    const { world } = await watching();
    write(world, F.REPLY, 1, F.WATCHED | F.UNCHANGED, named);
    await world.settle();
    assert.equal(world.network.sockets.size, 0);
  });

  for (const code of [Code.PermissionDenied, Code.Unauthenticated, Code.InvalidArgument, Code.Unimplemented]) {
    test(`no watch ends by an error that the server tells nothing of: ${Code[code]}`, async () => {
      const world = new World();
      const { heard, state } = world.watch("a");
      await world.settle();
      world.server.failsWith = code;
      world.server.restart();
      world.cut();
      await world.pass(1_200);
      assert.deepEqual(heard, ["", "stale", `error ${code}`, "stale"]);
      world.server.failsWith = 0;
      world.server.values.set("a", "b");
      await world.pass(40_000);
      assert.deepEqual(heard.slice(4), ["b"]);
      assert.equal(state.isStale, false);
    });

    for (const [when, act, options] of [
      ["a command of one's own", async (world) => void (await Promise.all([world.client.echo({ text: "b=1" }), world.settle()]))],
      ["a new connection", async (world) => {
        world.cut();
        await world.pass(1_000);
      }],
      ["a new session", async (world) => {
        world.server.restart();
        world.cut();
        await world.pass(1_000);
      }],
      ["new headers", (world) => world.pass(8_100), { headers: () => ({ authorization: "x" }) }],
      ["the page's return", async (world) => {
        world.transport.wake();
        await world.settle();
      }],
    ] as [string, (world: World) => Promise<void>, Partial<LiveOptions>?][]) {
      test(`what is refused is asked again at once after ${when}: ${Code[code]}`, async () => {
        const world = new World(options, { expiresMs: 10_000 });
        world.server.failsWith = code;
        const { state, heard } = world.watch("a");
        await world.settle();
        assert.deepEqual(heard, [`error ${code}`, "stale"]);
        world.server.failsWith = 0;
        world.server.values.set("a", "b");
        await act(world);
        assert.deepEqual(state, { value: "b", isStale: false });
      });
    }
  }

  test("what is polled is asked at once when a connection opens", async () => {
    const world = new World({}, { watchesNothing: true });
    const { state } = world.watch("a");
    await world.settle();
    const before = world.server.requests.length;
    world.server.values.set("a", "b");
    world.cut();
    await world.pass(600);
    assert.equal(state.value, "b");
    assert.equal(world.server.requests.length, before + 1);
  });

  test("a credential that stays refused is asked for once, and its watches go on", async () => {
    const asked: string[] = [];
    const tokens = new Set(["good"]);
    const world = new World({ headers: (why) => (asked.push(why), { authorization: "bad" }) }, { tokens });
    const watches = ["a", "b", "c"].map((key) => world.watch(key));
    await world.pass(300_000);
    assert.deepEqual(asked, ["connect", "refused"]);
    tokens.add("bad");
    await world.pass(40_000);
    assert.ok(watches.every(({ state }) => state.value === "" && !state.isStale));
  });

  test("where other headers are not to be had, the watch goes on, too", async () => {
    const tokens = new Set(["good"]);
    const headers = (why: string) => {
      if (why === "refused") throw new Error("no token");
      return { authorization: "bad" };
    };
    const world = new World({ headers }, { tokens });
    const { heard, state } = world.watch("a");
    await world.settle();
    assert.deepEqual(heard, [`error ${Code.Unauthenticated}`, "stale"]);
    tokens.add("bad");
    await world.pass(40_000);
    assert.deepEqual(state, { value: "", isStale: false });
  });

  test("an answer that is over as it comes is asked again soon, and seldom where that stays so", async () => {
    const world = new World();
    world.server.isLate = true;
    const { state } = world.watch("a");
    await world.settle();
    world.server.isLate = false;
    world.server.values.set("a", "b");
    await world.pass(100);
    assert.deepEqual(state, { value: "b", isStale: false });
    world.server.restart();
    world.server.isLate = true;
    world.cut();
    const before = world.server.requests.length;
    await world.pass(60_000);
    assert.ok(world.server.requests.length - before < 30);
  });

  test("a value that crosses the end of its watch is not heard", async () => {
    const { world, heard, end } = await watching();
    write(world, F.REPLY, 1, F.WATCHED, named, value);
    await world.settle();
    end();
    write(world, F.REPLY, 1, F.WATCHED, named, value);
    await world.settle();
    assert.deepEqual(heard, ["a"]);
    assert.equal(world.status, "open");
  });

  test("an error that is watched is an answer, and the next one is, too", async () => {
    const { world, heard } = await watching();
    write(world, F.ERROR, 1, F.WATCHED, (out) => {
      named(out);
      M.putNumber(out, M.CODE, 5);
    });
    write(world, F.REPLY, 1, F.WATCHED, named, value);
    await world.settle();
    assert.deepEqual(heard, [`error ${Code.NotFound}`, "a"]);
  });

  test("ten thousand over a lost session are asked again over seconds, with what is held", async () => {
    const world = new World();
    const watches = Array.from({ length: 10_000 }, (_, key) => world.watch(`${key}`));
    const all = () => watches.every(({ state }) => !state.isStale);
    while (!all()) await drainNetwork(world);
    world.server.restart();
    world.cut();
    const before = world.server.requests.length;
    mock.timers.tick(600);
    await drainNetwork(world);
    mock.timers.tick(1_000);
    await drainNetwork(world);
    const soon = world.server.requests.length - before;
    assert.ok(soon > 0 && soon <= 2_100, `${soon} within the first second`);
    for (let tick = 0; tick < 240 && !all(); tick++) {
      mock.timers.tick(50);
      await drainNetwork(world);
    }
    assert.ok(all(), "within 12 seconds");
  });
});

/** Delivers much at once: the steps of `settle` are for schedules. */
async function drainNetwork(world: World): Promise<void> {
  for (let round = 0; round < 4; round++) {
    await new Promise(setImmediate);
    const { socket } = world.network;
    if (socket?.state === "connecting") socket.open();
    while (socket?.deliver("toServer"));
    while (world.server.run());
    while (socket?.deliver("toClient"));
  }
}
