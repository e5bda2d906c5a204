// The fixtures of the live protocol against this file: node sdk/node/tests/fixtures.js
"use strict";

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { Frame, putFrame, keyText, CODES, TidewireError } = require("../frames.js");
const { Session } = require("../session.js");
const { serve } = require("../tidewire.js");

const load = (name) => JSON.parse(fs.readFileSync(path.join(__dirname, "../../../tests/fixtures/live", name)));

for (const { name, hex, frame: want } of load("frames.json")) {
  const data = Buffer.from(hex, "hex");
  const meta = data.readUInt16LE(10);
  assert.deepEqual([data.readUInt32LE(4), data[8], data[9], data.readUInt32LE(12)],
    [want.stream, want.number, want.flags, want.deadline_ms], name);
  const { name: kind, fields, headers } = new Frame(data, data.length - 16);
  const repeats = [6, 7, 10, 15];
  const own = want.metadata.filter(({ tag }) => tag > 0 && tag < 64 && !repeats.includes(tag));
  const found = [...fields].filter(([tag]) => !repeats.includes(tag)).map(([tag, value]) => [tag, value.toString("hex")]);
  assert.deepEqual(found, own.map(({ tag, value }) => [tag, value]), name);
  const known = want.metadata.filter(({ tag }) => tag === 0 || (tag >= 64 && tag < 92));
  assert.deepEqual(headers.map(([, value]) => value),
    known.map(({ value }) => Buffer.from(value, "hex").toString("utf8")), name);
  const payload = Buffer.from(want.payload, "hex");
  const again = putFrame(kind, want.stream, want.flags, data.subarray(16, 16 + meta), payload, want.deadline_ms);
  assert.equal(again.toString("hex"), hex, name);
}

// Keys have one text in each language, and what is none is refused.
const kinds = { int: BigInt, double: Number, bytes: (hex) => Buffer.from(hex, "hex"), absent: () => null };
for (const { name, parts, text } of load("keys.json")) {
  const key = parts.flatMap(Object.entries).map(([kind, value]) => (kinds[kind] ?? ((same) => same))(value));
  if (text === null) assert.throws(() => keyText(key), TypeError, name);
  else assert.equal(keyText(key), text, name);
}
const view = new DataView(Uint8Array.of(1, 0x61, 0x62).buffer, 1);
for (const [part, text] of [[7, "7"], [undefined, "%_"], [view, "6162"], ["\ud800", "\ufffd"]]) {
  assert.equal(Buffer.from(keyText([part])).toString(), text);
}
for (const part of [{}, [], Symbol("a"), () => 1, new Date(), Object(1), new ArrayBuffer(1)]) {
  assert.throws(() => keyText([part]), /is no part of a key/);
}

const none = () => {};
assert.throws(() => serve({ "a.v1.A/Get": none, "/a.v1.A/Get": none }), /^Error: a.v1.A\/Get is served twice$/);

/** How a call ends that waits for a gateway, which has not said hello. */
function waitingWith(options) {
  const script = `const app = require("./tidewire.js").serve({}), abort = new AbortController();
    app.call("a.v1.A/Get", {}, ${options}).catch(({ message }) => fs.writeSync(1, message)).then(() => process.exit());
    abort.abort(new Error("given up"));`;
  const run = { cwd: path.join(__dirname, ".."), env: { TIDEWIRE_FD: "3" }, stdio: Array(4).fill("pipe"), timeout: 60_000 };
  return spawnSync(process.execPath, ["-e", script], run).stdout.toString();
}
assert.equal(waitingWith("{ signal: abort.signal }"), "given up");
assert.equal(waitingWith("{ deadline: performance.now() + 9 }"), "the deadline was over before the call");
assert.equal(waitingWith("{ deadline: 'soon' }"), "a deadline is a number of milliseconds, not soon");

function act(session, what, details) {
  const call = session.calls.get(details.stream);
  const bytes = (text) => Buffer.from(text || "", "hex");
  if (what === "reply") session.reply(call, bytes(details.payload), details);
  else if (what === "fail") {
    const [name, value] = details.detail;
    session.fail(call, new TidewireError(details.code, details.message, { details: [[name, bytes(value)]] }));
  } else if (what === "begin") session.begin(call);
  else if (what === "push") session.push(call, bytes(details.item));
  else if (what === "finish") session.finish(call);
  else if (what === "call") {
    session.ask(details.path, false, bytes(details.payload), { parent: details.parent, query: details.query });
  } else if (what === "log") session.log(details.level, details.text, details.fields);
  else if (what === "changed") session.changed(details.source, details.key);
  else if (what === "busy") session.busy(details.jobs);
  else assert.equal(what, "ready", "it is said by itself");
}

const talk = load("hosted.json");
const session = new Session({ agent: talk.agent });
for (const [number, step] of talk.steps.entries()) {
  if (step.host_writes !== undefined) {
    session.feed(Buffer.from(step.host_writes, "hex"));
    for (const call of session.calls.values()) while (call.items.length) session.takeItem(call);
  } else if (step.process_writes !== undefined) {
    const written = [];
    for (let data = session.take(); data.length; data = session.take()) written.push(data);
    assert.equal(Buffer.concat(written).toString("hex"), step.process_writes, `step ${number}`);
  } else act(session, step.process, step.details);
  assert.equal(session.closed, undefined, `step ${number}`);
}
assert.equal(session.take().length, 0, "nothing else is written");

/** All that a session has to write. */
function written(session) {
  const parts = [];
  for (let data = session.take(); data.length; data = session.take()) parts.push(data);
  return Buffer.concat(parts).toString("hex");
}

/** Plays a conversation, in which a session is the client; what it offers in its hello is its own. */
function play({ limits, method, name, steps }) {
  const windows = { stream: limits.stream_credit, connection: limits.connection_credit };
  const session = new Session({ windows });
  const asked = new Map();
  for (const [number, step] of steps.entries()) {
    const where = `${name}, step ${number}`;
    if (step.server_writes !== undefined) {
      session.feed(Buffer.from(step.server_writes, "hex"));
      for (const { call, heard } of asked.values()) {
        while (call.isOpen && call.items.length) heard.push(session.takeItem(call));
      }
    } else if (step.client_writes !== undefined) {
      const bytes = written(session);
      if (step.kinds[0] !== "hello") assert.equal(bytes, step.client_writes, where);
    } else if (step.client_hears !== undefined) {
      for (const event of step.client_hears) hear(session, asked, event, where);
    } else if (step.client !== undefined) {
      perform(session, asked, method, step.client, step.details);
    }
  }
  assert.equal(written(session), "", "nothing else is written");
}

function perform(session, asked, method, action, { stream, payload, path = method, kind, parent }) {
  const bytes = Buffer.from(payload ?? "", "hex");
  if (action === "call") {
    const call = session.ask(path, false, bytes, { parent, query: kind === "query" });
    assert.equal(call.number, stream);
    asked.set(stream, { call, heard: [] });
  } else if (action === "cancel") session.cancel(asked.get(stream).call);
  else if (action === "reply") session.reply(session.calls.get(stream), bytes);
  else assert.ok(["connect", "ready"].includes(action), "it is done by itself");
}

/** What the session knows agrees with what its application must hear. */
function hear(session, asked, event, where) {
  const { call, heard } = asked.get(event.stream) ?? {};
  const same = (found, expected) => assert.deepEqual(found, expected, where);
  const hex = ([item]) => item.toString("hex");
  const checks = {
    connected: () => same(session.isGreeted, true),
    request: () => same(hex(session.calls.get(event.stream).items[0]), event.payload),
    reply: () =>
      event.then === "nothing"
        ? same([call.isOpen, call.error, hex(call.items[0])], [false, undefined, event.payload])
        : same([call.hasHead, event.then, event.payload], [true, "items", ""]),
    items: () => same(heard.splice(0, event.items.length).map((item) => item.toString("hex")), event.items),
    piece: () => event.last && same(call.items[0][0].length % 16384, event.bytes),
    end: () => same([call.isOpen, call.error], [false, undefined]),
    failed: () => same([CODES.indexOf(call.error.code), call.error.outcome], [event.code, event.outcome]),
    draining: () => same(session.isDraining, true),
    closed: () => same(session.closed !== undefined, true),
  };
  checks[event.event]();
}

const talks = load("conversations.json").conversations.filter(({ hosted }) => hosted);
assert.ok(talks.length >= 8);
talks.forEach(play);
console.log("ok");
