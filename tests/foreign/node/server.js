// Serves tidewire.test.v1.BehaviourService with @connectrpc/connect over Connect, gRPC and gRPC-Web: a
// foreign peer for Tidewire's own client. Node has no port for both versions of HTTP in cleartext, so
// there are two.
//
// Usage: node server.js. It prints `listening on ADDRESS` for HTTP/1.1 and then for HTTP/2.

import http from "node:http";
import http2 from "node:http2";

import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";

import { BehaviourService, FailDetailSchema } from "./gen/tidewire/test/v1/behaviour_pb.js";

const behaviour = {
  echo(request, context) {
    const ping = context.requestHeader.get("x-ping");
    if (ping !== null) {
      context.responseHeader.set("x-pong", ping);
      context.responseTrailer.set("x-pong-trailer", ping);
    }
    const { text, tags, nested, number, data, ratio, counts, at } = request;
    return { text, tags, nested, number, data, ratio, counts, at };
  },
  look: (request) => ({ value: `value of ${request.key}` }),
  async *count(request, context) {
    for (let number = 1; number <= request.n; number++) {
      if (request.failAfter > 0 && number > request.failAfter) {
        throw new ConnectError(`stopped after ${request.failAfter}`, Code.Aborted);
      }
      yield { number };
    }
    context.responseTrailer.set("x-counted", `${request.n}`);
  },
  async sum(requests) {
    const reply = { total: 0n, messages: 0 };
    for await (const request of requests) {
      reply.total += request.value;
      reply.messages++;
    }
    return reply;
  },
  async *chat(requests) {
    for await (const request of requests) {
      yield { text: request.text };
    }
  },
  fail(request) {
    const details = request.withDetail
      ? [{ desc: FailDetailSchema, value: { reason: "asked for", number: request.code } }]
      : [];
    throw new ConnectError(request.message, request.code, { "x-fail": "yes" }, details);
  },
  panic() {
    throw new Error("asked to panic");
  },
  slow: (request, context) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve({ millis: request.millis }), request.millis);
      context.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(context.signal.reason);
      });
    }),
};

const adapter = connectNodeAdapter({ routes: (router) => router.service(BehaviourService, behaviour) });
const listen = (server) =>
  new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      console.log(`listening on 127.0.0.1:${server.address().port}`);
      resolve();
    });
  });
await listen(http.createServer(adapter));
await listen(http2.createServer(adapter));
