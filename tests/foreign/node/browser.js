// Calls tidewire.test.v1.BehaviourService from a page with @connectrpc/connect-web, and sends one line
// per case to /result of the page's own server: `ok CASE` or `not ok CASE: why`.
//
// Query of the page: `open`, a server of another origin that allows this page the header x-ping and
// lets it read x-pong and its trailer; `closed`, one that allows another page only.

import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";

import { BehaviourService, FailDetailSchema } from "./gen/tidewire/test/v1/behaviour_pb.js";

// A bound on a hang, not a measurement.
const CASE_MILLIS = 300_000;

const WAYS = {
  "connect-proto": (baseUrl) => createConnectTransport({ baseUrl, useBinaryFormat: true }),
  "connect-json": (baseUrl) => createConnectTransport({ baseUrl, useHttpGet: true }),
  "grpcweb": (baseUrl) => createGrpcWebTransport({ baseUrl }),
};

function equal(actual, expected) {
  const [is, should] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (is !== should) throw new Error(`${is} is not ${should}`);
}

async function failureOf(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error("it did not fail");
}

function cases(transport, open, closed) {
  const client = createClient(BehaviourService, transport(open));
  return {
    "headers-and-trailers": async (signal) => {
      let header, trailer;
      const reply = await client.echo({ text: "grüße" }, {
        signal,
        timeoutMs: CASE_MILLIS,
        headers: { "x-ping": "over there", "authorization": "Bearer of nothing" },
        onHeader: (headers) => { header = headers.get("x-pong"); },
        onTrailer: (trailers) => { trailer = trailers.get("x-pong-trailer"); },
      });
      equal([reply.text, header, trailer], ["grüße", "over there", "over there"]);
    },
    "query": async (signal) => {
      const reply = await client.look({ key: "a b&c=ü" }, { signal });
      equal(reply.value, "value of a b&c=ü");
    },
    "stream": async (signal) => {
      const numbers = [];
      for await (const reply of client.count({ n: 3 }, { signal })) numbers.push(Number(reply.number));
      equal(numbers, [1, 2, 3]);
    },
    "error": async (signal) => {
      const request = { code: Code.FailedPrecondition, message: "asked to fail: grün", withDetail: true };
      const error = await failureOf(() => client.fail(request, { signal }));
      equal([error.code, error.rawMessage], [Code.FailedPrecondition, "asked to fail: grün"]);
      equal(error.findDetails(FailDetailSchema).map((detail) => detail.reason), ["asked for"]);
    },
    "header-that-is-not-allowed": async (signal) => {
      const headers = { "x-other": "1" };
      const error = await failureOf(() => client.echo({}, { signal, headers }));
      equal(ConnectError.from(error).rawMessage, "Failed to fetch");
    },
    "page-that-is-not-allowed": async (signal) => {
      const client = createClient(BehaviourService, transport(closed));
      const error = await failureOf(() => client.look({ key: "a" }, { signal }));
      equal(ConnectError.from(error).rawMessage, "Failed to fetch");
    },
  };
}

const query = new URLSearchParams(location.search);
const lines = [];
for (const [way, transport] of Object.entries(WAYS)) {
  for (const [name, run] of Object.entries(cases(transport, query.get("open"), query.get("closed")))) {
    try {
      await run(AbortSignal.timeout(CASE_MILLIS));
      lines.push(`ok ${way}/${name}`);
    } catch (error) {
      lines.push(`not ok ${way}/${name}: ${error}`);
    }
  }
}
for (const verb of ["PUT", "PATCH", "DELETE"]) {
  try {
    const response = await fetch(`${query.get("open")}/thing`, { method: verb });
    equal([response.status, await response.text()], [200, verb]);
    lines.push(`ok rest/${verb}`);
  } catch (error) {
    lines.push(`not ok rest/${verb}: ${error}`);
  }
}
await fetch("/result", { method: "POST", body: lines.join("\n") });
