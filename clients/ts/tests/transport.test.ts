// The transport over sockets that the test cuts, on a clock that the test moves.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { isNotRun, isOutcomeUnknown } from "../packages/live/src/index.ts";
import { BehaviourService } from "./gen/tidewire/test/v1/behaviour_pb.js";
import { withClock, withoutClock, World } from "./support/world.ts";

beforeEach(withClock);
afterEach(withoutClock);

const codeOf = (error: unknown) => ConnectError.from(error).code;

describe("calls", () => {
  test("nothing is dialed before the first call; the calls of one task share a connection", async () => {
    const world = new World();
    assert.equal(world.status, "idle");
    assert.equal(world.network.dials, 0);
    world.server.values.set("a", "1");
    const replies = Promise.all([world.client.look({ key: "a" }), world.client.look({ key: "b" })]);
    await world.settle();
    assert.deepEqual((await replies).map(({ value }) => value), ["1", ""]);
    assert.equal(world.network.dials, 1);
    assert.equal(world.status, "open");
  });

  test("a command whose reply is lost is answered after reconnecting, and ran once", async () => {
    const world = new World();
    const reply = world.client.echo({ text: "k=v" });
    await world.settle(); // The reply was delivered here; the next is cut.
    await reply;
    const second = world.client.echo({ text: "k=w" });
    await new Promise(setImmediate);
    world.network.socket!.deliver("toServer");
    world.server.run();
    world.cut(); // The reply is lost on its way.
    await world.pass(1_000);
    assert.equal((await second).text, "k=w");
    assert.equal(world.server.runs.get("k=w"), 1);
    assert.equal(world.server.hellos.at(-1)!.resumed, true);
  });

  for (const isNotDurable of [false, true])
  test(`a command that was sent when the server restarted is unknown, a query is asked again${isNotDurable ? ", without keys" : ""}`, async () => {
    const world = new World({}, { isNotDurable });
    await Promise.all([world.client.look({ key: "a" }), world.settle()]);
    const command = world.client.echo({ text: "k=v" }).then(() => undefined, (error) => error);
    const query = world.client.look({ key: "k" });
    await new Promise(setImmediate);
    world.network.socket!.deliver("toServer");
    world.server.restart();
    world.cut();
    await world.pass(3_000);
    const error = await command;
    assert.equal(codeOf(error), Code.Aborted);
    assert.ok(isOutcomeUnknown(error));
    assert.ok(!isNotRun(error));
    assert.equal((await query).value, "");
  });

  test("with keys kept, a command of a lost session is sent again and runs once", async () => {
    const world = new World({}, { keepsKeys: true });
    await Promise.all([world.client.look({ key: "a" }), world.settle()]);
    const command = world.client.echo({ text: "k=v" });
    await new Promise(setImmediate);
    world.network.socket!.deliver("toServer");
    world.server.run();
    world.server.restart();
    world.cut();
    await world.pass(3_000);
    assert.equal((await command).text, "k=v");
    assert.equal(world.server.runs.get("k=v"), 1);
  });

  test("a call that was never sent ends with the attempt to connect: it did not run", async () => {
    const world = new World();
    world.network.isDown = true;
    const call = world.client.echo({ text: "k=v" }).then(() => undefined, (error) => error);
    await world.settle();
    const error = await call;
    assert.equal(codeOf(error), Code.Unavailable);
    assert.ok(isNotRun(error));
    const { status, retryAt } = world.transport.connection.getSnapshot();
    assert.equal(status, "connecting");
    assert.ok(retryAt! > Date.now() - 1 && retryAt! <= Date.now() + 500);
  });

  test("a call during the backoff dials soon, and is answered when the server is back", async () => {
    const world = new World();
    world.network.isDown = true;
    await assert.rejects(Promise.all([world.client.look({ key: "a" }), world.settle()]));
    await world.pass(60_000); // The backoff has grown.
    world.network.isDown = false;
    const reply = world.client.look({ key: "a" });
    await world.pass(1_100);
    assert.equal((await reply).value, "");
  });

  test("abort before, during and after", async () => {
    const world = new World();
    await Promise.all([world.client.look({ key: "a" }), world.settle()]);
    const before = AbortSignal.abort();
    await assert.rejects(world.client.look({ key: "a" }, { signal: before }), { code: Code.Canceled });
    const controller = new AbortController();
    const call = world.client.echo({ text: "k=v" }, { signal: controller.signal }).catch((error) => error);
    await new Promise(setImmediate);
    world.network.socket!.deliver("toServer");
    controller.abort();
    const error = await call;
    assert.equal(codeOf(error), Code.Canceled);
    assert.ok(isOutcomeUnknown(error), "it was sent");
    await world.settle();
    assert.equal(world.server.runs.get("k=v"), 1, "a command runs to its end");
    const after = new AbortController();
    const done = world.client.look({ key: "k" }, { signal: after.signal });
    await world.settle();
    after.abort();
    assert.equal((await done).value, "v");
  });

  test("a timeout passes while there is no connection", async () => {
    const world = new World();
    await Promise.all([world.client.look({ key: "a" }), world.settle()]);
    const call = world.client.echo({ text: "k=v" }, { timeoutMs: 2_000 }).catch((error) => error);
    await new Promise(setImmediate);
    world.cut();
    world.network.isDown = true;
    await world.pass(2_100);
    const error = await call;
    assert.equal(codeOf(error), Code.DeadlineExceeded);
    assert.ok(isOutcomeUnknown(error));
  });

  test("a text message ends the session as malformed", async () => {
    const world = new World();
    await Promise.all([world.client.look({ key: "a" }), world.settle()]);
    world.network.socket!.onmessage!({ data: "hello" });
    await world.settle();
    assert.equal(world.status, "closed");
    await assert.rejects(Promise.all([world.client.look({ key: "a" }), world.settle()]));
  });
});

describe("watches", () => {
  test("each change is told, and equal answers are not", async () => {
    const world = new World();
    const { heard } = world.watch("a");
    await world.settle();
    world.server.set("a", "1");
    world.server.set("a", "1");
    await world.settle();
    world.server.set("a", "2");
    await world.settle();
    assert.deepEqual(heard, ["", "1", "2"]);
  });

  test("what was written between two answers is left out, the last is not", async () => {
    const world = new World();
    const { heard } = world.watch("a");
    await world.settle();
    for (const value of ["1", "2", "3"]) world.server.set("a", value);
    await world.settle();
    assert.equal(heard.at(-1), "3");
  });

  test("the writer hears of what its command changed before the reply", async () => {
    const world = new World();
    const { heard } = world.watch("k");
    await world.settle();
    const order: string[] = [];
    const reply = world.client.echo({ text: "k=v" }).then(() => order.push(`reply after ${heard.at(-1)}`));
    await world.settle();
    await reply;
    assert.deepEqual(order, ["reply after v"]);
  });

  test("a lost connection makes answers stale; what did not change is confirmed without a request", async () => {
    const world = new World();
    const { heard, state } = world.watch("a");
    await world.settle();
    const before = world.server.requests.length;
    world.cut();
    assert.deepEqual(heard, ["", "stale"]);
    await world.pass(600);
    assert.deepEqual(heard, ["", "stale", "fresh"]);
    assert.equal(state.isStale, false);
    assert.equal(world.server.requests.length, before);
  });

  test("a change while the connection was lost is told after it", async () => {
    const world = new World();
    const { heard } = world.watch("a");
    await world.settle();
    world.cut();
    world.server.set("a", "1");
    await world.pass(1_200);
    assert.deepEqual(heard, ["", "stale", "1"]);
  });

  test("over a restart it is asked again with what is held", async () => {
    const world = new World();
    const same = world.watch("a");
    const other = world.watch("b");
    await world.settle();
    world.server.restart();
    world.server.values.set("b", "2");
    world.cut();
    await world.pass(1_500);
    assert.deepEqual(same.heard, ["", "stale", "fresh"]);
    assert.deepEqual(other.heard, ["", "stale", "2"]);
  });

  test("a watch that ends is told to the server, and hears nothing more", async () => {
    const world = new World();
    const { heard, end } = world.watch("a");
    await world.settle();
    end();
    world.server.set("a", "1");
    await world.settle();
    assert.deepEqual(heard, [""]);
  });

  test("a watch that is refused is polled, and never passes as current", async () => {
    const world = new World({}, { watchesNothing: true });
    const { heard, state } = world.watch("a");
    await world.settle();
    assert.deepEqual(heard, ["", "stale"]);
    world.server.set("a", "1");
    await world.pass(7_000);
    assert.ok(heard.includes("1"));
    assert.ok(state.isStale);
  });

  test("notify tells once and ends", async () => {
    const world = new World();
    const { heard } = world.watch("a", { mode: "notify" });
    await world.settle();
    world.server.set("a", "1");
    world.server.set("a", "2");
    await world.settle();
    assert.deepEqual(heard, ["", "stale"]);
  });

  test("with a least interval fewer answers come, and the newest is among them", async () => {
    const world = new World();
    const { heard } = world.watch("a", { minInterval: 1_000 });
    await world.settle();
    for (let value = 1; value <= 20; value++) {
      world.server.set("a", `${value}`);
      await world.pass(100);
    }
    await world.pass(1_100);
    const values = heard.filter((word) => /^\d/.test(word));
    assert.ok(values.length <= 4, values.join());
    assert.equal(values.at(-1), "20");
  });

  test("a command cannot be watched", () => {
    const { transport } = new World();
    const nothing = { next() {}, stale() {}, fresh() {}, error() {} };
    const watch = () => transport.watch(BehaviourService.method.echo, { text: "k=v" }, nothing);
    assert.throws(watch, /Echo is not a query/);
  });
});

describe("the connection", () => {
  test("a server that is silent is asked after 10 s, and given up after 25 s", async () => {
    const world = new World();
    world.watch("a");
    await world.settle();
    const socket = world.network.socket!;
    socket.deliver = () => false; // A zombie: open, and nothing arrives.
    await world.pass(10_100);
    assert.equal(socket.state, "open");
    await world.pass(15_000);
    assert.equal(socket.state, "closed");
    await world.pass(1_000);
    assert.equal(world.status, "open");
  });

  test("a socket that hangs in CONNECTING is given up after 5 s", async () => {
    const world = new World();
    world.network.isStuck = true;
    const call = world.client.look({ key: "a" }).catch((error) => error);
    await new Promise(setImmediate);
    const socket = world.network.socket!;
    await world.pass(5_100);
    assert.equal(socket.state, "closed");
    assert.equal(codeOf(await call), Code.Unavailable);
  });

  test("closing says goodbye, ends calls and watches, and dials no more", async () => {
    const world = new World();
    const { heard } = world.watch("a");
    await world.settle();
    const call = world.client.echo({ text: "k=v" }).catch((error) => error);
    await world.transport.close();
    assert.ok(isNotRun(await call) || codeOf(await call) !== undefined);
    assert.equal(world.status, "closed");
    const { dials } = world.network;
    await world.pass(60_000);
    assert.equal(world.network.dials, dials);
    assert.equal(heard[0], "");
  });

  test("a closed transport keeps no process from ending", () => {
    const program = `
      import { createLiveTransport } from "./packages/live/src/index.ts";
      import { BehaviourService } from "./tests/gen/tidewire/test/v1/behaviour_pb.js";
      const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
      const socket = { bufferedAmount: 0, send() {}, close() {} };
      const transport = createLiveTransport({ baseUrl: "http://x.test", webSocket: () => socket });
      transport.unary(BehaviourService.method.look, undefined, undefined, undefined, {}).catch(() => {});
      await new Promise(setImmediate);
      socket.onopen();
      const before = timers();
      await transport.close();
      console.log(before, timers());
    `;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module-typescript", "--eval", program], {
      cwd: new URL("..", import.meta.url), encoding: "utf8", timeout: 300_000,
    });
    assert.equal(stdout.trim(), "1 0", stderr);
  });

  test("what its options need is loaded when it is made, not when the network is bad", () => {
    const program = `
      import { registerHooks } from "node:module";
      const loaded = [];
      registerHooks({
        load(url, context, next) {
          loaded.push(url.split("/").at(-1).split(".")[0]);
          return next(url, context);
        },
      });
      const { createLiveTransport } = await import("./packages/live/src/index.ts");
      const after = async (options) => {
        createLiveTransport({ baseUrl: "http://x.test", ...options });
        for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
        return ["fallback", "interceptors"].map((name) => loaded.includes(name)).join();
      };
      console.log(await after({}), await after({ fallback: async () => {} }), await after({ interceptors: [(next) => next] }));
    `;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], {
      cwd: new URL("..", import.meta.url), encoding: "utf8", timeout: 300_000,
    });
    assert.equal(stdout.trim(), "false,false true,false true,true", stderr);
  });

  test("the time of a call passes while what interceptors need is loaded, and its signal ends it", async () => {
    const world = new World({ interceptors: [(next) => next] });
    const timed = world.client.echo({ text: "k=1" }, { timeoutMs: 50 }).catch((error) => error);
    mock.timers.tick(60);
    const controller = new AbortController();
    const ended = world.client.echo({ text: "k=2" }, { signal: controller.signal }).catch((error) => error);
    controller.abort();
    const errors = await Promise.all([timed, ended]);
    await world.settle();
    assert.deepEqual(errors.map(codeOf), [Code.DeadlineExceeded, Code.Canceled]);
    assert.deepEqual(errors.map(isNotRun), [true, true]);
    assert.deepEqual(world.server.requests, []);
  });

  test("closing while connecting", async () => {
    const world = new World();
    const call = world.client.look({ key: "a" }).catch((error) => error);
    await world.transport.close();
    assert.ok(codeOf(await call));
    await world.settle();
    assert.equal(world.status, "closed");
    assert.equal(world.network.sockets.size, 0);
  });

  test("a drain lets open calls end, then dials again and resumes", async () => {
    const world = new World();
    const { heard } = world.watch("a");
    await world.settle();
    const call = world.client.look({ key: "b" });
    await new Promise(setImmediate);
    world.network.socket!.deliver("toServer");
    [...world.server.connections][0]!.goAway(0, { grace: 10_000 });
    world.network.socket!.deliver("toClient");
    const late = world.client.look({ key: "c" });
    await world.pass(1_500);
    assert.equal((await call).value, "");
    assert.equal((await late).value, "");
    assert.equal(world.network.dials, 2);
    assert.equal(world.server.hellos.at(-1)!.resumed, true);
    assert.deepEqual(heard.slice(-1), ["fresh"]);
  });

  test("waking asks whether answers are current", async () => {
    const world = new World();
    const { heard } = world.watch("a");
    await world.settle();
    world.transport.wake();
    assert.deepEqual(heard, ["", "stale"]);
    await world.settle();
    assert.deepEqual(heard, ["", "stale", "fresh"]);
  });

  test("a clock that jumps by more than a pause is a pause", async () => {
    const world = new World();
    const { heard } = world.watch("a");
    await world.settle();
    // A laptop slept: the timer comes an hour late.
    const { mock } = await import("node:test");
    mock.timers.setTime(Date.now() + 3_600_000);
    mock.timers.tick(1);
    await world.settle();
    assert.ok(heard.includes("stale"));
    await world.pass(3_500);
    assert.equal(heard.at(-1), "fresh");
  });
});

describe("identity", () => {
  test("headers go with the hello, and a refused call asks for others once for all", async () => {
    const asked: string[] = [];
    const world = new World(
      {
        headers: (why) => {
          asked.push(why);
          return { authorization: why === "refused" ? "new" : "old" };
        },
      },
      { tokens: new Set(["new"]) },
    );
    const calls = Promise.all([1, 2, 3].map((key) => world.client.look({ key: `${key}` })));
    await world.settle();
    assert.equal((await calls).length, 3);
    assert.deepEqual(asked, ["connect", "refused"]);
  });

  test("a refusal that stays is the call's error", async () => {
    const world = new World({ headers: () => ({ authorization: "bad" }) }, { tokens: new Set(["good"]) });
    const call = world.client.look({ key: "a" }).catch((error) => error);
    await world.settle();
    assert.equal(codeOf(await call), Code.Unauthenticated);
  });

  test("credentials are renewed before they expire", async () => {
    const asked: string[] = [];
    const world = new World({ headers: (why) => (asked.push(why), { authorization: why }) }, { expiresMs: 100_000 });
    world.watch("a");
    await world.settle();
    await world.pass(81_000);
    assert.deepEqual(asked, ["connect", "expiring"]);
    assert.deepEqual(world.server.auths, [[["authorization", "expiring"]]]);
  });

  test("headers() that hangs or rejects is a failed attempt, not a dead client", async () => {
    let answer: "hang" | "reject" | "give" = "reject";
    const world = new World({
      headers: () => {
        if (answer === "hang") return new Promise(() => {});
        if (answer === "reject") throw new Error("no token");
        return {};
      },
    });
    const first = world.client.look({ key: "a" }).catch((error) => error);
    await world.settle();
    assert.match((await first).message, /no token/);
    answer = "hang";
    await world.pass(15_000);
    answer = "give";
    await world.pass(30_000);
    assert.equal(world.status, "open");
  });

  test("a server that refuses the connection asks for other headers, then says so", async () => {
    const world = new World({ headers: () => ({ authorization: "x" }) });
    world.server.isRefusing = 19;
    const call = world.client.look({ key: "a" }).catch((error) => error);
    await world.settle();
    assert.equal(codeOf(await call), Code.Unauthenticated);
    assert.equal(world.status, "unauthenticated");
    world.server.isRefusing = 0;
    world.transport.wake();
    await world.settle();
    assert.equal(world.status, "open");
  });

  for (const [reason, code, status, why] of [
    [3, Code.Unavailable, "closed", "needs a feature that this side has not"],
    [19, Code.Unauthenticated, "unauthenticated", "refuses the credential, and there is no other"],
  ] as const) {
    test(`calls that were sent end where the server, on resuming, ${why}`, async () => {
      const world = new World();
      const { heard } = world.watch("a");
      await world.settle();
      const [query, command] = [world.client.look({ key: "b" }), world.client.echo({ text: "b=1" })].map((call) => call.catch((error) => error));
      await new Promise(setImmediate);
      world.cut();
      world.server.isRefusing = reason;
      const unsent = world.client.look({ key: "c" }).catch((error) => error);
      await world.pass(2_000);
      assert.equal(world.status, status);
      assert.equal(codeOf(await query), code);
      assert.equal(codeOf(await unsent), code);
      assert.ok(isNotRun(await unsent));
      const error = await command;
      assert.ok(isOutcomeUnknown(error), "it may have run");
      assert.equal(codeOf(error), Code.Aborted);
      assert.deepEqual(heard, ["", "stale"]);
      const { dials } = world.network;
      await world.pass(60_000);
      assert.equal(world.network.dials, dials, "nobody dials by itself");
    });
  }
});
