// Against the server of this repository, over real sockets.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { createConnectTransport as createWebTransport } from "@connectrpc/connect-web";
import { createLiveTransport, isNotRun, isOutcomeUnknown, type LiveTransport } from "../packages/live/src/index.ts";
import { Notes, type Note } from "./gen/notes/v1/notes_pb.js";
import { BehaviourService, EchoRequestSchema, FailDetailSchema } from "./gen/tidewire/test/v1/behaviour_pb.js";
import { Proxy } from "./support/proxy.ts";
import { RustServer } from "./support/server.ts";

let server: RustServer;
before(async () => {
  server = await RustServer.start();
});
after(() => server.kill());

/** The events of a watch, to wait for; the test's own timeout bounds it. */
class WatchEvents {
  readonly all: string[] = [];
  private readonly waiting: [(word: string) => boolean, () => void][] = [];

  add(word: string): void {
    this.all.push(word);
    for (const [is, done] of this.waiting) if (is(word)) done();
  }

  async until(is: string | ((word: string) => boolean)): Promise<void> {
    const fits = typeof is === "string" ? (word: string) => word === is : is;
    if (this.all.some(fits)) return;
    await new Promise<void>((done) => this.waiting.push([fits, done]));
  }
}

function watch(transport: LiveTransport, key: string) {
  const events = new WatchEvents();
  const end = transport.watch(Notes.method.get, { key }, {
    next: ({ text, count }) => events.add(`${text} ${count}`.trim()),
    stale: () => events.add("stale"),
    fresh: () => events.add("fresh"),
    error: (error) => events.add(`error ${Code[error.code]}`),
  });
  return { events, end };
}

/** Without the backoff, which would make many cuts take long. */
function redialAtOnce(transport: LiveTransport): void {
  const { connection } = transport;
  connection.subscribe(() => connection.getSnapshot().retryAt && setImmediate(() => transport.wake()));
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe("the behaviour suite agrees with connect-web and connect-node", () => {
  const transports: [string, () => Transport & { close?(): void }, boolean][] = [
    ["live", () => createLiveTransport({ baseUrl: server.url }), true],
    ["connect-web", () => createWebTransport({ baseUrl: server.url }), false],
    ["connect-node", () => createConnectTransport({ baseUrl: server.url, httpVersion: "2" }), true],
  ];
  for (const [name, make, uploads] of transports) {
    test(name, async () => {
      const transport = make();
      const client = createClient(BehaviourService, transport);
      const headers = new Headers();
      const trailers = new Headers();
      const full = create(EchoRequestSchema, {
        text: "Größe ☃ 𝄞", tags: ["a", "", "b"], nested: { name: "n", children: [{ name: "m" }] },
        number: -(2n ** 63n), data: new Uint8Array([0, 255]), ratio: 0.1, counts: { x: 1, y: -2 }, at: { seconds: 5n, nanos: 7 },
      });
      const { $typeName: _, ...reply } = await client.echo(full, {
        headers: { "x-ping": "hello, world" },
        onHeader: (all) => all.forEach((value, key) => headers.set(key, value)),
        onTrailer: (all) => all.forEach((value, key) => trailers.set(key, value)),
      });
      const { $typeName: __, ...request } = full;
      assert.deepEqual(reply, request);
      assert.equal(headers.get("x-pong"), "hello, world");
      assert.equal(trailers.get("x-pong-trailer"), "hello, world");

      assert.equal((await client.look({ key: "k" })).value, "value of k");
      let counted: string | null = null;
      const numbers = await collect(client.count({ n: 5 }, { onTrailer: (all) => (counted = all.get("x-counted")) }));
      assert.deepEqual(numbers.map(({ number }) => number), [1, 2, 3, 4, 5]);
      assert.equal(counted, "5");
      const items: number[] = [];
      const failing = (async () => {
        for await (const { number } of client.count({ n: 9, failAfter: 2 })) items.push(number);
      })();
      await assert.rejects(failing, { code: Code.Aborted, rawMessage: "stopped after 2" });
      assert.deepEqual(items, [1, 2]);

      const error = ConnectError.from(await client.fail({ code: 5, message: "not here", withDetail: true }).catch((e) => e));
      assert.deepEqual([error.code, error.rawMessage], [Code.NotFound, "not here"]);
      assert.equal(error.metadata.get("x-fail"), "yes");
      const [detail] = error.findDetails(FailDetailSchema);
      assert.deepEqual([detail?.reason, detail?.number], ["asked for", 5]);
      assert.ok(!isOutcomeUnknown(error) && !isNotRun(error), "it is the handler's own");
      assert.equal(ConnectError.from(await client.panic({}).catch((e) => e)).code, Code.Internal);

      const slow = ConnectError.from(await client.slow({ millis: 60_000 }, { timeoutMs: 50 }).catch((e) => e));
      assert.equal(slow.code, Code.DeadlineExceeded);
      const controller = new AbortController();
      const aborted = client.slow({ millis: 60_000 }, { signal: controller.signal }).catch((e) => e);
      controller.abort();
      assert.equal(ConnectError.from(await aborted).code, Code.Canceled);

      const large = "x".repeat(3_000_000);
      assert.equal((await client.echo({ text: large })).text, large);

      if (uploads) {
        const sum = await client.sum((async function* () {
          for (const value of [1n, 2n, 3n]) yield { value };
        })());
        assert.deepEqual([sum.total, sum.messages], [6n, 3]);
        // One answer for each, before the next is sent.
        let answered: () => void = () => {};
        const talk = client.chat((async function* () {
          for (const text of ["one", "two", "three"]) {
            const next = new Promise<void>((resolve) => (answered = resolve));
            yield { text };
            await next;
          }
        })());
        const said: string[] = [];
        for await (const { text } of talk) {
          said.push(text);
          answered();
        }
        assert.deepEqual(said, ["one", "two", "three"]);
      }
      transport.close?.();
    });
  }

  test("an interceptor sees the call, and may answer for it or throw", async () => {
    const seen: string[] = [];
    const interceptor: Interceptor = (next) => async (request) => {
      seen.push(`${request.method.name} ${request.stream}`);
      request.header.set("x-ping", "from the interceptor");
      if (request.header.get("x-throw")) throw new ConnectError("thrown", Code.DataLoss);
      return next(request);
    };
    const transport = createLiveTransport({ baseUrl: server.url, interceptors: [interceptor] });
    const client = createClient(BehaviourService, transport);
    let pong: string | null = null;
    await client.echo({ text: "a" }, { onHeader: (all) => (pong = all.get("x-pong")) });
    assert.equal(pong, "from the interceptor");
    await collect(client.count({ n: 1 }));
    await assert.rejects(client.echo({}, { headers: { "x-throw": "1" } }), { code: Code.DataLoss });
    assert.deepEqual(seen, ["Echo false", "Count true", "Echo false"]);
    await transport.close();
  });
});

describe("streams", () => {
  test("break cancels, and what is not read stalls at its credit", async () => {
    const transport = createLiveTransport({ baseUrl: server.url });
    const notes = createClient(Notes, transport);
    const stalled = notes.ticks({ key: "stalled" })[Symbol.asyncIterator]();
    await stalled.next();
    let last = -1n;
    for await (const { count } of notes.ticks({ key: "t" })) {
      last = count;
      if (count === 2_000n) break;
    }
    assert.equal(last, 2_000n);
    // The connection still serves others, beside a stream that nobody reads.
    const behaviour = createClient(BehaviourService, transport);
    assert.equal((await behaviour.look({ key: "k" })).value, "value of k");
    await stalled.return?.();
    await transport.close();
  });

  test("an upload past its credit waits for the server, and arrives whole", async () => {
    const transport = createLiveTransport({ baseUrl: server.url });
    const client = createClient(BehaviourService, transport);
    const reply = await client.sum((async function* () {
      for (let value = 0; value < 20_000; value++) yield { value: 1n };
    })());
    assert.deepEqual([reply.total, reply.messages], [20_000n, 20_000]);
    await transport.close();
  });

  test("an upload that throws is the call's error", async () => {
    const transport = createLiveTransport({ baseUrl: server.url });
    const client = createClient(BehaviourService, transport);
    const reply = client.sum((async function* () {
      yield { value: 1n };
      throw new Error("no more");
    })());
    await assert.rejects(reply, /no more/);
    await transport.close();
  });

  test("a stream goes on over a connection that is cut at any byte", async () => {
    const proxy = await new Proxy(server.port).start();
    const transport = createLiveTransport({ baseUrl: proxy.url });
    const notes = createClient(Notes, transport);
    redialAtOnce(transport);
    let expected = 0n;
    for await (const { count } of notes.ticks({ key: "cut" })) {
      assert.equal(count, expected++);
      if (count % 200n === 50n) proxy.budget = Number((count * 7919n) % 40_000n);
      if (expected === 1_500n) break;
    }
    await transport.close();
    proxy.stop();
  });
});

describe("watches", () => {
  test("a change by anybody is told, an error is an answer, and it recovers", async () => {
    const transport = createLiveTransport({ baseUrl: server.url });
    const other = createClient(Notes, createWebTransport({ baseUrl: server.url }));
    const { events, end } = watch(transport, "w");
    await events.until("error NotFound");
    // It is watched, and current, until somebody changes it.
    await assert.rejects(createClient(Notes, transport).get({ key: "w" }), { code: Code.NotFound });
    assert.deepEqual(events.all, ["error NotFound"]);
    await other.set({ key: "w", text: "one" });
    await events.until("one 0");
    await other.add({ key: "w", by: 2n ** 60n });
    await events.until(`one ${2n ** 60n}`);
    await other.remove({ key: "w" });
    await events.until(() => events.all.filter((word) => word.startsWith("error")).length === 2);
    await other.set({ key: "w", text: "again" });
    await events.until("again 0");
    end();
    await transport.close();
  });

  test("an answer over 64 KiB is watched, too", async () => {
    const transport = createLiveTransport({ baseUrl: server.url });
    const notes = createClient(Notes, transport);
    await notes.set({ key: "large", text: "ab" });
    const events = new WatchEvents();
    const end = transport.watch(Notes.method.repeat, { key: "large", times: 100_000 }, {
      next: (note: Note) => events.add(`${note.text.slice(0, 2)} ${note.text.length}`),
      stale: () => events.add("stale"),
      fresh: () => events.add("fresh"),
      error: (error) => events.add(`${error}`),
    });
    await events.until("ab 200000");
    await notes.set({ key: "large", text: "cd" });
    await events.until("cd 200000");
    await notes.set({ key: "large", text: "ef" });
    await events.until("ef 200000");
    end();
    await transport.close();
  });

  test("over a cut, and over a restart of the server, nothing is missed", async () => {
    const own = await RustServer.start();
    const transport = createLiveTransport({ baseUrl: own.url });
    const web = createClient(Notes, createWebTransport({ baseUrl: own.url }));
    await web.set({ key: "r", text: "before" });
    const { events, end } = watch(transport, "r");
    await events.until("before 0");
    await own.kill();
    await events.until("stale");
    await own.start();
    await web.set({ key: "r", text: "after" });
    await events.until("after 0");
    end();
    await transport.close();
    await own.kill();
  });

  test("a writer never sees its own write undone", async () => {
    const transport = createLiveTransport({ baseUrl: server.url });
    const notes = createClient(Notes, transport);
    await notes.set({ key: "own", text: "" });
    let count = -1n;
    let isStale = true;
    const ready = new Promise<void>((resolve) => {
      transport.watch(Notes.method.get, { key: "own" }, {
        next: (note) => {
          count = note.count;
          isStale = false;
          resolve();
        },
        stale: () => (isStale = true),
        fresh: () => (isStale = false),
        error: (error) => assert.fail(`${error}`),
      });
    });
    await ready;
    for (let round = 1n; round <= 200n; round++) {
      await notes.add({ key: "own", by: 1n });
      assert.ok(isStale || count === round, `${count} passes as current after ${round}`);
    }
    await transport.close();
  });
});

describe("commands", () => {
  test("over connections that are cut at any byte each runs once", async () => {
    const proxy = await new Proxy(server.port).start();
    const transport = createLiveTransport({ baseUrl: proxy.url });
    const notes = createClient(Notes, transport);
    redialAtOnce(transport);
    await notes.set({ key: "once", text: "" });
    let unknown = 0;
    for (let round = 1; round <= 60; round++) {
      proxy.budget = (round * 7919) % 400;
      try {
        await notes.add({ key: "once", by: 1n });
      } catch (error) {
        if (isNotRun(error)) round--;
        else if (isOutcomeUnknown(error)) unknown++;
        else throw error;
      }
    }
    proxy.budget = Infinity;
    const { count } = await notes.get({ key: "once" });
    assert.equal(unknown, 0, "the session is resumed each time");
    assert.equal(count, 60n);
    await transport.close();
    proxy.stop();
  });

  test("one that was sent when the server was killed is unknown", async () => {
    const own = await RustServer.start();
    const proxy = await new Proxy(own.port).start();
    const transport = createLiveTransport({ baseUrl: proxy.url });
    redialAtOnce(transport);
    const notes = createClient(Notes, transport);
    await notes.set({ key: "x", text: "" });
    proxy.isMute = true;
    const reply = notes.add({ key: "x", by: 1n }).catch((error) => error);
    const web = createClient(Notes, createWebTransport({ baseUrl: own.url }));
    while ((await web.get({ key: "x" })).count === 0n); // It has run; its reply is lost.
    await own.kill();
    proxy.isMute = false;
    proxy.cut();
    await own.start();
    const error = await reply;
    assert.equal(ConnectError.from(error).code, Code.Aborted);
    assert.ok(isOutcomeUnknown(error));
    await transport.close();
    proxy.stop();
    await own.kill();
  });
});
