// A session without a socket: what it writes and tells when the peer is slow, or forgets.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { CallOptions } from "../packages/live/src/session/call.ts";
import type { SessionEvent } from "../packages/live/src/session/event.ts";
import { Session } from "../packages/live/src/session/session.ts";
import * as F from "../packages/live/src/wire/frame.ts";
import { type Hello, putHello } from "../packages/live/src/wire/hello.ts";
import { Writer } from "../packages/live/src/wire/varint.ts";

interface Written {
  kind: number;
  stream: number;
  flags: number;
  payload: Uint8Array;
}

/** A session and its peer, of which the test says what it sends. */
class Talk {
  now = 1_000;
  readonly session = new Session({ features: 30, boot: new Uint8Array(16).fill(9), random: () => 0.5 });

  constructor(said: Partial<Hello> = {}) {
    this.connect(said);
  }

  /** A new connection; `session` names what the peer goes on with, or begins. */
  connect(said: Partial<Hello>, session = 1, isResumed = false): void {
    this.session.connect(this.now);
    this.written();
    const out = new Writer();
    putHello(out, {
      features: 30, callsMax: 256, watchesMax: 1_000, repliesKeptMax: 4_096, retainMs: 120_000,
      session: new Uint8Array(16).fill(session), secret: new Uint8Array(32).fill(2), ...said,
    }, "", F.EMPTY);
    let hello = out.take();
    if (isResumed) {
      hello = Uint8Array.from([...hello, 14, 1, 1]); // The writer is a dialer's, and has no such entry.
      new DataView(hello.buffer).setUint32(0, hello.length - 16, true);
    }
    this.session.receive(hello, this.now);
  }

  /** The connection is lost, and the peer, who has the session, holds none of its calls. */
  forget(count: number): void {
    this.session.lose(this.now);
    this.connect({}, 1, true);
    this.written();
    this.answer(F.RESUME, 0, 0, [0, 0, 0]);
    this.answer(F.RESUMED, 0, 0, Array(Math.ceil(count / 8)).fill(0));
  }

  call(options: Partial<CallOptions> = {}) {
    return this.session.call({ path: "/a.B/C", kind: "query", body: new Uint8Array([1]), ...options }, this.now);
  }

  answer(kind: number, stream: number, flags: number, payload: number[] = []): void {
    const out = new Writer();
    F.putFrame(out, kind, stream, flags, new Uint8Array(payload));
    this.session.receive(out.take(), this.now);
  }

  written(): Written[] {
    const frames: Written[] = [];
    for (let data = this.session.take(this.now); data; data = this.session.take(this.now)) {
      for (let at = 0; at < data.length; ) {
        const frame = F.readFrame(data, at, 65_536);
        at = frame.end;
        frames.push({ kind: frame.kind, stream: frame.stream, flags: frame.flags, payload: F.payloadOf(frame).slice() });
      }
    }
    return frames;
  }

  requests(): number[] {
    return this.written().filter(({ kind }) => kind === F.REQUEST).map(({ stream }) => stream);
  }

  heard(): SessionEvent[] {
    const events: SessionEvent[] = [];
    for (let event = this.session.next(); event; event = this.session.next()) events.push(event);
    return events;
  }
}

describe("commands", () => {
  test("however long one of them runs, the others go out", () => {
    const talk = new Talk({ callsMax: 8, repliesKeptMax: 8 });
    talk.call({ kind: "command", isStreaming: true });
    talk.written();
    for (let nth = 0; nth < 100; nth++) {
      const call = talk.call({ kind: "command" });
      assert.deepEqual(talk.requests(), [call.stream], `command ${nth}`);
      talk.answer(F.REPLY, call.stream, F.END);
    }
  });

  test("that the peer would not take yet wait for an answer, in order, and hold up no query", () => {
    const talk = new Talk({ callsMax: 4, repliesKeptMax: 0 });
    talk.call({ kind: "command", isStreaming: true });
    const lost = [1, 2, 3].map(() => talk.call({ kind: "command" }));
    talk.written();
    // Requests that are lost, and not sent again, leave their ids behind.
    for (const call of lost) talk.session.cancel(call);
    talk.session.lose(talk.now);
    talk.connect({}, 1, true);
    talk.written();
    talk.answer(F.RESUME, 0, 0, [0, 0, 0]);
    talk.answer(F.RESUMED, 0, 0, [0b0001, 0, 0, 0]);
    const first = talk.call({ kind: "command" });
    const second = talk.call({ kind: "command" });
    const query = talk.call();
    assert.deepEqual(talk.requests(), [query.stream], "the ids of both are too far ahead");
    talk.answer(F.REPLY, 1, 0); // The head of the stream: its id was seen.
    assert.deepEqual(talk.requests(), [first.stream]);
    talk.answer(F.REPLY, first.stream, F.END);
    assert.deepEqual(talk.requests(), [second.stream]);
  });
});

describe("a body over 16 KiB that the peer forgot while the connection was lost", () => {
  const LARGE = 100_000;
  const begun = (kind: "query" | "command") => {
    const talk = new Talk();
    const call = talk.call({ kind, body: new Uint8Array(LARGE) });
    talk.written();
    talk.answer(F.CREDIT, call.stream, 0, [0x80, 0x80, 0x02]); // 32,768: two pieces are not kept.
    talk.answer(F.CREDIT, 0, 0, [0x80, 0x80, 0x02]);
    talk.written();
    talk.heard();
    return talk;
  };

  for (const kind of ["query", "command"] as const) {
    test(`goes again from its first byte: a ${kind}`, () => {
      const talk = begun(kind);
      talk.forget(1);
      const sent = talk.written();
      assert.equal(sent.filter((frame) => frame.kind === F.REQUEST).length, 1);
      const pieces = sent.filter((frame) => frame.kind === F.ITEMS);
      assert.equal(pieces.reduce((sum, { payload }) => sum + payload.length, 0), LARGE);
      assert.equal(sent.at(-1)!.kind, F.STREAM_END);
      assert.deepEqual(talk.heard().map(({ type }) => type), ["lost", "connected"]);
    });
  }
});

describe("a stream whose items the peer took, and forgot while the connection was lost", () => {
  for (const [kind, code] of [["query", 14], ["command", 10]] as const) {
    test(`ends, and its session does not: a ${kind}`, () => {
      const talk = new Talk();
      const call = talk.call({ kind, isStreaming: true });
      const other = talk.call();
      talk.session.push(call, new Uint8Array([1, 2, 3]));
      talk.written();
      talk.answer(F.CREDIT, call.stream, 0, [4]);
      talk.heard();
      talk.forget(2);
      const [lost, failed, connected] = talk.heard();
      assert.deepEqual([lost?.type, connected?.type], ["lost", "connected"]);
      assert.ok(failed?.type === "failed" && failed.call === call);
      assert.deepEqual([failed.code, failed.outcome], [code, 2]);
      assert.deepEqual(talk.requests(), [other.stream]);
    });
  }

  test("goes again if none of them was credited", () => {
    const talk = new Talk();
    const call = talk.call({ isStreaming: true });
    talk.session.push(call, new Uint8Array([1, 2, 3]));
    talk.written();
    talk.forget(1);
    assert.deepEqual(talk.written().map(({ kind }) => kind).slice(-2), [F.REQUEST, F.ITEMS]);
  });
});

describe("a new session with fewer slots", () => {
  const highest = (streams: number[]) => Math.max(...streams);

  test("calls that wait to be sent again take slots below its bound, one after another", () => {
    const talk = new Talk();
    const calls = Array.from({ length: 50 }, () => talk.call());
    talk.written();
    talk.session.lose(talk.now);
    talk.connect({ callsMax: 4, watchesMax: 4 }, 3);
    talk.now += 1_000;
    const fresh = talk.call();
    talk.heard();
    const all: number[] = [];
    for (let streams = talk.requests(); streams.length; streams = talk.requests()) {
      assert.ok(streams.length <= 4);
      all.push(...streams);
      for (const stream of streams) talk.answer(F.REPLY, stream, F.END);
    }
    assert.equal(all.length, 51);
    assert.ok(highest(all) < 2 * 8, `stream ${highest(all)}`);
    const answered = talk.heard().map((event) => event.type === "reply" && event.call);
    assert.deepEqual(new Set(answered), new Set([...calls, fresh]));
  });

  test("a new call waits while those that are sent again hold all its slots", () => {
    const talk = new Talk();
    for (let nth = 0; nth < 9; nth++) talk.call();
    talk.written();
    talk.session.lose(talk.now);
    talk.connect({ callsMax: 8, watchesMax: 0 }, 3);
    talk.call();
    assert.deepEqual(talk.requests(), [], "all is held by calls that go a little later");
    talk.now += 1_000;
    assert.equal(highest(talk.requests()), 15);
    talk.answer(F.REPLY, 7, F.END);
    assert.deepEqual(talk.requests(), [7], "which of them was freed is taken");
  });

  test("calls that have no slot in it are not forgotten when it is lost, too", () => {
    const talk = new Talk();
    const calls = Array.from({ length: 20 }, () => talk.call());
    const command = talk.call({ kind: "command" });
    talk.written();
    talk.session.lose(talk.now);
    talk.connect({ callsMax: 2, watchesMax: 0 }, 3);
    talk.session.lose(talk.now);
    talk.connect({}, 4);
    talk.now += 1_000;
    assert.equal(talk.requests().length, calls.length + 1);
    talk.session.lose(talk.now);
    talk.connect({ callsMax: 2, watchesMax: 0 }, 5);
    talk.heard();
    talk.session.close(7, "");
    const ended = talk.heard().map((event) => event.type === "failed" && event.call);
    assert.deepEqual(new Set(ended), new Set([...calls, command, false]));
  });

  test("it is asked for nothing while all its slots are taken", () => {
    const talk = new Talk();
    for (let nth = 0; nth < 20; nth++) talk.call();
    talk.written();
    talk.session.lose(talk.now);
    talk.connect({ callsMax: 2, watchesMax: 0 }, 3);
    talk.now += 1_000;
    talk.written();
    assert.ok(talk.session.deadline() > talk.now, "no timer runs for what waits for an answer");
  });
});

describe("waking after a pause", () => {
  test("asks once, and waits with its keep-alive until that is answered", () => {
    const talk = new Talk();
    talk.heard();
    talk.now += 20_000;
    talk.session.wake(talk.now);
    talk.session.timeout(talk.now);
    const pings = talk.written().filter(({ kind }) => kind === F.PING);
    assert.equal(pings.length, 1, "a peer may answer the last of several alone");
    talk.now += 2_900;
    talk.session.timeout(talk.now);
    assert.deepEqual(talk.written(), []);
    talk.answer(F.PONG, 0, 0, [...pings[0]!.payload]);
    assert.deepEqual(talk.heard().map(({ type }) => type), ["unsure", "sure"]);
    talk.now += 9_999;
    talk.session.timeout(talk.now);
    assert.deepEqual(talk.written(), []);
    talk.now += 1;
    talk.session.timeout(talk.now);
    assert.deepEqual(talk.written().map(({ kind }) => kind), [F.PING], "then it is silence as ever");
  });

  test("loses a connection whose peer does not answer that, whatever else it says", () => {
    const talk = new Talk();
    talk.heard();
    talk.now += 20_000;
    talk.session.wake(talk.now);
    talk.answer(F.PING, 0, 0);
    talk.now += 2_999;
    talk.session.timeout(talk.now);
    assert.deepEqual(talk.heard().map(({ type }) => type), ["unsure"]);
    talk.now += 1;
    talk.session.timeout(talk.now);
    assert.deepEqual(talk.heard().map(({ type }) => type), ["lost"]);
  });
});
