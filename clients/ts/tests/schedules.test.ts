// Random schedules: connections are cut at any byte, the server restarts, calls and watches come and
// go. No command runs twice, no outcome is a lie, no watch misses the last change, and nothing that
// passes as current is older than what this client wrote itself.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import fc from "fast-check";
import { Code, ConnectError } from "@connectrpc/connect";
import { isNotRun, isOutcomeUnknown } from "../packages/live/src/index.ts";
import { withClock, withoutClock, World } from "./support/world.ts";

const KEYS = ["a", "b", "c"];

type Step =
  | { do: "command" | "external" | "query" | "watch"; key: string }
  | { do: "unwatch"; which: number }
  | { do: "toServer" | "toClient" | "run" | "restart" | "wake" | "drain" | "flow" }
  | { do: "abort"; which: number }
  | { do: "cut"; toServer: number; toClient: number }
  | { do: "pass"; milliseconds: number };

const key = fc.constantFrom(...KEYS);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("command" as const), key }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("external" as const), key }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("query" as const), key }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("watch" as const), key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("unwatch" as const), which: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("abort" as const), which: fc.nat(9) }) },
  { weight: 8, arbitrary: fc.constantFrom<Step>({ do: "toServer" }, { do: "toClient" }, { do: "run" }) },
  { weight: 4, arbitrary: fc.constant<Step>({ do: "flow" }) },
  { weight: 3, arbitrary: fc.constantFrom<Step>({ do: "restart" }, { do: "wake" }, { do: "drain" }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("cut" as const), toServer: fc.nat(300), toClient: fc.nat(400) }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("pass" as const), milliseconds: fc.nat(900) }) },
);

interface Sent {
  text: string;
  key: string;
  outcome: "pending" | "replied" | "not run" | "unknown";
  isAborted: boolean;
  controller: AbortController;
}

type Keys = "kept" | "not kept" | "unknown to the server";

async function play(steps: Step[], keys: Keys, seed: number): Promise<void> {
  const random = Math.random;
  Math.random = mulberry(seed);
  withClock();
  const world = new World({}, { keepsKeys: keys === "kept", isNotDurable: keys === "unknown to the server" });
  const { server, network } = world;
  const sent: Sent[] = [];
  const queries: { isDone: boolean }[] = [];
  const watches: (ReturnType<World["watch"]> & { key: string; isOver: boolean })[] = [];
  let count = 0;
  let failure: unknown;
  try {
    const check = () => {
      for (const [text, runs] of server.runs) assert.ok(runs <= 1, `${text} ran ${runs} times`);
      for (const { state, key, isOver } of watches) {
        if (isOver || state.isStale) continue;
        assert.equal(world.status, "open", "without a connection nothing passes as current");
        for (const { outcome, text, key: other } of sent) {
          if (outcome !== "replied" || other !== key) continue;
          const written = server.log.indexOf(text.split("=")[1]!);
          const seen = server.log.indexOf(state.value!);
          assert.ok(seen >= written, `${state.value} passes as current after ${text} was answered`);
        }
      }
    };
    const act = async (step: Step) => {
      const { socket } = network;
      switch (step.do) {
        case "command": {
          const text = `${step.key}=${++count}`;
          const one: Sent = { text, key: step.key, outcome: "pending", isAborted: false, controller: new AbortController() };
          sent.push(one);
          world.client.echo({ text }, { signal: one.controller.signal }).then(
            () => {
              one.outcome = "replied";
              try {
                check();
              } catch (error) {
                failure ??= error; // Nobody awaits this.
              }
            },
            (error) => {
              if (isNotRun(error)) one.outcome = "not run";
              else if (isOutcomeUnknown(error)) one.outcome = "unknown";
              else assert.fail(`${text}: ${error}`);
            },
          );
          break;
        }
        case "external":
          server.set(step.key, `x${++count}`);
          break;
        case "query": {
          const query = { isDone: false };
          queries.push(query);
          const done = () => void (query.isDone = true);
          world.client.look({ key: step.key }).then(done, (error) => {
            assert.equal(ConnectError.from(error).code, Code.Unavailable);
            done();
          });
          break;
        }
        case "watch":
          watches.push({ ...world.watch(step.key), key: step.key, isOver: false });
          break;
        case "unwatch": {
          const watch = watches[step.which];
          if (watch && !watch.isOver) {
            watch.isOver = true;
            watch.end();
          }
          break;
        }
        case "abort": {
          const one = sent[sent.length - 1 - step.which];
          if (one?.outcome === "pending") one.isAborted = true;
          one?.controller.abort();
          break;
        }
        case "toServer":
        case "toClient":
          if (socket?.state === "connecting") socket.open();
          else socket?.deliver(step.do);
          break;
        case "run":
          server.run();
          break;
        case "flow":
          await world.settle();
          break;
        case "restart":
          server.restart();
          break;
        case "wake":
          world.transport.wake();
          break;
        case "drain":
          [...server.connections].at(-1)?.goAway(0, { grace: 500 });
          break;
        case "cut":
          socket?.cut(step.toServer, step.toClient);
          break;
        case "pass":
          mock.timers.tick(step.milliseconds);
      }
      await new Promise(setImmediate);
      check();
      if (failure) throw failure;
    };
    for (const one of steps) await act(one);
    // The network is good from now on, and all comes to its end.
    for (let round = 0; round < 12; round++) await world.pass(1_000);
    check();
    if (failure) throw failure;
    for (const { text, outcome, key } of sent) {
      const runs = server.runs.get(text) ?? 0;
      assert.notEqual(outcome, "pending", `${text} has no end`);
      if (outcome === "replied") assert.equal(runs, 1, `${text} was answered`);
      if (outcome === "not run") assert.equal(runs, 0, `${text} is said not to have run`);
      void key;
    }
    assert.ok(queries.every(({ isDone }) => isDone), "every query ends");
    for (const { key, isOver, state } of watches) {
      if (isOver) continue;
      assert.equal(state.value, server.values.get(key) ?? "", `the last change of ${key} is told`);
      assert.equal(state.isStale, false, `${key} is current in the end`);
    }
  } finally {
    await world.transport.close();
    withoutClock();
    Math.random = random;
  }
}

function mulberry(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let value = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const RUNS = Number(process.env.SCHEDULES ?? 1_000);

test(`${RUNS} schedules cut at any byte: no update lost, no command twice`, async () => {
  const schedule = fc.tuple(
    fc.array(step, { minLength: 5, maxLength: 60 }),
    fc.constantFrom<Keys>("kept", "not kept", "unknown to the server"),
    fc.integer(),
  );
  // A failure prints the seed and the path that repeat it.
  await fc.assert(fc.asyncProperty(schedule, ([steps, keys, seed]) => play(steps, keys, seed)), {
    numRuns: RUNS,
    seed: Number(process.env.SEED ?? 1),
  });
});
