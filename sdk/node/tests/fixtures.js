// The fixtures of the live protocol against this file: node sdk/node/tests/fixtures.js
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { Session, TidewireError, Frame, putFrame } = require("../tidewire.js");

const load = (name) => JSON.parse(fs.readFileSync(path.join(__dirname, "../../../tests/fixtures/live", name)));

for (const { name, hex, frame: want } of load("frames.json")) {
  const data = Buffer.from(hex, "hex");
  const meta = data.readUInt16LE(10);
  assert.deepEqual([data.readUInt32LE(4), data[8], data[9], data.readUInt32LE(12)],
    [want.stream, want.number, want.flags, want.deadline_ms], name);
  const { fields, headers } = new Frame(data, data.length - 16);
  const repeats = [6, 7, 10, 15];
  const own = want.metadata.filter(({ tag }) => tag > 0 && tag < 64 && !repeats.includes(tag));
  const found = [...fields].filter(([tag]) => !repeats.includes(tag)).map(([tag, value]) => [tag, value.toString("hex")]);
  assert.deepEqual(found, own.map(({ tag, value }) => [tag, value]), name);
  const known = want.metadata.filter(({ tag }) => tag === 0 || (tag >= 64 && tag < 92));
  assert.deepEqual(headers.map(([, value]) => value),
    known.map(({ value }) => Buffer.from(value, "hex").toString("utf8")), name);
  const payload = Buffer.from(want.payload, "hex");
  const again = putFrame(want.number, want.stream, want.flags, data.subarray(16, 16 + meta), payload, want.deadline_ms);
  assert.equal(again.toString("hex"), hex, name);
}

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
    const parent = session.calls.get(details.parent);
    session.ask(details.path, false, bytes(details.payload), { parent, query: details.query });
  } else if (what === "log") session.log(details.level, details.text, details.fields);
  else if (what === "changed") session.changed(details.source, details.key);
  else if (what === "busy") session.busy(details.jobs);
  else assert.equal(what, "ready", "it is said by itself");
}

const talk = load("hosted.json");
const session = new Session({ agent: talk.agent, now: () => 0 });
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
console.log("ok");
