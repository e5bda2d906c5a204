// The golden fixtures of the live protocol, byte for byte.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { type Call, WATCHING } from "../packages/live/src/session/call.ts";
import type { SessionEvent } from "../packages/live/src/session/event.ts";
import { Session } from "../packages/live/src/session/session.ts";
import * as F from "../packages/live/src/wire/frame.ts";
import { type Hello, putHello } from "../packages/live/src/wire/hello.ts";
import { readItems } from "../packages/live/src/wire/items.ts";
import { readMetadata } from "../packages/live/src/wire/metadata.ts";
import { Violation } from "../packages/live/src/wire/reason.ts";
import { putNumbers, readNumbers, Writer } from "../packages/live/src/wire/varint.ts";

const load = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../../tests/fixtures/live/${name}`, import.meta.url), "utf8"));
const bytes = (hex: string) => new Uint8Array(Buffer.from(hex, "hex"));
const hex = (data: Uint8Array | undefined) => Buffer.from(data ?? []).toString("hex");

const KINDS = (
  "hello auth request reply error items end cancel credit ping pong goaway stale resume resumed " +
  "ready busy log changed seen descriptors"
).split(" ");
const REASONS = (
  "drain magic version feature too_large malformed metadata_max unexpected unknown_stream " +
  "stream_in_use stream_number calls_max credit unknown_method methods_max command_id compression " +
  "handshake_timeout keep_alive unauthenticated init_failed internal bye taken_over"
).split(" ");

const snake = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
const limits = (said: Record<string, number>) =>
  Object.fromEntries(Object.entries(said).map(([name, value]) => [snake(name), value]));

describe("frames", () => {
  for (const { name, hex: text, frame: want } of load("frames.json")) {
    test(name, () => {
      const data = bytes(text);
      const frame = F.readFrame(data, 0, 65_536);
      assert.equal(frame.end, data.length);
      assert.equal(KINDS[frame.kind - 1], want.kind);
      assert.deepEqual([frame.stream, frame.flags, frame.deadlineMs], [want.stream, want.flags, want.deadline_ms]);
      assert.equal(hex(F.payloadOf(frame)), want.payload);
      // Written again from its parts.
      const writer = new Writer();
      const at = F.beginFrame(writer, frame.kind, frame.stream, frame.flags, frame.deadlineMs);
      for (const { tag, name: header, value } of want.metadata) {
        writer.byte(tag);
        if (tag === 0) writer.string(new TextEncoder().encode(header));
        writer.string(bytes(value));
      }
      F.endMetadata(writer, at);
      writer.bytes(F.payloadOf(frame));
      F.endFrame(writer, at);
      assert.equal(hex(writer.take()), text);
    });
  }

  test("every frame cut short is refused, since a message holds whole frames", () => {
    for (const { hex: text } of load("frames.json")) {
      const data = bytes(text);
      for (let end = 1; end < data.length; end++) {
        assert.throws(() => F.readFrame(data.subarray(0, end), 0, 65_536), Violation);
      }
    }
  });

  test("lists, items and fields mean what they say", () => {
    const of = (name: string) => {
      const found = load("frames.json").find((fixture: { name: string }) => fixture.name === name);
      return F.readFrame(bytes(found.hex), 0, 65_536);
    };
    for (const [name, numbers] of Object.entries({
      "cancel of watches": [1, 3, 300], seen: [9, 11], stale: [9, 11, 1_000_001], "stale, kept": [11],
    })) {
      assert.deepEqual(readNumbers(F.payloadOf(of(name))), numbers);
      const writer = new Writer();
      putNumbers(writer, numbers);
      assert.equal(hex(writer.take()), hex(F.payloadOf(of(name))));
    }
    assert.deepEqual(readItems(F.payloadOf(of("items"))).map(hex), ["61", "", "626364"]);
    const error = readMetadata(of("error with detail, not run"));
    assert.equal(error.outcome, 1);
    assert.deepEqual(error.details, [{ type: "google.rpc.RetryInfo", value: bytes("0a00") }]);
    assert.equal(readMetadata(of("goaway drain")).after, 2_000);
    assert.equal(readMetadata(of("auth, accepted")).expires, 900_000);
  });
});

describe("broken rules", () => {
  const fixtures = load("errors.json");
  for (const { name, hex: text, reason } of fixtures.at_dialer) {
    test(name, () => {
      const session = new Session({ ...limits(fixtures.limits), features: 14, random: () => 0 });
      session.connect(0);
      const hello = new Writer();
      const said = { features: 15, session: new Uint8Array(16).fill(1), secret: new Uint8Array(32) };
      putHello(hello, said as Partial<Hello>, "", F.EMPTY);
      session.receive(hello.take(), 0);
      session.call({ kind: "query", path: "/a.B/C" }, 0);
      session.take(0);
      session.take(0);
      while (session.next());
      session.receive(bytes(text), 0);
      // zstd is not in browsers: it is never offered, so that it may not be used.
      const expected = reason === "compression" ? "feature" : reason;
      const closed = eventsOf(session).find((event) => event.type === "closed");
      assert.equal(closed?.type === "closed" && REASONS[closed.reason], expected);
    });
  }
});

function eventsOf(session: Session): SessionEvent[] {
  const events: SessionEvent[] = [];
  for (let event = session.next(); event; event = session.next()) events.push(event);
  return events;
}

/** A conversation of the fixtures: the same bytes are written, and the same is heard. */
class Player {
  now = 1_000;
  readonly talk;
  readonly session: Session;
  readonly calls = new Map<number, Call>();
  kept: number[] = [];
  asked = new Map<Call, number>();

  constructor(talk: any) {
    this.talk = talk;
    this.session = new Session({
      ...limits(talk.limits),
      features: talk.features,
      boot: talk.boot ? bytes(talk.boot) : undefined,
      agent: talk.agent,
      random: () => 0.5,
    });
  }

  play(): void {
    for (const [at, step] of this.talk.steps.entries()) {
      const where = `step ${at}`;
      if ("server_writes" in step) this.session.receive(bytes(step.server_writes), this.now);
      else if ("client_writes" in step) assert.equal(this.written(), step.client_writes, where);
      else if ("client_hears" in step) assert.deepEqual(this.events(), step.client_hears, where);
      else if ("client_ends" in step) {
        const data = bytes(this.written());
        const frame = F.readFrame(data, 0, 65_536);
        assert.equal(frame.end, data.length);
        assert.equal(REASONS[readMetadata(frame).reason ?? 0], step.client_ends, where);
      } else if ("client" in step) this.act(step.client, step.details);
    }
    assert.deepEqual(this.events(), [], "nothing else is heard");
    assert.equal(this.written(), "", "nothing else is written");
  }

  written(): string {
    let text = "";
    for (let data = this.session.take(this.now); data; data = this.session.take(this.now)) text += hex(data);
    return text;
  }

  act(action: string, details: any): void {
    const { session, now } = this;
    if (action === "connect") session.connect(now);
    else if (action === "lose") session.lose(now);
    else if (action === "wake") session.wake(now);
    else if (action === "ready") F.putFrame(session.control, F.READY);
    else if (action === "wait") this.now = Math.max(now, session.laterAt) + 1_000;
    else if (action === "push") session.push(this.calls.get(details.stream)!, bytes(details.item));
    else if (action === "finish") session.finish(this.calls.get(details.stream)!);
    else if (action === "cancel") session.cancel(this.calls.get(details.stream)!);
    else if (action === "count_kept") {
      const usable = this.kept.filter((writes) => writes === session.commands.writes);
      assert.equal(usable.length, details.usable);
    } else if (action === "call") this.call(details);
    else assert.fail(action);
  }

  call(details: any): void {
    const { kind, key, stream } = details;
    const watch = kind === "values" ? F.VALUES : kind === "notify" ? F.NOTIFY : undefined;
    const call = this.session.call(
      {
        path: details.path ?? this.talk.method,
        kind: watch ? "query" : kind,
        watch,
        body: bytes(details.payload),
        isStreaming: details.streaming,
        validator: details.validator && Buffer.from(details.validator, "hex").toString("latin1"),
        key: key && { session: bytes(key.session), id: key.id },
        firstSent: key && this.now,
      },
      this.now,
    );
    this.asked.set(call, this.session.commands.writes);
    this.calls.set(stream, call);
  }

  events(): unknown[] {
    return eventsOf(this.session).flatMap((event) => {
      const told = this.fixtureEvent(event);
      // What the fixtures tell of an error by itself.
      if (event.type !== "failed" || !event.isSuspect) return [told];
      return [told, { event: "suspect", stream: this.streamOf(event.call) }];
    });
  }

  fixtureEvent(event: SessionEvent): unknown {
    const { type } = event;
    const stream = "call" in event ? this.streamOf(event.call) : 0;
    switch (type) {
      case "reply": {
        const { then, isUnchanged: unchanged, isSuspect: suspect, isLarge: large, payload } = event;
        if (event.meta.maxAge !== undefined) this.kept.push(this.asked.get(event.call)!);
        return { event: type, stream, payload: hex(payload), then, unchanged, suspect, large };
      }
      case "failed":
        return { event: type, stream, code: event.code, outcome: event.outcome ?? null, watched: event.isWatched };
      case "items":
        this.session.consumed(event.call, event.bytes);
        return { event: type, stream, items: event.items.map(hex) };
      case "piece":
        return { event: type, stream, bytes: event.bytes, last: !!event.item };
      case "connected":
        return { event: type, resumed: event.resumed };
      case "closed":
        return { event: type, reason: REASONS[event.reason] };
      case "draining":
        return { event: type, grace_ms: event.graceMs, after_ms: event.afterMs };
      case "lost": case "unsure": case "sure":
        return { event: type };
      case "credential":
        return { event: type, expires_ms: event.expiresMs, refused: event.refused };
      default:
        return { event: type, stream };
    }
  }

  streamOf(call: Call): number {
    for (const [stream, other] of this.calls) if (other === call) return stream;
    return call.stream;
  }
}

describe("conversations", () => {
  // This client answers no calls and hosts nothing.
  const without = ["a call within a call"];
  for (const talk of load("conversations.json").conversations) {
    if (without.includes(talk.name)) continue;
    test(talk.name, () => new Player(talk).play());
  }
});

void WATCHING;
