// The program of the behaviour suite, in JavaScript; `http` as its argument serves pages by node:http.
"use strict";

const fs = require("node:fs");
const util = require("node:util");
const { serve, streaming, TidewireError } = require("../tidewire.js");

const NAME = "tidewire.hosted.v1.Hosted/";
const runs = new Map(), heard = new Map();
let rest;

/** What a text was noted by, and who waits for it. */
function noted(text) {
  if (!heard.has(text)) {
    let note;
    const when = new Promise((resolve) => (note = resolve));
    heard.set(text, { when, note });
  }
  return heard.get(text);
}

const untilCancelled = (context) => new Promise((resolve) => context.signal.addEventListener("abort", resolve));
const pageText = (verb, target) => `${verb} ${decodeURI(target)} `;

const methods = {
  Echo(request, context) {
    const ping = context.header("x-ping");
    if (ping) {
      context.replyHeaders.push(["x-pong", ping]);
      context.replyTrailers.push(["x-pong-trailer", ping]);
    }
    return request;
  },
  Get(request, context) {
    context.depends("items", request.text ?? ""); // Text that is empty is left out.
    return methods.Bare(request);
  },
  Bare(request) {
    runs.set(request.text, (runs.get(request.text) || 0) + 1);
    return { number: runs.get(request.text) };
  },
  List(request, context) {
    const number = request.number ?? 0;
    for (let key = 1; key <= number; key++) context.depends("items", key);
    if (number <= 0) context.depends(number ? "s".repeat(20_000) : "items");
    runs.set(number, (runs.get(number) || 0) + 1);
    return { text: `${runs.get(number)} ${JSON.stringify(request)}` };
  },
  Set(request, context) {
    context.changed("items", request.text ?? "");
    return request;
  },
  Size(request, context) {
    context.depends("items", request.number ?? 0);
    return methods.Bare({ text: `size ${request.number}` });
  },
  Resize(request, context) {
    context.changed("items", request.number ?? 0);
    return request;
  },
  *Count(request, context) {
    for (let number = 1; number <= (request.number || 0); number++) yield { number };
    if (request.number === -2) yield* [{ number: 1 }, { number: "x" }];
    else if (request.number < 0) {
      yield { number: 1 };
      context.replyTrailers.push(["x-long", "y".repeat(20_000)]);
    }
  },
  Sum: streaming(async (requests) => {
    let number = 0;
    for await (const request of requests) {
      if (request.number === -1) return request;
      number += request.number || 0;
    }
    return { number };
  }),
  Chat: streaming(async function* (requests) {
    for await (const request of requests) {
      if (request.text === "raise") throw new RangeError("secret");
      yield { text: "re: " + (request.text || "") };
    }
  }),
  Fail(request, context) {
    context.depends("items", request.text);
    context.replyTrailers.push(["x-fail-trailer", "late"]);
    throw new TidewireError("not_found", "there is no " + request.text, {
      details: [["tidewire.hosted.v1.Text", Buffer.from("\x0a\x01x")]], headers: [["x-fail", "yes"]],
    });
  },
  async Wait(request, context) {
    await untilCancelled(context);
    noted(request.text).note();
  },
  async *Drip(request, context) {
    yield { number: 1 };
    await untilCancelled(context);
    noted(request.text).note();
  },
  async Heard(request) {
    await noted(request.text).when;
    return request;
  },
  async Begin(request, context) {
    const [first, second, third] = request.text.split(" ");
    noted(first).note();
    await noted(second).when;
    if (!context.signal.aborted) noted(third).note();
    return {};
  },
  async Within(request, context) {
    if (request.text === "sum") return { text: `${(await context.call(NAME + "Sum", { number: 5 })).number}` };
    return context.call(NAME + "Echo", { text: "inner " + request.text });
  },
  Through: (request, context) => context.call(NAME + "Get", { text: request.text }, { query: true }),
  Who(request, context) {
    if (request.text) return context.call(NAME + "Who", {}, { asCaller: request.text === "caller" });
    context.depends("items", "who");
    const known = context.principal, ran = methods.Bare({ text: "who" }).number;
    if (!known) return { text: `nobody ${ran}` };
    const { issuer, subject, scopes, claims } = known;
    return { text: `${issuer} ${subject} ${scopes.join("+")} ${claims.tenant ?? "-"} ${known.hasScope("read")} ${ran}` };
  },
  Left: (_, context) => ({ number: Math.floor(context.remaining ?? 0) }),
  Do(request, context) {
    switch (request.text) {
      case "pid": return { text: String(process.pid) };
      case "crash": return process.kill(process.pid, "SIGKILL");
      case "garbage": return void fs.writeSync(3, "HTTP/1.1 200 OK\r\n\r\nthis is no frame");
      case "noise":
        for (let line = 0; line < 20_000; line++) console.log("x".repeat(100));
        context.log("warn", "noise is over", { lines: 20_000 });
        break;
      case "raise": throw new RangeError("secret");
      case "hook": throw { get [Symbol.toStringTag]() { throw 1; }, [util.inspect.custom]() { throw new Error("no"); } };
      case "nan": return { number: NaN };
      case "bad details": throw new TidewireError("not_found", "m", { details: [1, null] });
      case "late call": return context.call(NAME + "Echo", {}, { deadline: performance.now() - 1 });
      case "aborted call": return context.call(NAME + "Echo", {}, { signal: AbortSignal.abort(new TidewireError("aborted")) });
      case "odd call": return context.call(NAME + "Echo", {}, { deadline: NaN });
      case "bad depends": context.sources.push(7); throw new RangeError("secret");
      case "busy": app.busy(new Promise((resolve) => (rest = resolve))); break;
      case "idle": rest(); break;
      case "odd answer": return { text: "odd", more: 1 };
      case "wrong answer": return { text: 5 };
    }
    sayTooMuch(request.text, context);
    return request;
  },
};

/** What there is no room for, or no form. */
function sayTooMuch(what, context) {
  const upTo = (count) => [...Array(count).keys()];
  const reads = { few: [1, "a/b", 1], many: upTo(20_000), two: upTo(2_000) };
  for (const key of reads[what] ?? []) context.depends("items", key);
  const long = ["x-long", "y".repeat(20_000)];
  const said = {
    two: () => context.depends("tags"),
    "long key": () => context.depends("items", "x".repeat(20_000)),
    "long source": () => context.depends("s".repeat(20_000)),
    "long header": () => context.replyHeaders.push(long),
    "long trailer": () => context.replyTrailers.push(long),
    "long changed": () => context.changed("items", "x".repeat(70_000)),
    "no key": () => context.changed("items", 7, {}),
    fields: () => context.log("info", "t", { under_score: 1, "sp ace": "v", LF: "a\r\nb\u001bc" }),
    "long log": () => context.log("info", "x" + "é".repeat(40_000)),
    "wrong depends": () => context.depends(undefined),
    "wrong changed": () => context.changed(undefined),
    "wrong log": () => context.log("info", undefined),
  };
  said[what]?.();
}

async function fetch(request) {
  const { pathname, search } = new URL(request.url);
  if (pathname === "/switch") return Response.error();
  const body = request.body ? await request.text() : "";
  const headers = { "x-page": "yes", "x-back": request.headers.get("x-name") ?? "" };
  return new Response(pageText(request.method, pathname + search) + body, { status: 201, headers });
}

function http(request, response) {
  if (request.url === "/destroy") return response.destroy();
  if (request.url === "/switch") return response.writeHead(101, { connection: "upgrade", upgrade: "x" }).end();
  if (request.url === "/half") return response.write("half", () => response.destroy());
  response.writeHead(201, { "x-page": "yes", "x-back": request.headers["x-name"] ?? "" });
  response.write(pageText(request.method, request.url));
  request.pipe(response);
}

for (const name of ["Public", "Vary", "Caller", "Query"]) methods["Who" + name] = methods.Who;
const pages = process.argv[2] === "http" ? { http } : { fetch };
const handlers = Object.entries(methods).map(([name, handler]) => [NAME + name, handler]);
const app = serve({ ...Object.fromEntries(handlers), ...pages });
app.log("debug", "said before it is known who hears it");
