// The docs page of a server, as somebody uses it: by role and by keyboard, without a network.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { after, afterEach, before, test } from "node:test";
import { restRequest } from "../../crates/console/web/rest.js";
import { Program, launch, tidewire, watched } from "./support.js";
import { HOSTILE, PROTO } from "./shop.js";

const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

const BOUND = `syntax = "proto3";
package store.v1;
import "google/api/annotations.proto";
// Where things are kept.
service Store {
  // Finds a thing on a shelf.
  rpc Find(FindRequest) returns (Thing) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/shelves/{shelf}/things/{thing.id}" };
  }
  rpc Put(FindRequest) returns (Thing) { option (google.api.http) = { post: "/things/{thing.id}" body: "thing" }; }
}
message FindRequest { string shelf = 1; Thing thing = 2; int32 page_size = 3; repeated string tags = 4; Kind kind = 5; }
enum Kind { KIND_UNSPECIFIED = 0; FRAGILE = 1; }
message Thing { string id = 1; string note = 2; int64 weight = 3; }
`;

/** @type {Program} */
let mock;
/** @type {import("playwright-core").Browser} */
let browser;
/** @type {{ page: import("playwright-core").Page, faults: string[] }[]} */
let pages = [];
before(async () => {
  mock = await Program.start({
    "protos/shop.proto": PROTO.replace('import "tidewire/v1/options.proto";\n', ""), "protos/store.proto": BOUND,
    "rules/shop.v1.cart.price.yaml": `responses:
  - when: {request.item.sku: gone}
    error: {code: NOT_FOUND, message: 'no such item <img src=x onerror=alert(1)>'}
  - when: {metadata.x-who: ada}
    body: {price: 9007199254740993, note: for Ada}
  - body: {price: 9, note: '</script><script>alert(1)</script>'}
`,
    "rules/shop.v1.cart.watch.yaml": "responses:\n  - stream_items: [{price: 1}, {price: 2}, {price: 3}]\n    stream_delay_ms: 0\n",
    "rules/store.v1.store.find.yaml": "responses:\n  - body: {id: '{{request.thing.id}}', note: 'on {{request.shelf}}, {{request.page_size}} a page', weight: 9007199254740993}\n",
  }, ["mock", "--port", "0", "--no-console"], { ready: (line) => line.startsWith("docs at ") });
  browser = await launch();
});
after(async () => {
  await browser.close();
  await mock.stop();
});
afterEach(async () => {
  const seen = pages;
  pages = [];
  for (const { page } of seen) await page.context().close();
  assert.deepEqual(seen.flatMap(({ faults }) => faults), []);
});

/** @param {string} [place] @param {object} [options] @param {RegExp} [expected] */
async function open(place = "", options = {}, expected = undefined) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, permissions: ["clipboard-read", "clipboard-write"], ...options });
  const it = await watched(context, { expected });
  pages.push(it);
  await it.page.goto(`${mock.line("docs at ")}${place}`);
  await it.page.getByRole("heading", { name: "shop.v1.Cart", exact: true }).waitFor();
  return it.page;
}

test("services, methods and their comments are there, and a method is found, filled in and called by keyboard", async () => {
  const page = await open();
  await page.getByText("What is in a cart, and what it costs.").waitFor();
  await page.getByText("The price of an item.").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("price");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Watch" }).waitFor({ state: "detached" });
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  const detail = page.getByRole("region", { name: "Try shop.v1.Cart/Price" });
  await detail.getByText("rpc Price(PriceRequest) returns (PriceReply)").waitFor();
  await detail.getByRole("button", { name: "Fill in a sample" }).click();
  await detail.getByLabel("item.sku", { exact: true }).fill("tea");
  await detail.getByLabel("Headers").fill("x-who: ada");
  await detail.getByRole("button", { name: "Send", exact: true }).focus();
  await page.keyboard.press("Enter");
  const log = page.getByRole("log");
  await log.getByText("✓ ok").waitFor();
  await log.getByText("9007199254740993").waitFor();
  await log.getByText("for Ada").waitFor();
  assert.equal(new URL(page.url()).hash, "#/shop.v1.Cart/Price");
});

test("an error and a stream are shown as the server sends them", async () => {
  const page = await open("#/shop.v1.Cart/Price", {}, /404/);
  await page.getByRole("button", { name: "JSON", exact: true }).click();
  await page.getByLabel("Request as JSON").fill('{"item": {"sku": "gone"}}');
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByRole("log").getByText("✕ not_found").waitFor();
  await page.getByRole("log").getByText("no such item <img src=x onerror=alert(1)>").waitFor();
  await page.getByRole("button", { name: "Watch", exact: true }).click();
  await page.getByRole("region", { name: "Try shop.v1.Cart/Watch" }).getByRole("button", { name: "Send", exact: true }).click();
  await page.getByRole("log").getByText("✓ ok").waitFor();
  assert.equal(await page.getByRole("log").locator("pre").count(), 3);
  await page.getByRole("button", { name: "Talk", exact: true }).click();
  const talk = page.getByRole("region", { name: "Try shop.v1.Cart/Talk" });
  await talk.getByRole("button", { name: "Send", exact: true, disabled: true }).waitFor();
});

test("a binding is called by its verb and path, and copied lines do the same in a shell", async () => {
  const page = await open("#/store.v1.Store/Find");
  await page.getByLabel("Protocol").selectOption("GET /shelves/{shelf}/things/{thing.id}");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByRole("alert").getByText("set shelf").waitFor();
  await page.getByRole("button", { name: "JSON", exact: true }).click();
  await page.getByLabel("Request as JSON").fill(`{"shelf": "a/b c", "thing": {"id": "7"}, "pageSize": 20}`);
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByRole("log").getByText("✓ ok").waitFor();
  await page.getByRole("log").getByText("on a/b c, 20 a page").waitFor();
  await page.getByRole("log").getByText("9007199254740993").waitFor();
  for (const name of ["Copy as curl", "as tidewire"]) {
    await page.getByRole("button", { name }).click();
    const line = await page.evaluate(() => navigator.clipboard.readText());
    const path = `${tidewire.replace(/\/tidewire$/, "")}:${process.env.PATH}`;
    const printed = execFileSync("sh", ["-c", line], { encoding: "utf8", env: { ...process.env, PATH: path }, stdio: ["ignore", "pipe", "ignore"] });
    assert.match(printed, /on a\/b c, 20 a page/, line);
  }
});

test("a deadline that is not one is refused, and enums are shown with their values", async () => {
  const page = await open("#/store.v1.Store/Find");
  await page.getByText("enum Kind {").waitFor();
  await page.getByText("FRAGILE = 1;").waitFor();
  for (const text of ["soon", "0", "-1", "1e9"]) {
    await page.getByLabel("Deadline in seconds").fill(text);
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByRole("alert").getByText("the deadline is not a number of seconds").waitFor();
    assert.equal(await page.getByRole("log").count(), 0, text);
  }
  await page.getByLabel("Deadline in seconds").fill("1.5");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByRole("log").waitFor();
  await page.getByRole("alert").waitFor({ state: "detached" });
});

test("hostile text of a request stays text", async () => {
  const page = await open("#/shop.v1.Cart/Price");
  await page.getByRole("button", { name: "JSON", exact: true }).click();
  for (const text of HOSTILE) {
    await page.getByLabel("Request as JSON").fill(JSON.stringify({ item: { sku: text } }));
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByRole("log").getByText("✓ ok").waitFor();
    assert.deepEqual(await page.evaluate(() => [document.images.length, document.scripts.length]), [0, 1]);
  }
});

for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
  test(`${colorScheme}: axe finds nothing, and nothing is wider than the window`, async () => {
    for (const width of [390, 1280]) {
      const page = await open("#/shop.v1.Cart/Price", { colorScheme, viewport: { width, height: 900 }, reducedMotion: "reduce" });
      await page.getByRole("button", { name: "Fill in a sample" }).click();
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await page.getByRole("log").getByText("✓ ok").waitFor();
      const found = await page.evaluate(`(() => { ${axe}; return window.axe.run(document, { resultTypes: ["violations"] }); })()`);
      assert.deepEqual(found.violations.map((/** @type {any} */ one) => `${one.id}: ${one.nodes.map((/** @type {any} */ node) => node.html).join(" ")}`), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
      if (process.env.PICTURES) {
        mkdirSync(process.env.PICTURES, { recursive: true });
        await page.screenshot({ path: `${process.env.PICTURES}/docs-${colorScheme}-${width}.png` });
      }
    }
  });
}

test("a message becomes path, query and body as google.api.http says", () => {
  const types = new Map(Object.entries({
    A: { name: "A", fields: [
      { name: "shelf_id", jsonName: "shelfId", type: "string", kind: "one" }, { name: "thing", jsonName: "thing", type: "B", kind: "one" },
      { name: "tags", jsonName: "tags", type: "string", kind: "list" }] },
    B: { name: "B", fields: [{ name: "id", jsonName: "id", type: "string", kind: "one" }, { name: "note", jsonName: "note", type: "string", kind: "one" }] },
  }));
  const message = { shelfId: "a b", thing: { id: "x/1", note: "n&" }, tags: ["1", "2"] };
  for (const [verb, template, body, path, sent] of /** @type {[string, string, string, string, string | undefined][]} */ ([
    ["GET", "/s/{shelf_id}", "", "s/a%20b?thing.id=x%2F1&thing.note=n%26&tags=1&tags=2", undefined],
    ["GET", "/s/{thing.id=x/*}:go", "", "s/x/1:go?shelf_id=a+b&thing.note=n%26&tags=1&tags=2", undefined],
    ["POST", "/s/{shelf_id}", "*", "s/a%20b", '{"thing":{"id":"x/1","note":"n&"},"tags":["1","2"]}'],
    ["POST", "/t/{thing.id}", "*", "t/x%2F1", '{"shelfId":"a b","thing":{"note":"n&"},"tags":["1","2"]}'],
    ["PUT", "/s/{shelf_id}", "thing", "s/a%20b?tags=1&tags=2", '{"id":"x/1","note":"n&"}'],
  ])) {
    assert.deepEqual(restRequest({ verb, template, body }, message, types, "A"), { path, body: sent }, template);
  }
  assert.throws(() => restRequest({ verb: "GET", template: "/s/{shelf_id}", body: "" }, {}, types, "A"), /set shelf_id/);
});
