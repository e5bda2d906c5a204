// Calls tidewire.test.v1.BehaviourService with @connectrpc/connect over every standard protocol, and
// prints one line per case: `ok CASE` or `not ok CASE: why`.
//
// Usage: node client.js ADDRESS [PART]. With PART only the cases whose name contains it are run. The
// exit code is 1 if a case failed, and 2 if no case ran.

import assert from "node:assert/strict";
import diagnostics from "node:diagnostics_channel";
import { setMaxListeners } from "node:events";

import { create, equals, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import {
  compressionGzip,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";

import {
  BehaviourService,
  EchoReplySchema,
  EchoRequestSchema,
  FailDetailSchema,
} from "./gen/tidewire/test/v1/behaviour_pb.js";

// A bound on a hang, not a measurement.
const CASE_MILLIS = 300_000;

// What a header value cannot hold as it is: percent signs, umlauts, a line break.
const FAIL_MESSAGE = "asked to fail: 100 % grün\nsecond line";

const connect = (httpVersion, useBinaryFormat) => ({
  make: (options) => createConnectTransport({ ...options, httpVersion, useBinaryFormat }),
  isHttp2: httpVersion === "2",
  isConnect: true,
  encodingHeader: "content-encoding",
  timeout: ["connect-timeout-ms", "50"],
});
const grpc = (makeTransport, httpVersion) => ({
  make: (options) => makeTransport({ ...options, httpVersion }),
  isHttp2: httpVersion === "2",
  isConnect: false,
  encodingHeader: "grpc-encoding",
  timeout: ["grpc-timeout", "50m"],
});
const WAYS = {
  "connect-proto-h1": connect("1.1", true),
  "connect-json-h1": connect("1.1", false),
  "connect-proto-h2": connect("2", true),
  "connect-json-h2": connect("2", false),
  "grpc-h2": grpc(createGrpcTransport, "2"),
  "grpcweb-h1": grpc(createGrpcWebTransport, "1.1"),
  "grpcweb-h2": grpc(createGrpcWebTransport, "2"),
};

function samples() {
  const everyByte = Uint8Array.from({ length: 256 }, (_, i) => i);
  const large = new Uint8Array(1 << 20);
  let state = 1;
  for (let i = 0; i < large.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    large[i] = state >>> 24;
  }
  return {
    "empty": {},
    "text": { text: "grüße, 世界, \"quoted\" \\ \u0000 \u2028", tags: ["a", "", "c"] },
    "int64-min": { number: -(2n ** 63n) },
    "int64-max": { number: 2n ** 63n - 1n },
    "int64-past-double": { number: 2n ** 53n + 1n },
    "bytes": { data: everyByte },
    "double-small": { ratio: 0.1 },
    "double-tiny": { ratio: 5e-324 },
    "double-infinite": { ratio: -Infinity },
    "map": { counts: { "": 0, "one": 1, "ünder": -2147483648 } },
    "timestamp": { at: { seconds: 1700000000n, nanos: 123456789 } },
    "timestamp-before-1970": { at: { seconds: -62135596800n } },
    "nested": { nested: { name: "root", children: [{}, { name: "leaf", children: [{ name: "deep" }] }] } },
    "large": { data: large },
  };
}

// The cases of one way, by name; each is an async function of a signal that ends it.
function cases(way, baseUrl) {
  const clientOf = (options) => createClient(BehaviourService, way.make({ baseUrl, ...options }));
  const client = clientOf({});
  const gzip = clientOf({ sendCompression: compressionGzip, acceptCompression: [compressionGzip] });
  const all = {};

  const echo = async (using, fields, options) => {
    const request = create(EchoRequestSchema, fields);
    const reply = await using.echo(request, options);
    // Both types have the same fields under the same numbers.
    const back = fromBinary(EchoRequestSchema, toBinary(EchoReplySchema, reply));
    assert.ok(equals(EchoRequestSchema, request, back), "the reply differs from the request");
  };
  for (const [name, fields] of Object.entries(samples())) {
    all[`echo-${name}`] = (signal) => echo(client, fields, { signal });
  }

  all["headers-and-trailers"] = async (signal) => {
    let header, trailer;
    await client.echo({}, {
      signal,
      headers: { "x-ping": "over there" },
      onHeader: (headers) => { header = headers.get("x-pong"); },
      onTrailer: (trailers) => { trailer = trailers.get("x-pong-trailer"); },
    });
    assert.deepEqual({ header, trailer }, { header: "over there", trailer: "over there" });
  };

  const look = async (using, signal) => {
    const reply = await using.look({ key: "a b&c=ü" }, { signal });
    assert.equal(reply.value, "value of a b&c=ü");
  };
  all["look"] = (signal) => look(client, signal);
  if (way.isConnect) {
    const getter = clientOf({ useHttpGet: true });
    all["look-by-get"] = async (signal) => {
      // Only HTTP/1.1 requests can be watched here; for HTTP/2 the reply has to do.
      let method = way.isHttp2 ? "GET" : "none";
      const watch = ({ request }) => { method = request.method; };
      diagnostics.subscribe("http.client.request.start", watch);
      try {
        await look(getter, signal);
      } finally {
        diagnostics.unsubscribe("http.client.request.start", watch);
      }
      assert.equal(method, "GET");
    };
  }

  all["gzip"] = async (signal) => {
    let encoding;
    await echo(gzip, { text: "tidewire ".repeat(8192) }, {
      signal,
      onHeader: (headers) => { encoding = headers.get(way.encodingHeader); },
    });
    assert.equal(encoding, "gzip");
  };
  all["gzip-streams"] = (signal) => sum(gzip, signal);

  all["count"] = async (signal) => {
    let next = 1;
    for await (const reply of client.count({ n: 1000 }, { signal })) {
      assert.equal(reply.number, next++);
    }
    assert.equal(next, 1001);
  };
  all["count-none"] = async (signal) => {
    for await (const reply of client.count({}, { signal })) {
      assert.fail(`a message arrived: ${reply.number}`);
    }
  };
  all["count-fails-midway"] = async (signal) => {
    let messages = 0;
    const failure = await failureOf(Code.Aborted, async () => {
      for await (const _ of client.count({ n: 10, failAfter: 3 }, { signal })) {
        messages++;
      }
    });
    assert.equal(messages, 3);
    assert.equal(failure.rawMessage, "stopped after 3");
  };

  const sum = async (using, signal) => {
    const values = async function* () {
      for (let value = 1n; value <= 100n; value++) {
        yield { value };
      }
    };
    const reply = await using.sum(values(), { signal });
    assert.deepEqual([reply.messages, reply.total], [100, 5050n]);
  };
  all["sum"] = (signal) => sum(client, signal);
  all["sum-none"] = async (signal) => {
    const reply = await client.sum((async function* () {})(), { signal });
    assert.equal(reply.messages, 0);
  };

  if (way.isHttp2) {
    // The next message goes out only after the answer to the one before, so that a server which
    // collects its input first would never answer.
    all["chat"] = async (signal) => {
      let answered = Promise.resolve();
      let release;
      const texts = Array.from({ length: 20 }, (_, i) => `message ${i}`);
      const requests = async function* () {
        for (const text of texts) {
          await answered;
          answered = new Promise((resolve) => { release = resolve; });
          yield { text };
        }
        await answered;
      };
      const replies = [];
      for await (const reply of client.chat(requests(), { signal })) {
        replies.push(reply.text);
        release();
      }
      assert.deepEqual(replies, texts);
    };
  }

  for (let code = Code.Canceled; code <= Code.Unauthenticated; code++) {
    all[`fail-${Code[code]}`] = async (signal) => {
      const withDetail = code % 2 === 1;
      const failure = await failureOf(code, () =>
        client.fail({ code, message: FAIL_MESSAGE, withDetail }, { signal }));
      assert.equal(failure.rawMessage, FAIL_MESSAGE);
      assert.equal(failure.metadata.get("x-fail"), "yes");
      const details = failure.findDetails(FailDetailSchema);
      const seen = details.map((detail) => [detail.reason, detail.number]);
      assert.deepEqual(seen, withDetail ? [["asked for", code]] : []);
    };
  }
  all["panic"] = async (signal) => {
    await failureOf(Code.Internal, () => client.panic({}, { signal }));
    await look(client, signal);
  };

  all["deadline"] = (signal) =>
    failureOf(Code.DeadlineExceeded, () => client.slow({ millis: 20_000 }, { signal, timeoutMs: 50 }));
  // A deadline that the library knows nothing of: the answer is the server's.
  all["deadline-kept-by-the-server"] = (signal) =>
    failureOf(Code.DeadlineExceeded, () =>
      client.slow({ millis: 20_000 }, { signal, headers: [way.timeout] }));

  all["unknown-method"] = (signal) => unknown({ name: "Missing" }, {}, signal);
  all["unknown-service"] = (signal) =>
    unknown({}, { typeName: "tidewire.test.v1.MissingService", name: "MissingService" }, signal);
  const unknown = (method, service, signal) => {
    const parent = Object.assign(Object.create(BehaviourService), service);
    const descriptor = Object.assign(Object.create(BehaviourService.method.echo), method, { parent });
    const transport = way.make({ baseUrl });
    return failureOf(Code.Unimplemented, () =>
      transport.unary(descriptor, signal, undefined, undefined, {}));
  };

  all["many-at-once"] = (signal) =>
    Promise.all(Array.from({ length: 64 }, (_, i) => echo(client, { number: BigInt(i) }, { signal })));
  return all;
}

// The failure of a call, checked to have the code.
async function failureOf(code, call) {
  try {
    await call();
  } catch (reason) {
    if (!(reason instanceof ConnectError)) {
      throw reason;
    }
    assert.equal(Code[reason.code], Code[code], `code is ${Code[reason.code]} (${reason.rawMessage}), want ${Code[code]}`);
    return reason;
  }
  assert.fail(`the call succeeded, want ${Code[code]}`);
}

async function main() {
  const [address, part = ""] = process.argv.slice(2);
  if (!address) {
    console.error("usage: node client.js ADDRESS [PART]");
    return 2;
  }
  let passed = 0;
  let failed = 0;
  for (const [wayName, way] of Object.entries(WAYS)) {
    for (const [caseName, body] of Object.entries(cases(way, `http://${address}`))) {
      const name = `connect-node/${wayName}/${caseName}`;
      if (!name.includes(part)) {
        continue;
      }
      try {
        const signal = AbortSignal.timeout(CASE_MILLIS);
        // Each call of `many-at-once` listens to it.
        setMaxListeners(100, signal);
        await body(signal);
        passed++;
        console.log(`ok ${name}`);
      } catch (reason) {
        failed++;
        console.log(`not ok ${name}: ${String(reason?.message ?? reason).replaceAll("\n", " ")}`);
      }
    }
  }
  if (passed + failed === 0) {
    console.error(`no case is named like ${JSON.stringify(part)}`);
    return 2;
  }
  return failed ? 1 : 0;
}

// A connection that breaks between calls has no call to fail.
process.on("uncaughtException", (reason) => {
  console.log(`not ok connect-node/connection: ${String(reason?.message ?? reason).replaceAll("\n", " ")}`);
  process.exit(1);
});

// Open HTTP/2 connections would keep the program alive.
process.exit(await main());
