// The package against the program that TIDEWIRE names.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";

import { create } from "@bufbuild/protobuf";
import { MethodSchema, SourceContextSchema, Syntax } from "@bufbuild/protobuf/wkt";

import { Mock, MockError, VerifyError } from "../mock.js";

const protos = fileURLToPath(new URL("../../tests/protos", import.meta.url));
const GET_PRICE = "shop.v1.Cart/GetPrice";

/** What protobuf-es makes of the method, as far as the package looks. */
const find = {
  name: "Find",
  parent: { typeName: "shop.v1.Cart" },
  input: SourceContextSchema,
  output: MethodSchema,
};

async function call(scope, method, request, headers = {}) {
  const response = await scope.fetch(`/shop.v1.Cart/${method}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(request),
  });
  return response.json();
}

describe("a mock", { concurrency: true }, () => {
  let mock;
  before(async () => {
    mock = await Mock.start({ protos });
  });
  after(() => mock.close());

  test("answers as it was told, and from its schema where it was not", async () => {
    const session = mock.session();
    await session
      .on(GET_PRICE)
      .with("sku", "tea")
      .withHeader("x-tenant", { in: ["acme"] })
      .reply({ unit_price: 4n });
    await session
      .on(GET_PRICE)
      .with({ quantity: { gte: 100 } })
      .delay(1)
      .header("x-a", "b")
      .reply({ note: "bulk" });
    assert.deepEqual(await call(session, "GetPrice", { sku: "tea" }, { "x-tenant": "acme" }), {
      unitPrice: "4",
    });
    assert.deepEqual(await call(session, "GetPrice", { quantity: 250 }), { note: "bulk" });
    assert.deepEqual(Object.keys(await call(session, "GetPrice", { sku: "tea" })).sort(), [
      "note",
      "sku",
      "unitPrice",
    ]);
  });

  test("fails so often and answers then", async () => {
    const session = mock.session();
    await session.on(GET_PRICE).times(1).fail("unavailable", "try again");
    await session.on(GET_PRICE).reply({ unit_price: 9 });
    assert.deepEqual(await call(session, "GetPrice", {}), {
      code: "unavailable",
      message: "try again",
    });
    assert.deepEqual(await call(session, "GetPrice", {}), { unitPrice: "9" });
  });

  test("answers with a stream", async () => {
    const session = mock.session();
    await session.on("shop.v1.Cart/WatchPrice").replyStream([{ note: "a" }, { note: "b" }]);
    const response = await session.fetch("/shop.v1.Cart/WatchPrice", {
      method: "POST",
      headers: { "content-type": "application/connect+json" },
      body: Buffer.from("\0\0\0\0\x02{}"),
    });
    const notes = [...(await response.text()).matchAll(/"note":"(.)"/g)].map((found) => found[1]);
    assert.deepEqual(notes, ["a", "b"]);
  });

  test("takes messages of protobuf-es where it is given the method's descriptor", async () => {
    const session = mock.session();
    const wanted = create(SourceContextSchema, { fileName: "shop.proto" });
    const message = create(MethodSchema, {
      name: "GetPrice",
      requestStreaming: true,
      syntax: Syntax.PROTO3,
    });
    await session.on(find).with(wanted).reply(message);
    assert.deepEqual(await call(session, "Find", { fileName: "shop.proto" }), {
      name: "GetPrice",
      requestStreaming: true,
      syntax: "SYNTAX_PROTO3",
    });
    await session.verify(find, { with: wanted, exactly: 1 });
    await assert.rejects(
      session.on("Find").reply(message),
      /google\.protobuf\.Method needs its method's descriptor/,
    );
  });

  test("keeps sessions apart that run beside one another", async () => {
    const sessions = await Promise.all(
      [...Array(20).keys()].map(async (number) => {
        const session = mock.session();
        await session
          .on(GET_PRICE)
          .times(2)
          .reply({ unit_price: number + 1 });
        await session.on(GET_PRICE).fail("not_found", "used up");
        const replies = [];
        for (let i = 0; i < 3; i++)
          replies.push(await call(session, "GetPrice", { quantity: number }));
        assert.deepEqual(
          replies.map((reply) => reply.unitPrice ?? reply.code),
          [`${number + 1}`, `${number + 1}`, "not_found"],
        );
        await session.verify(GET_PRICE, {
          with: { quantity: number === 0 ? { exists: false } : number },
          exactly: 3,
        });
        return session;
      }),
    );
    await sessions[0].reset();
    assert.deepEqual(await sessions[0].calls(), []);
    assert.equal((await sessions[1].calls(GET_PRICE)).length, 3);
    assert.notEqual(
      (await call(sessions[0], "GetPrice", {})).code,
      "not_found",
      "its rules are gone",
    );
  });

  test("tells the calls, and those that no rule was for", async () => {
    const session = mock.session("told");
    await session.on(GET_PRICE).with("sku", "tea").reply({});
    await call(session, "GetPrice", { sku: "milk" });
    const [one] = await session.calls();
    assert.deepEqual(
      [one.method, one.session, one.requests, one.code],
      [GET_PRICE, "told", [{ sku: "milk" }], "ok"],
    );
    const [miss] = await session.nearMisses();
    assert.deepEqual(miss.misses, ['request.sku is "milk", wanted "tea"']);
  });

  test("tells how a call ended, and that it runs before", async () => {
    const session = mock.session();
    await session.on(GET_PRICE).delay("3600s").reply({});
    const caller = new AbortController();
    const left = session.fetch(`/${GET_PRICE}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
      signal: caller.signal,
    });
    let calls = [];
    while (calls.length === 0) calls = await session.calls();
    assert.equal(calls[0].code, "running");
    caller.abort();
    await assert.rejects(left);
    while (calls[0].code === "running") calls = await session.calls();
    assert.deepEqual(
      [calls[0].code, calls[0].reason],
      ["canceled", "the caller left before the answer was complete"],
    );
    await session.verify(GET_PRICE, { exactly: 1 });
  });

  test("verify fails with the calls that came near", async () => {
    const session = mock.session();
    await call(session, "GetPrice", { sku: "milk", quantity: 7 });
    await session.verify(GET_PRICE);
    await session.verify(GET_PRICE, { with: { sku: "tea" }, exactly: 0 });
    const error = await session
      .verify(GET_PRICE, { with: { sku: "tea", quantity: 7 }, exactly: 3 })
      .catch((why) => why);
    assert.ok(error instanceof VerifyError && error instanceof assert.AssertionError);
    assert.match(
      error.message,
      /expected exactly 3 calls of .*, got 0\n {2}closest: call \d+\n {4}sku is "milk", wanted "tea"/,
    );
    assert.match(error.stack, /mock\.test\.js/);
  });

  test("refuses a wrong rule where it is added", async () => {
    const rules = [
      [
        (rule) => rule.reply({ unit_prise: 4 }),
        /GetPriceReply has no field unit_prise; write unit_price/,
      ],
      [(rule) => rule.reply({ unit_price: "dear" }), /"dear" is not a valid int64/],
      [(rule) => rule.with("skuu", "tea").reply({}), /GetPriceRequest has no field skuu/],
      [(rule) => rule.with("sku", { is: "tea" }).reply({}), /there is no operator is, so the object is/],
      [() => mock.on({ name: "Find" }).reply({}), /not a method: \{ name: 'Find' \}; write shop/],
      [(rule) => rule.fail("unavaliable"), /not a code of an error; write unavailable/],
      [(rule) => rule.fault("rset").reply({}), /not a kind of fault/],
    ];
    for (const [add, why] of rules) {
      const error = await add(mock.on(GET_PRICE)).catch((it) => it);
      assert.ok(error instanceof MockError);
      assert.equal(error.code, "invalid_argument");
      assert.match(error.message, why);
      assert.match(error.stack.split("\n")[1], /mock\.test\.js/);
    }
    await assert.rejects(mock.on("shop.v1.Cart/GetPrize").reply({}), { code: "not_found" });
  });

  test("answers go wrong where they are told to", async () => {
    const session = mock.session();
    await session
      .on(GET_PRICE)
      .fault({ kind: "truncate", after: 3 })
      .reply({ note: "long enough" });
    await assert.rejects(call(session, "GetPrice", {}));
  });
});

describe("the program", () => {
  test("ends when the test that started it is killed", async () => {
    const script = `import { Mock } from ${JSON.stringify(new URL("../mock.js", import.meta.url).href)};
      const mock = await Mock.start({ protos: ${JSON.stringify(protos)} });
      await mock.on(${JSON.stringify(GET_PRICE)}).reply({ note: String(process.pid) });
      console.log(mock.url);
      setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [url] = await once(child.stdout, "data");
    const told = {
      url: String(url).trim(),
      fetch: (path, init) => fetch(new URL(path, told.url), init),
    };
    const note = async () => (await call(told, "GetPrice", {}).catch(() => ({}))).note;
    assert.equal(await note(), String(child.pid));
    child.kill("SIGKILL");
    // Until nobody answers, or another mock has its port; a mock that goes on is ended by the timeout of the run.
    while ((await note()) === String(child.pid));
  });

  test("a port that is taken, a program that is not there or is another one are told", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address();
    await assert.rejects(
      Mock.start({ protos, port }),
      new RegExp(`127.0.0.1:${port} is in use by another program`),
    );
    taken.close();
    await assert.rejects(Mock.start({ protos, program: "/no/tidewire" }), /put tidewire on PATH/);
    await assert.rejects(Mock.start({ protos, program: "true" }), /true mock ended with code 0/);
    await assert.rejects(
      Mock.start({ protos, arguments: ["--newer"] }),
      /too old for this package[^]*--newer/,
    );
    await assert.rejects(
      Mock.start({ protos: "/no/protos" }),
      /there is no service in \/no\/protos/,
    );
  });

  test("says that it has ended, and how, when it is asked after that", async () => {
    const mock = await Mock.start({ protos });
    process.kill(mock.pid, "SIGKILL");
    await assert.rejects(mock.on(GET_PRICE).reply({}), {
      code: "unavailable",
      message: /the mock ended with SIGKILL/,
    });
    await mock.close();
  });
});
