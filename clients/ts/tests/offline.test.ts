// Data that outlive the page, and commands made without a connection.
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { clone, create, createFileRegistry, type DescService } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema, file_google_protobuf_timestamp } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { createOffline, type Offline, type OfflineStorage, type Outcome } from "../packages/live/src/offline/index.ts";
import { createLiveClient } from "../packages/live/src/replica/index.ts";
import { createLiveTransport, isNotRun, isOutcomeUnknown, type LiveOptions, type LiveTransport } from "../packages/live/src/index.ts";
import { BehaviourService, EchoRequestSchema, file_tidewire_test_v1_behaviour } from "./gen/tidewire/test/v1/behaviour_pb.js";
import { Notes } from "./gen/notes/v1/notes_pb.js";
import { inPage, withClock, withoutClock, World } from "./support/world.ts";

const { look, echo } = BehaviourService.method;

beforeEach(withClock);
afterEach(closeAll); // With the clock that its timers are of.
afterEach(withoutClock);
afterEach(() => mock.restoreAll());

class Memory implements OfflineStorage {
  readonly all = new Map<string, Uint8Array>();
  async get(key: string) {
    return this.all.get(key);
  }
  async set(key: string, value: Uint8Array) {
    this.all.set(key, value.slice());
  }
  async list(prefix: string) {
    return [...this.all.keys()].filter((key) => key.startsWith(prefix));
  }
  async remove(prefix: string) {
    for (const key of this.all.keys()) if (key.startsWith(prefix)) this.all.delete(key);
  }
}

/** Puts what a test needs in the place of a method of a storage. */
function instead<K extends "get" | "set" | "remove">(storage: Memory, name: K, act: (real: Memory[K]) => Memory[K]): void {
  mock.method(storage, name, act(storage[name].bind(storage) as Memory[K]));
}

/** The next use of it fails. */
function failOnce(storage: Memory, name: "get" | "set" | "remove", prefix = ""): void {
  let hasFailed = false;
  instead(storage, name, (real) => async (key: string, ...rest: unknown[]) => {
    if (hasFailed || !key.includes(prefix)) return (real as (...all: unknown[]) => Promise<never>)(key, ...rest);
    hasFailed = true;
    throw new Error("the disk is full");
  });
}

/** Echo over HTTP, where no WebSocket opens. */
function overHttp(echo: (text: string) => Promise<void>): Partial<LiveOptions> {
  mock.method(globalThis, "fetch", async () => new Response());
  const transport = createRouterTransport(({ service }) =>
    service(BehaviourService, { echo: async ({ text }) => (await echo(text), { text }) }));
  return { fallback: async () => transport };
}

/** Until the server has a command, whose answer does not arrive. */
async function sendsUnanswered(world: World): Promise<void> {
  for (let round = 0; round < 6; round++) {
    await new Promise(setImmediate);
    if (world.network.socket?.state === "connecting") world.network.socket.open();
    world.network.socket?.deliver("toServer");
    if (!world.server.requests.includes("Echo")) world.network.socket?.deliver("toClient");
  }
  assert.ok(world.server.requests.includes("Echo"), "it was sent");
}

const opened: { offline: Offline; transport: LiveTransport }[] = [];

async function closeAll(): Promise<void> {
  for (const { offline, transport } of opened.splice(0)) {
    offline.close();
    await transport.close();
  }
  await new Promise(setImmediate);
}

/** A page: its own transport and client, on a storage that outlives it. */
async function open(world: World, storage: Memory, principalKey: string | undefined = "ada", more: Partial<LiveOptions> = {}, services: DescService[] = [BehaviourService]) {
  const transport = createLiveTransport({ baseUrl: "http://server.test", webSocket: world.network.webSocket, ...more });
  const client = createLiveClient(transport);
  const outcomes: string[] = [];
  const errors: ConnectError[] = [];
  const onOutcome = (outcome: Outcome) => {
    const { status, entry } = outcome;
    outcomes.push(`${(entry?.input as { text: string } | undefined)?.text ?? "?"} ${status}`);
    if (status !== "done") errors.push(outcome.error);
  };
  const page = { signedOut: 0 };
  const onSignOut = () => void page.signedOut++;
  const offline = await createOffline({ client, transport, services, principalKey, storage, onOutcome, onSignOut });
  const ask = (key: string) => {
    const query = client.query(look, { key });
    query.subscribe(() => {});
    return query;
  };
  opened.push({ offline, transport });
  return Object.assign(page, { transport, client, offline, outcomes, errors, ask });
}

describe("data", () => {
  test("after a reload they are shown at once as stale, and confirmed without being sent again", async () => {
    const world = new World();
    const storage = new Memory();
    world.server.values.set("a", "1");
    const first = await open(world, storage);
    first.ask("a");
    await world.settle();
    await first.offline.save();
    await first.transport.close();
    const second = await open(world, storage);
    const query = second.ask("a");
    const { data, isStale } = query.getSnapshot();
    assert.deepEqual([data?.value, isStale], ["1", true]);
    await world.settle();
    assert.equal(query.getSnapshot().data, data);
    assert.equal(query.getSnapshot().isStale, false);
  });

  test("save() is done when the data are stored, also if another one was under way", async () => {
    const world = new World();
    const storage = new Memory();
    let isSlow = false;
    const { set } = storage;
    storage.set = async (key, value) => {
      if (isSlow) await new Promise(setImmediate);
      return set.call(storage, key, value);
    };
    const page = await open(world, storage);
    page.ask("a");
    await world.settle();
    isSlow = true;
    void page.offline.save();
    await page.offline.save();
    assert.ok([...storage.all.keys()].some((key) => key.includes("/replicas/")));
    page.offline.close();
  });

  test("without a principal nothing is stored, another one reads nothing, and sign-out removes all", async () => {
    const world = new World();
    const storage = new Memory();
    const nobody = await open(world, storage, undefined);
    void nobody;
    const anonymous = createLiveClient(world.transport);
    const none = await createOffline({ client: anonymous, transport: world.transport, services: [BehaviourService], principalKey: undefined, storage: new Memory() });
    await none.save();
    const ada = await open(world, storage);
    world.server.values.set("a", "hers");
    ada.ask("a");
    await world.settle();
    await ada.offline.save();
    const bob = await open(world, storage, "bob");
    assert.equal(bob.client.query(look, { key: "a" }).getSnapshot().status, "pending");
    await ada.offline.signOut();
    assert.deepEqual([...storage.all.keys()].filter((key) => key.startsWith("ada/")), []);
    assert.equal(ada.client.query(look, { key: "b" }).getSnapshot().status, "pending");
  });
});

describe("a deploy that changes the schema", () => {
  /** The service as another version of its .proto has it. */
  const edited = (edit: (file: FileDescriptorProto) => void): DescService => {
    const proto = clone(FileDescriptorProtoSchema, file_tidewire_test_v1_behaviour.proto);
    edit(proto);
    const file = [file_google_protobuf_timestamp.proto, proto];
    return createFileRegistry(create(FileDescriptorSetSchema, { file })).getService(BehaviourService.typeName)!;
  };
  const withField = () => edited(({ messageType }) => {
    const { field } = messageType.find(({ name }) => name === "EchoRequest")!;
    field.push({ ...field[0]!, name: "note", jsonName: "note", number: 99 });
  });
  const withoutEcho = () => edited(({ service }) => {
    service[0]!.method = service[0]!.method.filter(({ name }) => name !== "Echo");
  });
  /** What a page leaves that made commands without a connection, and was closed. */
  const leave = async (world: World, storage: Memory, texts: string[], service: DescService = BehaviourService) => {
    const page = await open(world, storage, "ada", {}, [service]);
    for (const text of texts) page.offline.mutate(service.method.echo as typeof echo, { text }).catch(() => {});
    await new Promise(setImmediate);
    page.offline.close();
    await page.transport.close();
  };
  const left = (storage: Memory) => [...storage.all.keys()].filter((key) => key.includes("outbox/"));

  test("commands that wait are sent by the next page, in order, each once", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    await leave(world, storage, ["k=1", "k=2"]);
    await leave(world, storage, ["k=3"], withField());
    const next = await open(world, storage);
    assert.deepEqual(next.offline.outbox.getSnapshot().map(({ input }) => (input as { text?: string }).text), ["k=1", "k=2", "k=3"]);
    next.ask("k");
    await world.pass(1_000);
    assert.deepEqual(next.outcomes, ["k=1 done", "k=2 done", "k=3 done"]);
    assert.deepEqual(Object.fromEntries(world.server.runs), { "k=1": 1, "k=2": 1, "k=3": 1 });
    assert.equal(world.server.values.get("k"), "3");
    next.offline.close();
    assert.deepEqual(left(storage), []);
  });

  test("a command whose method is gone is told as not run, and removed", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    await leave(world, storage, ["k=1"]);
    const next = await open(world, storage, "ada", {}, [withoutEcho()]);
    assert.deepEqual(next.outcomes, ["? failed"]);
    assert.equal(next.errors[0]!.code, Code.Unimplemented);
    assert.match(next.errors[0]!.message, /BehaviourService\/Echo/);
    assert.ok(isNotRun(next.errors[0]));
    assert.deepEqual(left(storage), []);
    next.offline.close();
  });

  test("one that may have run is told as unknown, where its method is gone", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const first = await open(world, storage);
    first.offline.mutate(echo, { text: "k=v" }).catch(() => {});
    first.ask("k");
    await sendsUnanswered(world);
    first.offline.close();
    await first.transport.close();
    await new Promise(setImmediate);
    const next = await open(world, storage, "ada", {}, [withoutEcho()]);
    assert.deepEqual(next.outcomes, ["? unknown"]);
    assert.ok(isOutcomeUnknown(next.errors[0]));
    next.offline.close();
  });

  test("one that cannot be read is told as not run, and the others are sent", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    await leave(world, storage, ["k=1", "k=2"]);
    const bytes = storage.all.get(left(storage)[0]!)!;
    const at = Buffer.from(bytes).indexOf("k=1");
    bytes[at - 1] = 127; // The string seems to be longer than all that is there.
    const next = await open(world, storage);
    assert.deepEqual(next.outcomes, ["? failed"]);
    assert.equal(next.errors[0]!.code, Code.DataLoss);
    next.ask("k");
    await world.pass(1_000);
    assert.deepEqual(next.outcomes, ["? failed", "k=2 done"]);
    next.offline.close();
    assert.deepEqual(left(storage), []);
  });

  test("a page that is still open leaves what it cannot read to the next one", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const old = await open(world, storage, "ada", {}, [withoutEcho()]);
    await leave(world, storage, ["k=1"]);
    old.ask("k");
    await world.pass(11_000);
    assert.deepEqual(old.outcomes, []);
    const next = await open(world, storage);
    next.ask("k");
    await world.pass(1_000);
    assert.deepEqual(next.outcomes, ["k=1 done"]);
    for (const page of [old, next]) page.offline.close();
  });

  test("a page of other services leaves the commands to a page that uses theirs, for a day", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    await leave(world, storage, ["k=1"]);
    const visit = async (service: DescService) => {
      const page = await open(world, storage, "ada", {}, [service]);
      page.offline.close();
      return page.outcomes;
    };
    assert.deepEqual(await visit(Notes), []);
    const page = await open(world, storage);
    page.ask("k");
    await world.pass(1_000);
    assert.deepEqual(page.outcomes, ["k=1 done"]);
    page.offline.close();
    await leave(world, storage, ["k=2"]);
    mock.timers.setTime(Date.now() + 25 * 3_600_000);
    assert.deepEqual(await visit(Notes), ["? failed"]);
    assert.deepEqual(left(storage), []);
  });

  test("data of before are not shown, and removed; those of pages with other services stay", async () => {
    const world = new World();
    const storage = new Memory();
    world.server.values.set("a", "1");
    const replicas = () => [...storage.all.keys()].filter((key) => key.includes("/replicas/"));
    for (const services of [[BehaviourService, Notes], [BehaviourService], [withField()]]) {
      const page = await open(world, storage, "ada", {}, services);
      const query = page.ask("a");
      assert.equal(query.getSnapshot().data, undefined);
      await world.settle();
      await page.offline.save();
      await page.transport.close();
      page.offline.close();
    }
    assert.equal(replicas().length, 2);
  });
});

describe("sign-out in another tab", () => {
  test("this tab forgets what it holds, says so, and stores nothing more", async () => {
    const world = new World();
    const storage = new Memory();
    const [here, other] = [await open(world, storage), await open(world, storage)];
    world.server.values.set("a", "hers");
    here.client.query(look, { key: "a" }).subscribe(() => {});
    await world.settle();
    await other.offline.signOut();
    await here.offline.save();
    assert.equal(here.signedOut, 1);
    assert.deepEqual([...storage.all.keys()], []);
    await assert.rejects(here.offline.mutate(echo, { text: "k=v" }), { code: Code.Unauthenticated });
    assert.deepEqual([...storage.all.keys()], []);
    assert.equal(here.client.query(look, { key: "a" }).getSnapshot().data, undefined);
  });
});

describe("commands", () => {
  test("made without a connection they wait, are sent in order, and their outcome is told", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const page = await open(world, storage);
    const replies = ["k=1", "k=2", "k=3"].map((text) => page.offline.mutate(echo, { text }));
    await new Promise(setImmediate);
    assert.equal(page.offline.outbox.getSnapshot().length, 3);
    page.ask("k"); // Which connects.
    await world.settle();
    assert.deepEqual((await Promise.all(replies)).map(({ text }) => text), ["k=1", "k=2", "k=3"]);
    assert.deepEqual(page.outcomes, ["k=1 done", "k=2 done", "k=3 done"]);
    assert.equal(world.server.values.get("k"), "3");
    assert.equal(page.offline.outbox.getSnapshot().length, 0);
  });

  test("a page that ends after sending leaves the command to the next, and it runs once", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const first = await open(world, storage);
    first.offline.mutate(echo, { text: "k=v" }).catch(() => {});
    first.ask("k");
    for (let round = 0; round < 8; round++) {
      await new Promise(setImmediate);
      if (world.network.socket?.state === "connecting") world.network.socket.open();
      world.network.socket?.deliver("toServer");
      if (world.server.runs.size) break;
      if (world.server.requests.includes("Echo")) while (world.server.run());
      world.network.socket?.deliver("toClient");
    }
    while (world.server.run());
    assert.equal(world.server.runs.get("k=v"), 1);
    first.offline.close(); // The page is gone; its reply never came.
    world.cut();
    await first.transport.close();
    const second = await open(world, storage);
    assert.equal(second.offline.outbox.getSnapshot().length, 1);
    second.ask("k");
    await world.pass(1_000);
    assert.deepEqual(second.outcomes, ["k=v done"]);
    assert.equal(world.server.runs.get("k=v"), 1);
  });

  test("where no keys are kept a command is told as unknown, and does not run", async () => {
    const world = new World();
    const page = await open(world, new Memory());
    const reply = page.offline.mutate(echo, { text: "k=v" }).catch((error) => error);
    page.ask("k");
    await world.settle();
    assert.equal((await reply).code, Code.Aborted);
    assert.deepEqual(page.outcomes, ["k=v unknown"]);
    assert.equal(world.server.runs.size, 0);
  });

  test("after half of the time for which keys are kept it is not sent again", async () => {
    const world = new World({}, { keepsKeys: true, keysMs: 10_000 });
    const storage = new Memory();
    const first = await open(world, storage);
    first.offline.mutate(echo, { text: "k=v" }).catch(() => {});
    first.ask("k");
    await sendsUnanswered(world);
    first.offline.close();
    world.server.restart();
    world.cut();
    await first.transport.close();
    await world.pass(6_000);
    const second = await open(world, storage);
    second.ask("k");
    await world.pass(1_000);
    assert.deepEqual(second.outcomes, ["k=v unknown"]);
  });

  test("two tabs keep theirs apart: each command of both runs, once, and its outcome is told where it was made", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const first = await open(world, storage);
    void first.offline.mutate(echo, { text: "a=1" });
    await new Promise(setImmediate);
    const tabs = [first, await open(world, storage)] as const;
    void tabs[1].offline.mutate(echo, { text: "b=2" });
    void tabs[0].offline.mutate(echo, { text: "c=3" });
    await new Promise(setImmediate);
    for (const tab of tabs) tab.ask("a");
    await world.pass(1_000);
    assert.deepEqual(tabs.map(({ outcomes }) => outcomes), [["a=1 done", "c=3 done"], ["b=2 done"]]);
    assert.deepEqual(Object.fromEntries(world.server.runs), { "a=1": 1, "b=2": 1, "c=3": 1 });
    for (const tab of tabs) tab.offline.close();
  });

  test("a tab that is closed leaves its commands to one that is open", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const [closed, left] = [await open(world, storage), await open(world, storage)];
    void closed.offline.mutate(echo, { text: "a=1" });
    await new Promise(setImmediate);
    closed.offline.close();
    await closed.transport.close();
    left.ask("a");
    await world.pass(1_000);
    assert.deepEqual(left.outcomes, ["a=1 done"]);
    assert.equal(world.server.runs.get("a=1"), 1);
    left.offline.close();
  });

  test("they are bounded", async () => {
    const world = new World();
    const transport = world.transport;
    const client = createLiveClient(transport);
    const offline = await createOffline({ client, transport, services: [BehaviourService], principalKey: "ada", storage: new Memory(), commandsMax: 1 });
    void offline.mutate(echo, { text: "k=1" });
    await assert.rejects(offline.mutate(echo, { text: "k=2" }), { code: Code.ResourceExhausted });
    offline.close();
  });

  test("where WebSockets do not open they go over HTTP: each once, and one that HTTP lost is unknown for ever", async () => {
    const runs: string[] = [];
    let isLost = false;
    mock.method(globalThis, "fetch", async () => new Response());
    const http = createRouterTransport(({ service }) =>
      service(BehaviourService, {
        echo: ({ text }) => {
          runs.push(text);
          return { text };
        },
      }),
    );
    const fallback = async () => ({
      ...http,
      unary: async (...call: Parameters<typeof http.unary>) => {
        const reply = await http.unary(...call);
        if (isLost) throw new TypeError("the network is gone");
        return reply;
      },
    }) as typeof http;
    const world = new World({}, { keepsKeys: true });
    world.network.isDown = true;
    const storage = new Memory();
    const page = await open(world, storage, "ada", { fallback });
    void page.offline.mutate(echo, { text: "waits=1" });
    page.ask("a"); // Which dials.
    await world.pass(3_000);
    assert.equal(page.transport.connection.getSnapshot().status, "fallback");
    assert.deepEqual(page.outcomes, ["waits=1 done"]);
    await page.offline.mutate(echo, { text: "at once=2" });
    assert.deepEqual(runs, ["waits=1", "at once=2"]);

    // The page ends before HTTP has answered: the next one cannot know, and does not run it again.
    const second = await open(world, storage, "ada", { fallback });
    second.offline.mutate(echo, { text: "lost=3" }).catch(() => {});
    await new Promise(setImmediate);
    isLost = true;
    second.ask("a");
    await world.pass(3_000);
    assert.deepEqual(second.outcomes, ["lost=3 unknown"]);
    world.network.isDown = false;
    await world.pass(61_000);
    assert.equal(second.transport.connection.getSnapshot().status, "open");
    assert.equal(world.server.runs.size, 0);
    assert.deepEqual(runs, ["waits=1", "at once=2", "lost=3"]);
    for (const one of [page, second]) one.offline.close();
  });
});

describe("a command that was sent over an open connection", () => {
  const places = (storage: Memory) => [...storage.all.keys()].filter((key) => key.includes("outbox/"));
  /** A page with a connection. `mute()` keeps what the server says from it, `die()` all; `heal()` ends that. */
  const connected = async (world: World, storage: Memory, more: Partial<LiveOptions> = {}) => {
    const page = await open(world, storage, "ada", more);
    page.ask("k");
    await world.settle();
    const socket = world.network.socket!;
    const { deliver } = socket;
    const mute = () => void (socket.deliver = (way) => way === "toServer" && deliver.call(socket, way));
    const die = () => void (socket.deliver = () => false);
    const heal = () => void (socket.deliver = deliver);
    return Object.assign(page, { socket, mute, die, heal });
  };
  /** What the next page finds when a page is gone without a word: all of it, and no locks. */
  const ofNobody = (storage: Memory) => {
    const copy = new Memory();
    for (const [key, value] of storage.all) copy.all.set(key.includes("outbox/") ? `${key}0` : key, value.slice());
    return copy;
  };
  const next = async (world: World, storage: Memory) => {
    const page = await open(world, ofNobody(storage));
    page.ask("k");
    await world.pass(1_000);
    return page;
  };
  /** All that was asked for has been done that needs nothing from outside: more does not happen in a page that ends. */
  const lastMoment = () => new Promise<void>((resolve) => process.nextTick(resolve));

  for (const way of ["mute", "die"] as const) {
    const [what, runs] = way === "mute" ? ["its answer does not come", 1] : ["it does not arrive", 0];
    test(`${what}: after a second it is there for the next page, and runs once`, async () => {
      const world = new World({}, { keepsKeys: true });
      const storage = new Memory();
      const page = await connected(world, storage);
      page[way]();
      page.offline.mutate(echo, { text: "k=v" }).catch(() => {});
      await world.pass(1_000);
      assert.equal(page.offline.outbox.getSnapshot().length, 1);
      assert.equal(world.server.runs.get("k=v") ?? 0, runs);
      const { outcomes } = await next(world, storage);
      assert.deepEqual([outcomes, world.server.runs.get("k=v")], [["k=v done"], 1]);
    });

    test(`${what}, and no keys are kept: the next page is told that it is unknown, and it does not run again`, async () => {
      const world = new World();
      const storage = new Memory();
      const page = await connected(world, storage);
      page[way]();
      page.offline.mutate(echo, { text: "k=v" }).catch(() => {});
      await world.pass(1_000);
      const { outcomes } = await next(world, storage);
      assert.deepEqual([outcomes, world.server.runs.get("k=v") ?? 0], [["k=v unknown"], runs]);
    });
  }

  test("answered at once it is neither stored, nor shown as waiting, nor told but to who made it", async () => {
    const world = new World();
    const storage = new Memory();
    const page = await connected(world, storage);
    const asked: string[] = [];
    for (const name of ["set", "remove"] as const) {
      instead(storage, name, (real) => async (key: string, ...rest: unknown[]) => {
        asked.push(key);
        return (real as (...all: unknown[]) => Promise<void>)(key, ...rest);
      });
    }
    let changes = 0;
    page.offline.outbox.subscribe(() => changes++);
    const reply = page.offline.mutate(echo, { text: "k=v" });
    await world.settle();
    assert.equal((await reply).text, "k=v");
    await world.pass(2_000);
    assert.deepEqual([asked, changes, page.outcomes], [[], 0, []]);
  });

  test("answered late it is removed before that is told, once", async () => {
    const world = new World();
    const storage = new Memory();
    const page = await connected(world, storage);
    instead(storage, "remove", (real) => async (key) => {
      await new Promise(setImmediate);
      return real(key);
    });
    page.mute();
    const reply = page.offline.mutate(echo, { text: "k=v" }).then(({ text }) => [text, places(storage)]);
    await world.pass(1_000);
    assert.equal(places(storage).length, 1);
    page.heal();
    await world.settle();
    assert.deepEqual(await reply, ["k=v", []]);
    assert.deepEqual([page.outcomes, page.offline.outbox.getSnapshot()], [["k=v done"], []]);
  });

  test("answered, and another is stored while it is removed: that one alone is left", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const page = await connected(world, storage);
    let go = () => {};
    instead(storage, "remove", (real) => async (key) => {
      await new Promise<void>((resolve) => (go = resolve));
      return real(key);
    });
    page.mute();
    const reply = page.offline.mutate(echo, { text: "k=1" });
    await world.pass(1_000);
    page.heal();
    await world.settle();
    instead(storage, "set", (real) => async (key, value) => {
      go(); // What was asked for before is done before.
      await lastMoment();
      return real(key, value);
    });
    page.mute();
    page.offline.mutate(echo, { text: "k=2" }).catch(() => {});
    await world.pass(1_000);
    assert.equal((await reply).text, "k=1");
    assert.deepEqual((await next(world, storage)).outcomes, ["k=2 done"]);
  });

  test("an error that comes late is its outcome, told once", async () => {
    const world = new World();
    const storage = new Memory();
    const page = await connected(world, storage);
    page.die();
    const reply = page.offline.mutate(echo, { text: "k=v" }).catch((error) => error);
    await world.pass(1_000);
    world.server.restart();
    world.cut();
    await world.pass(6_000);
    assert.ok(isOutcomeUnknown(await reply));
    assert.deepEqual([page.outcomes, places(storage)], [["k=v unknown"], []]);
  });

  for (const name of ["pagehide", "visibilitychange"]) {
    test(`a page that ends before the second has passed leaves it, too (${name})`, async (context) => {
      const window = inPage(context);
      const world = new World({}, { keepsKeys: true });
      const storage = new Memory();
      const page = await connected(world, storage);
      page.die();
      let writes = 0;
      instead(storage, "set", (real) => (key, value) => {
        if (key.includes("outbox/")) writes++;
        return real(key, value);
      });
      instead(storage, "get", (real) => async (key) => {
        await new Promise(setImmediate);
        return real(key);
      });
      for (const text of ["k=1", "k=2"]) page.offline.mutate(echo, { text }).catch(() => {});
      await lastMoment();
      Object.assign(document, { visibilityState: "hidden" });
      (name === "pagehide" ? window : document).dispatchEvent(new Event(name));
      await lastMoment();
      assert.equal(writes, 1, "there is no time for a second");
      const { outcomes } = await next(world, storage);
      assert.deepEqual(outcomes, ["k=1 done", "k=2 done"]);
      assert.deepEqual(Object.fromEntries(world.server.runs), { "k=1": 1, "k=2": 1 });
    });
  }

  test("others go on beside one that is not answered, and while it is stored and removed", async () => {
    const world = new World();
    const storage = new Memory();
    const page = await connected(world, storage);
    for (const name of ["set", "remove"] as const) {
      instead(storage, name, (real) => async (key: string, ...rest: unknown[]) => {
        await new Promise(setImmediate);
        return (real as (...all: unknown[]) => Promise<void>)(key, ...rest);
      });
    }
    page.mute();
    const replies = [page.offline.mutate(echo, { text: "k=1" })];
    await world.settle();
    mock.timers.tick(1_000);
    replies.push(page.offline.mutate(echo, { text: "k=2" }));
    await world.pass(1_000);
    replies.push(page.offline.mutate(echo, { text: "k=3" }));
    page.heal();
    while (page.socket.deliver("toClient"));
    replies.push(page.offline.mutate(echo, { text: "k=4" }));
    await world.settle();
    assert.deepEqual((await Promise.all(replies)).map(({ text }) => text), ["k=1", "k=2", "k=3", "k=4"]);
    assert.deepEqual([...world.server.runs.values()], [1, 1, 1, 1]);
    assert.deepEqual(places(storage), []);
  });

  test("another tab leaves it to the tab that waits for its answer, also when that keeps nothing more", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const other = await open(world, storage);
    other.ask("k");
    const page = await connected(world, storage);
    page.mute();
    const reply = page.offline.mutate(echo, { text: "k=v" });
    await world.pass(6_000);
    page.offline.close();
    await world.pass(6_000);
    assert.equal(places(storage).length, 1);
    page.heal();
    await world.settle();
    assert.equal((await reply).text, "k=v");
    await world.pass(6_000);
    assert.deepEqual([page.outcomes, other.outcomes, places(storage)], [["k=v done"], [], []]);
  });

  test("a tab takes it over from one that was closed, and it runs once", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const other = await open(world, storage);
    other.ask("k");
    const page = await connected(world, storage);
    page.mute();
    page.offline.mutate(echo, { text: "k=v" }).catch(() => {});
    await world.settle();
    page.offline.close();
    await lastMoment();
    assert.equal(places(storage).length, 1);
    await page.transport.close();
    await world.pass(6_000);
    assert.deepEqual([page.outcomes, other.outcomes, places(storage)], [[], ["k=v done"], []]);
    assert.equal(world.server.runs.get("k=v"), 1);
  });

  test("sign-out removes it, nothing is stored later, and its answer still comes", async () => {
    const world = new World();
    const storage = new Memory();
    const page = await connected(world, storage);
    page.mute();
    const first = page.offline.mutate(echo, { text: "k=1" });
    await world.pass(1_000);
    const second = page.offline.mutate(echo, { text: "k=2" });
    await page.offline.signOut();
    await world.pass(2_000);
    assert.deepEqual([...storage.all.keys()], []);
    page.heal();
    await world.settle();
    assert.deepEqual([(await first).text, (await second).text], ["k=1", "k=2"]);
    assert.deepEqual([[...storage.all.keys()], page.outcomes], [[], []]);
  });

  test("sent again in another session it keeps its first key", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const page = await connected(world, storage);
    page.mute();
    page.offline.mutate(echo, { text: "k=v" }).catch(() => {});
    await world.settle();
    world.server.restart();
    page.socket.cut(0, 0);
    for (let round = 0; world.server.requests.filter((name) => name === "Echo").length < 2; round++) {
      assert.ok(round < 100, "it is sent again");
      mock.timers.tick(100);
      await new Promise(setImmediate);
      const { socket } = world.network;
      if (socket?.state === "connecting") socket.open();
      socket?.deliver("toServer");
      if (world.server.requests.filter((name) => name === "Echo").length < 2) socket?.deliver("toClient");
    }
    while (world.server.run());
    mock.timers.tick(1_000);
    await new Promise(setImmediate);
    world.network.socket!.deliver = () => false;
    const { outcomes } = await next(world, storage);
    assert.deepEqual([outcomes, world.server.runs.get("k=v")], [["k=v done"], 1]);
  });

  test("while the session has not written it, it may have been sent for all that is stored; then it has its key", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const page = await connected(world, storage);
    page.mute();
    page.socket.bufferedAmount = 65_536;
    page.offline.mutate(echo, { text: "k=v" }).catch(() => {});
    await world.pass(1_000);
    assert.equal(world.server.requests.includes("Echo"), false);
    assert.deepEqual((await next(world, storage)).outcomes, ["k=v unknown"]);
    page.socket.bufferedAmount = 0;
    await world.pass(100);
    assert.deepEqual((await next(world, storage)).outcomes, ["k=v done"]);
    assert.equal(world.server.runs.get("k=v"), 1);
  });

  test("with a key of the application's it is not sent again under another", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const page = await connected(world, storage, {
      interceptors: [(next) => (request) => {
        request.header.set("Idempotency-Key", "mine");
        return next(request);
      }],
    });
    page.mute();
    page.offline.mutate(echo, { text: "k=v" }).catch(() => {});
    await world.pass(1_000);
    const { outcomes } = await next(world, storage);
    assert.deepEqual([outcomes, world.server.runs.get("k=v")], [["k=v unknown"], 1]);
  });

  test("over HTTP, which has no keys: the next page is told that it is unknown, and it does not run again", async () => {
    const runs: string[] = [];
    const http = overHttp((text) => {
      runs.push(text);
      return new Promise(() => {});
    });
    const world = new World({}, { keepsKeys: true });
    world.network.isDown = true;
    const storage = new Memory();
    const page = await open(world, storage, "ada", http);
    page.ask("k");
    await world.pass(3_000);
    assert.equal(page.transport.connection.getSnapshot().status, "fallback");
    page.offline.mutate(echo, { text: "k=v" }).catch(() => {});
    await world.pass(1_000);
    world.network.isDown = false;
    const { outcomes } = await next(world, storage);
    assert.deepEqual([outcomes, runs, world.server.runs.size], [["k=v unknown"], ["k=v"], 0]);
  });

  test("it waits as any other: they are bounded together", async () => {
    const world = new World();
    const storage = new Memory();
    const { transport } = world;
    const client = createLiveClient(transport);
    const offline = await createOffline({ client, transport, services: [BehaviourService], principalKey: "ada", storage, commandsMax: 2 });
    client.query(look, { key: "k" }).subscribe(() => {});
    await world.settle();
    world.network.socket!.deliver = () => false;
    for (const text of ["k=1", "k=2", "k=3"]) offline.mutate(echo, { text }).catch(() => {});
    await world.pass(1_000);
    assert.deepEqual(offline.outbox.getSnapshot().map(({ input }) => (input as { text?: string }).text), ["k=1", "k=2"]);
    world.network.isDown = true;
    world.cut();
    await world.settle();
    await assert.rejects(offline.mutate(echo, { text: "k=4" }), { code: Code.ResourceExhausted });
    offline.close();
    await transport.close();
  });

  test("what could not be stored, or removed, is so later", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const page = await connected(world, storage);
    page.mute();
    failOnce(storage, "set", "outbox/");
    const reply = page.offline.mutate(echo, { text: "k=v" });
    await world.pass(1_000);
    assert.equal(places(storage).length, 0);
    await world.pass(5_000);
    assert.equal(places(storage).length, 1);
    failOnce(storage, "remove", "outbox/");
    page.heal();
    await world.settle();
    assert.equal((await reply).text, "k=v");
    assert.equal(places(storage).length, 1);
    await world.pass(5_000);
    assert.deepEqual([page.outcomes, places(storage)], [["k=v done"], []]);
  });

  test("what is stored is what was sent, whatever becomes of the input", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const page = await connected(world, storage);
    page.die();
    const input = create(EchoRequestSchema, { text: "k=1" });
    page.offline.mutate(echo, input).catch(() => {});
    input.text = "k=2";
    await world.pass(1_000);
    const { outcomes } = await next(world, storage);
    assert.deepEqual([outcomes, world.server.values.get("k")], [["k=1 done"], "1"]);
  });
});

describe("a storage that fails", () => {
  test("a command that could not be stored is refused, and does not run", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const page = await open(world, storage);
    failOnce(storage, "set", "outbox/");
    await assert.rejects(page.offline.mutate(echo, { text: "k=1" }), /disk is full/);
    assert.equal(page.offline.outbox.getSnapshot().length, 0);
    const replies = ["k=2", "k=3"].map((text) => page.offline.mutate(echo, { text }));
    page.ask("k");
    await world.settle();
    await Promise.all(replies);
    assert.deepEqual(Object.fromEntries(world.server.runs), { "k=2": 1, "k=3": 1 });
    page.offline.close();
  });

  test("while it says that a command is being sent: the command waits, and runs once", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const page = await open(world, storage);
    const reply = page.offline.mutate(echo, { text: "k=1" });
    await new Promise(setImmediate);
    failOnce(storage, "set", "outbox/");
    page.ask("k");
    await world.pass(11_000);
    await reply;
    assert.deepEqual(page.outcomes, ["k=1 done"]);
    assert.equal(world.server.runs.get("k=1"), 1);
    page.offline.close();
  });

  test("while a command that ran is removed: it is told once, and not sent again", async () => {
    const runs: string[] = [];
    const world = new World();
    world.network.isDown = true;
    const storage = new Memory();
    const page = await open(world, storage, "ada", overHttp(async (text) => void runs.push(text)));
    const reply = page.offline.mutate(echo, { text: "k=1" });
    await new Promise(setImmediate);
    failOnce(storage, "remove", "outbox/");
    page.ask("k");
    await world.pass(11_000);
    await reply;
    assert.deepEqual([runs, page.outcomes], [["k=1"], ["k=1 done"]]);
    assert.equal(page.offline.outbox.getSnapshot().length, 0);
    page.offline.close();
  });

  test("while commands are taken over: they stay where they are, and are taken over later", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const [closed, left] = [await open(world, storage), await open(world, storage)];
    closed.offline.mutate(echo, { text: "a=1" }).catch(() => {});
    await new Promise(setImmediate);
    closed.offline.close();
    failOnce(storage, "set", "outbox/");
    left.ask("a");
    await world.settle();
    assert.deepEqual(left.outcomes, []);
    await world.pass(6_000);
    assert.deepEqual(left.outcomes, ["a=1 done"]);
    assert.equal(world.server.runs.get("a=1"), 1);
    left.offline.close();
  });

  test("at the start: the page hears of it, and holds no lock", async () => {
    const storage = new Memory();
    failOnce(storage, "set");
    await assert.rejects(open(new World(), storage, "eve"), /disk is full/);
    await new Promise(setImmediate);
    const { held = [] } = await navigator.locks.query();
    assert.deepEqual(held.filter(({ name }) => name?.includes("eve/")), []);
  });

  test("at sign-out: all tabs forget what they hold, and who signs out hears of it", async () => {
    const world = new World();
    const storage = new Memory();
    const [here, other] = [await open(world, storage), await open(world, storage)];
    for (const tab of [here, other]) tab.ask("a");
    await world.settle();
    failOnce(storage, "remove");
    await assert.rejects(other.offline.signOut(), /disk is full/);
    while (!here.signedOut) await new Promise(setImmediate);
    for (const tab of [here, other]) {
      assert.equal(tab.client.query(look, { key: "a" }).getSnapshot().data, undefined);
      await assert.rejects(tab.offline.mutate(echo, { text: "k=v" }), { code: Code.Unauthenticated });
    }
  });
});

describe("a page that is closed", () => {
  test("what waits is refused there, and so is what comes later", async () => {
    const page = await open(new World(), new Memory());
    const waits = page.offline.mutate(echo, { text: "k=1" });
    await new Promise(setImmediate);
    page.offline.close();
    await assert.rejects(waits, { code: Code.Canceled });
    await assert.rejects(page.offline.mutate(echo, { text: "k=2" }), { code: Code.Canceled });
  });

  test("what is being sent belongs to it until that has ended", async () => {
    const runs: string[] = [];
    let answer = () => {};
    const http = overHttp(async (text) => {
      runs.push(text);
      await new Promise<void>((resolve) => (answer = resolve));
    });
    const world = new World();
    world.network.isDown = true;
    const storage = new Memory();
    const [closed, left] = [await open(world, storage, "ada", http), await open(world, storage, "ada", http)];
    const reply = closed.offline.mutate(echo, { text: "k=1" });
    for (const tab of [closed, left]) tab.ask("k");
    await world.pass(3_000);
    assert.deepEqual(runs, ["k=1"]);
    closed.offline.close();
    await world.pass(11_000);
    assert.deepEqual(left.outcomes, []);
    answer();
    assert.equal((await reply).text, "k=1");
    await world.pass(11_000);
    assert.deepEqual([runs, closed.outcomes, left.outcomes], [["k=1"], ["k=1 done"], []]);
    assert.deepEqual([...storage.all.keys()].filter((key) => key.includes("outbox/")), []);
    left.offline.close();
  });

  test("also where only its transport was closed: the next page learns what became of the command", async () => {
    const world = new World({}, { keepsKeys: true });
    const storage = new Memory();
    const first = await open(world, storage);
    first.offline.mutate(echo, { text: "k=v" }).catch(() => {});
    first.ask("k");
    await sendsUnanswered(world);
    await first.transport.close();
    await new Promise(setImmediate);
    assert.deepEqual(first.outcomes, []);
    first.offline.close();
    const second = await open(world, storage);
    second.ask("k");
    await world.pass(6_000);
    assert.deepEqual(second.outcomes, ["k=v done"]);
    assert.equal(world.server.runs.get("k=v"), 1);
    second.offline.close();
  });

  test("its commands are taken over where WebSockets do not open, too", async () => {
    const runs: string[] = [];
    const world = new World();
    world.network.isDown = true;
    const http = overHttp(async (text) => void runs.push(text));
    const storage = new Memory();
    const [closed, left] = [await open(world, storage, "ada", http), await open(world, storage, "ada", http)];
    left.ask("k");
    await world.pass(3_000);
    closed.offline.mutate(echo, { text: "k=1" }).catch(() => {});
    await new Promise(setImmediate);
    closed.offline.close();
    await world.pass(6_000);
    assert.deepEqual([runs, left.outcomes], [["k=1"], ["k=1 done"]]);
    left.offline.close();
  });
});

describe("commands over HTTP", () => {
  test("a service that answers UNAVAILABLE may have run one: it is told, and not sent again", async () => {
    const runs: string[] = [];
    const world = new World();
    world.network.isDown = true;
    const page = await open(world, new Memory(), "ada", overHttp(async (text) => {
      runs.push(text);
      throw new ConnectError("come back later", Code.Unavailable);
    }));
    const reply = page.offline.mutate(echo, { text: "k=1" }).catch((error) => error);
    page.ask("k");
    await world.pass(20_000);
    assert.deepEqual([runs, page.outcomes], [["k=1"], ["k=1 failed"]]);
    assert.equal((await reply).code, Code.Unavailable);
    page.offline.close();
  });
});

describe("sign-out", () => {
  test("refuses the commands that wait, and stores nothing of what was under way", async () => {
    const world = new World();
    const storage = new Memory();
    const page = await open(world, storage);
    const waits = page.offline.mutate(echo, { text: "k=1" });
    await new Promise(setImmediate);
    await page.offline.signOut();
    await assert.rejects(waits, { code: Code.Unauthenticated });
    assert.deepEqual([[...storage.all.keys()], page.outcomes], [[], []]);
  });

  test("while another tab writes: what that wrote is removed again", async () => {
    const world = new World();
    const storage = new Memory();
    const [here, other] = [await open(world, storage), await open(world, storage)];
    let isHeld = true;
    let go = () => {};
    instead(storage, "set", (real) => async (key, value) => {
      if (isHeld) await new Promise<void>((resolve) => (go = resolve));
      isHeld = false;
      return real(key, value);
    });
    const writes = here.offline.mutate(echo, { text: "k=1" });
    await new Promise(setImmediate);
    await other.offline.signOut();
    go();
    await assert.rejects(writes, { code: Code.Unauthenticated });
    assert.deepEqual([...storage.all.keys()], []);
  });
});

describe("where pages cannot keep apart what is theirs", () => {
  const without: [string, () => void][] = [
    ["Web Locks", () => mock.getter(navigator, "locks", () => undefined)],
    ["crypto.subtle", () => mock.getter(crypto, "subtle", () => undefined)],
  ];
  for (const [name, remove] of without) {
    test(`without ${name} the page works, and nothing is stored`, async () => {
      const world = new World({}, { keepsKeys: true });
      const storage = new Memory();
      remove();
      const page = await open(world, storage);
      assert.equal(page.offline.isStored, false);
      const reply = page.offline.mutate(echo, { text: "k=1" });
      page.ask("k");
      await world.settle();
      assert.equal((await reply).text, "k=1");
      assert.deepEqual([[...storage.all.keys()], page.outcomes], [[], ["k=1 done"]]);
      page.offline.close();
    });
  }

  test("locks that are refused are told", async () => {
    mock.method(navigator.locks, "request", () => Promise.reject(new Error("no locks for you")));
    await assert.rejects(open(new World(), new Memory()), /no locks for you/);
  });
});

test("commands in the format of another version are told as failed", async () => {
  const storage = new Memory();
  const first = await open(new World(), storage);
  first.offline.mutate(echo, { text: "k=1" }).catch(() => {});
  await new Promise(setImmediate);
  first.offline.close();
  const [key, bytes] = [...storage.all].find(([name]) => name.includes("outbox/"))!;
  storage.all.set(key, Uint8Array.from([99, ...bytes.slice(1)]));
  const second = await open(new World(), storage);
  assert.deepEqual(second.outcomes, ["? failed"]);
  assert.equal(storage.all.has(key), false);
  second.offline.close();
});
