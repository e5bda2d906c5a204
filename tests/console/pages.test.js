// The pages, as somebody uses them: by role and by keyboard. Whatever a page must not do fails the test that sees it.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { after, afterEach, before, describe, test } from "node:test";
import { Program, freePort, launch, root, watched } from "./support.js";
import { FILES, HOSTILE, RULES } from "./shop.js";

const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** @type {Program} */
let mock;
/** @type {import("playwright-core").Browser} */
let browser;
/** @type {{ page: import("playwright-core").Page, faults: string[] }[]} */
let pages = [];
before(async () => {
  mock = await Program.start(FILES, ["mock", "--port", "0"]);
  browser = await launch();
});
after(async () => {
  await browser.close();
  await mock.stop();
});
/** Programs of one test. @type {Program[]} */
let programs = [];
afterEach(async () => {
  const [seen, begun] = [pages, programs];
  [pages, programs] = [[], []];
  for (const { page } of seen) await page.context().close();
  // Only then: a page that looks again would say that nobody answers.
  for (const program of begun) await program.stop();
  assert.deepEqual(seen.flatMap(({ faults }) => faults), []);
});

/** A program of one test, which ends after its pages. @type {typeof Program.start} */
async function start(files, words, more) {
  const program = await Program.start(files, words, more);
  programs.push(program);
  return program;
}

/** A tab that is signed in, at a place. @param {string} place @param {object} [options] @param {Program} [program] @param {RegExp} [expected] */
async function open(place, options = {}, program = mock, expected = undefined) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, permissions: ["clipboard-read", "clipboard-write"], ...options });
  const it = await watched(context, { expected });
  pages.push(it);
  await it.page.goto(program.signIn());
  await it.page.getByRole("navigation", { name: "Pages" }).waitFor();
  await it.page.goto(`http://${program.admin}/#${place}`);
  await it.page.getByRole("heading", { level: 1 }).waitFor();
  return it.page;
}

/** An example of a request comes first; between selecting and writing, it would stay. @param {import("playwright-core").Page} page */
const exampleIn = (page) => page.waitForFunction(() => [...document.querySelectorAll("textarea")].some((it) => it.value.includes('"quantity"')));

const price = (request, headers) => mock.call("shop.v1.Cart/Price", request, headers);

describe("sign-in", () => {
  test("the code leaves the address, other tabs of the browser come in without one, and a used code is told", async () => {
    const context = await browser.newContext();
    const first = await watched(context, { expected: /401/ });
    pages.push(first);
    const address = mock.signIn();
    await first.page.goto(address);
    await first.page.getByRole("heading", { name: "Mocks" }).waitFor();
    assert.doesNotMatch(first.page.url(), /[0-9a-f]{32}/);
    const sibling = await watched(context);
    await sibling.page.goto(`http://${mock.admin}/`);
    await sibling.page.getByRole("heading", { name: "Mocks" }).waitFor();
    assert.deepEqual(sibling.faults, []);
    const stranger = await browser.newContext();
    const late = await watched(stranger, { expected: /401/ });
    pages.push(late);
    await late.page.goto(address);
    await late.page.getByRole("alert").getByText("this code was used").waitFor();
    await late.page.goto(`http://${mock.admin}/#/calls`);
    await late.page.getByText("tidewire console", { exact: true }).waitFor();
  });
});

describe("addresses", () => {
  test("a page that is asked for while the first answer is on its way stays", async () => {
    const context = await browser.newContext();
    const it = await watched(context);
    pages.push(it);
    /** @type {() => void} */
    let answer = () => {};
    const held = new Promise((resolve) => { answer = () => resolve(undefined); });
    await it.page.route("**/System/Overview", async (route) => { await held; await route.continue(); });
    await it.page.goto(mock.signIn());
    await it.page.getByRole("navigation", { name: "Pages" }).waitFor();
    await it.page.evaluate(() => {
      // As if the event came only after the answer.
      addEventListener("hashchange", (event) => event.stopImmediatePropagation(), { capture: true, once: true });
      location.hash = "/calls?failed=1";
    });
    answer();
    await it.page.getByText("● takes calls").waitFor();
    assert.equal(new URL(it.page.url()).hash, "#/calls?failed=1");
  });
});

describe("mocks", () => {
  test("by keyboard: a method is found, and which response wins is shown with why each other lost", async () => {
    const page = await open("/mocks");
    const other = page.getByRole("button", { name: "shop.v1.Cart/Watch" });
    await other.waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("price");
    await page.keyboard.press("Escape");
    await other.waitFor({ state: "detached" });
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await exampleIn(page);
    await page.getByLabel("Request as JSON").fill('{"item": {"sku": "tea"}, "quantity": 50}');
    await page.getByRole("button", { name: "Preview" }).click();
    const table = page.getByRole("table", { name: "Responses and why they lost" });
    await table.getByRole("row").filter({ hasText: "tea" }).getByText("✓ answers").waitFor();
    await table.getByText('request.quantity is "50", wanted {"gte":100}').waitFor();
    assert.doesNotMatch(mock.run(["mocks", "calls"]).stdout, /Price/, "a preview is not a call");
  });

  test("a rule is edited: checked, previewed before it is saved, saved, in effect, and deleted", async () => {
    const page = await open("/mocks?method=shop.v1.Cart%2FTalk", {}, mock, /400/);
    await page.getByRole("button", { name: "Write one" }).click();
    const text = page.getByLabel("Text of shop.v1.cart.talk.yaml");
    await text.fill('responses:\n  - when: {request.item.sku: {regex: "^SK-[0-9"}}\n    body: {price: 1}\n');
    await page.getByRole("button", { name: "Check" }).click();
    await page.getByRole("list", { name: "Findings" }).getByText("warning").first().waitFor();
    await text.fill("responses: [");
    await page.getByRole("button", { name: "Check" }).click();
    await page.getByRole("list", { name: "Findings" }).getByText("error").first().waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText("invalid_argument").waitFor();
    await text.fill("responses:\n  - body: {price: 77}\n");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByText("the text below, not saved").waitFor();
    await page.getByText('"77"').waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("As on disk.").waitFor();
    assert.equal(readFileSync(`${mock.folder}/rules/shop.v1.cart.talk.yaml`, "utf8"), "responses:\n  - body: {price: 77}\n");
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "sure?" }).click();
    await page.getByText("There is none").waitFor();
  });

  test("a file that changed on disk while it is edited is not overwritten", async () => {
    const page = await open("/mocks?method=shop.v1.Cart%2FPrice", {}, mock, /412|409|400/);
    const file = `${mock.folder}/rules/shop.v1.cart.price.yaml`;
    await page.getByLabel("Text of shop.v1.cart.price.yaml").fill(`${RULES}# mine\n`);
    writeFileSync(file, `${RULES}# theirs\n`);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText("aborted").waitFor();
    assert.equal(readFileSync(file, "utf8"), `${RULES}# theirs\n`);
    writeFileSync(file, RULES);
  });

  test("near misses, verification, sessions and the end of them", async () => {
    await price({ quantity: 50 }, { "x-mock-session": "near" });
    const page = await open("/mocks/misses");
    await page.getByRole("row").filter({ hasText: 'request.quantity is "50", wanted {"gte":100}' }).first().waitFor();
    await page.getByRole("link", { name: "Verify" }).click();
    await page.getByLabel("Method").selectOption("shop.v1.Cart/Price");
    await page.getByLabel("Session").fill("near");
    await page.getByLabel("How often").selectOption("exactly");
    await page.getByLabel("Times").fill("3");
    await page.getByRole("button", { name: "Verify" }).click();
    await page.getByText("✕ Not as expected.").waitFor();
    await page.getByLabel("Times").fill("1");
    await page.keyboard.press("Enter");
    await page.getByText("✓ As expected.").waitFor();
    await page.getByRole("link", { name: "Sessions" }).click();
    const row = page.getByRole("row").filter({ hasText: "near" });
    await row.getByRole("button", { name: "Drop" }).click();
    await row.waitFor({ state: "detached" });
  });

  test("a .proto file is written, and what it says is mocked at once", async () => {
    const page = await open("/mocks/protos");
    await page.getByLabel("Name of a new file").fill("more.proto");
    await page.getByRole("button", { name: "New file" }).click();
    await page.getByLabel("Text of more.proto").fill('syntax = "proto3";\npackage more.v1;\nservice More { rpc Get(Any) returns (Any); }\nmessage Any { string a = 1; }\n');
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("✓ In effect.").waitFor();
    assert.ok("a" in await mock.call("more.v1.More/Get", {}));
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "sure?" }).click();
    await page.getByRole("button", { name: "more.proto" }).waitFor({ state: "detached" });
  });
});

describe("calls", () => {
  test("calls come as they are made; what failed is found by a key, and its details are there", async () => {
    const page = await open("/calls");
    await page.getByText("Calls are recorded while this page is open").waitFor();
    await page.getByRole("button", { name: "Capture bodies" }).click();
    await page.getByRole("button", { name: "Capture bodies" }).and(page.locator(":enabled")).waitFor();
    const failure = async () => { await price({ item: { sku: "tea" }, card: "4111" }, { authorization: "Bearer hunter2" }); await price({ item: { sku: "gone" } }); };
    await failure();
    await page.getByText("✕ not_found").waitFor();
    await page.keyboard.press("e");
    await page.keyboard.press("Enter");
    const detail = page.getByRole("region", { name: /^Call \d/ });
    await detail.getByText("not_found").waitFor();
    await detail.getByText("handler").waitFor();
    await detail.getByText("gone").waitFor();
    await page.getByLabel("Failed only").check();
    await page.getByText("✓ ok").waitFor({ state: "detached" });
    assert.match(page.url(), /failed=1/);
    await page.getByLabel("Failed only").uncheck();
    await page.getByRole("row").filter({ hasText: "✓ ok" }).getByRole("button").click();
    await detail.getByText("tea").waitFor();
    const said = await detail.innerText();
    assert.doesNotMatch(said, /hunter2|4111/, "no secret is shown");
    await page.keyboard.press("p");
    await page.getByText("; paused").waitFor();
    const before = await page.getByRole("row").count();
    await failure();
    await page.keyboard.press("p");
    await page.waitForFunction((rows) => document.querySelectorAll("tr").length > rows, before);
  });

  test("eight tabs of one browser all show what comes", async () => {
    const first = await open("/calls");
    const context = first.context();
    const tabs = [first];
    for (let n = 1; n < 8; n += 1) {
      const { page, faults } = await watched(context);
      await page.goto(`http://${mock.admin}/#/calls`);
      await page.getByRole("heading", { name: "Calls" }).waitFor();
      tabs.push(page);
      assert.deepEqual(faults, []);
    }
    await price({ item: { sku: "eight" } });
    for (const tab of tabs) await tab.getByRole("button", { name: "shop.v1.Cart/Price" }).first().waitFor();
  });

  test("a program that went away is said to be away, and not to be idle", async () => {
    const short = await Program.start(FILES, ["mock", "--port", "0"]);
    const page = await open("/calls", {}, short, /./);
    short.child.kill("SIGKILL");
    await page.getByText("does not answer").first().waitFor();
    await short.stop();
  });
});

describe("services", () => {
  test("a form for every type sends what was filled in, by each protocol", async () => {
    const page = await open("/services?method=shop.v1.Cart%2FPrice");
    await page.getByRole("button", { name: "Set item", exact: true }).click();
    await page.getByLabel("item.sku", { exact: true }).fill("tea");
    await page.getByLabel("item.size", { exact: true }).selectOption("LARGE");
    await page.getByRole("button", { name: "Set item.part" }).click();
    await page.getByLabel("item.part.sku", { exact: true }).fill("bag");
    await page.getByLabel("quantity", { exact: true }).fill("2");
    await page.getByLabel("customer", { exact: true }).fill("9007199254740993");
    await page.getByRole("button", { name: "Add to tags" }).click();
    await page.getByLabel("tags[0]", { exact: true }).fill("new");
    await page.getByLabel("New key of labels").fill("__proto__");
    await page.getByRole("button", { name: "Add to labels" }).click();
    await page.getByLabel("labels[__proto__]", { exact: true }).fill("x");
    await page.getByRole("combobox", { name: "way", exact: true }).selectOption("member");
    await page.getByRole("combobox", { name: "member", exact: true }).selectOption("true");
    await page.getByRole("textbox", { name: "at", exact: true }).fill('"2026-01-31T12:00:00Z"');
    await page.getByLabel("blob", { exact: true }).fill("aGk=");
    await page.getByLabel("weight", { exact: true }).fill("1.5");
    for (const protocol of ["connect", "live", "grpc", "grpc-web"]) {
      await page.getByLabel("Protocol").selectOption(protocol);
      await page.getByRole("button", { name: "Send", exact: true }).click();
      const log = page.getByRole("log", { name: "What came back" });
      await log.getByText("✓ ok").waitFor();
      await log.getByText('"price": "5"').waitFor();
    }
    await page.getByRole("button", { name: "as tidewire" }).click();
    const line = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(line, /^tidewire call --protocol grpc-web 127\.0\.0\.1:\d+ shop\.v1\.Cart\/Price '\{/);
    const words = line.slice("tidewire ".length);
    const { execFileSync } = await import("node:child_process");
    const { tidewire } = await import("./support.js");
    assert.match(execFileSync("sh", ["-c", `${tidewire} ${words}`], { encoding: "utf8", cwd: mock.folder, env: mock.env }), /"price":\s*"5"/);
    await page.goto(`http://${mock.admin}/#/mocks/calls`);
    await page.getByRole("button", { name: "shop.v1.Cart/Price" }).first().click();
    const shown = page.getByRole("region", { name: /^Call \d/ }).locator("pre").first();
    const sent = JSON.parse(await shown.innerText());
    assert.deepEqual({ ...sent, labels: Object.entries(sent.labels ?? {}) }, {
      item: { sku: "tea", size: "LARGE", part: { sku: "bag" } }, quantity: 2, customer: "9007199254740993", tags: ["new"],
      labels: [["__proto__", "x"]], member: true, at: "2026-01-31T12:00:00Z", blob: "aGk=", weight: 1.5,
    });
  });

  test("by a REST path and over the live protocol, what is copied is what was sent", async () => {
    const page = await open("/services?method=store.v1.Store%2FFind", {}, mock, /400/);
    const protocol = page.getByLabel("Protocol");
    await protocol.selectOption("REST: GET /shelves/{shelf}/things/{thing.id}");
    const send = page.getByRole("button", { name: "Send", exact: true });
    await send.click();
    await page.getByRole("alert").getByText("set shelf: it is a part of the path").waitFor();
    assert.equal(await page.getByRole("button", { name: "Copy as curl" }).count(), 0, "there is no line for a call that cannot be made");
    await page.getByLabel("Headers").fill("x-mock-session: rest");
    await page.getByRole("button", { name: "JSON" }).click();
    const request = page.getByLabel("Request as JSON");
    const log = page.getByRole("log", { name: "What came back" });
    const { execFileSync } = await import("node:child_process");
    const { tidewire } = await import("./support.js");
    const line = async (/** @type {string} */ name) => {
      await page.getByRole("button", { name }).click();
      return page.evaluate(() => navigator.clipboard.readText());
    };
    const shell = (/** @type {string} */ text) => execFileSync("sh", ["-c", text.replace(/^tidewire/, tidewire)], { encoding: "utf8", cwd: mock.folder, env: mock.env });
    const thing = { id: "it's a/b", note: "on top shelf, 3 a page", weight: "9007199254740993" };
    for (const option of ["REST: GET /shelves/{shelf}/things/{thing.id}", "REST: POST /things:find"]) {
      await protocol.selectOption(option);
      await request.fill('{"shelf": "top shelf", "thing": {"id": "it\'s a/b"}, "pageSize": 3, "tags": ["a&b", "c"]}');
      await send.click();
      await log.getByText("✓ ok").waitFor();
      await log.getByText(":status").waitFor({ state: "attached" });
      assert.deepEqual(JSON.parse(await log.locator("pre").innerText()), thing, option);
      for (const name of ["Copy as curl", "as tidewire"]) {
        const copied = await line(name);
        const said = shell(copied.replace(/^curl/, "curl -sS"));
        assert.ok(said.includes("9007199254740993") && said.includes(thing.note), `${copied}: ${said}`);
      }
      assert.equal(await page.getByRole("button", { name: "as grpcurl" }).count(), 0, "grpcurl sends no REST");
      // Each time by the page, by curl and by tidewire: the same request.
      const { calls } = await mock.ask("Mocks/ListCalls", { session: "rest", bodies: true });
      const sent = calls.slice(-3).map((one) => one.requests[0]);
      assert.deepEqual([sent.length, ...new Set(sent)], [3, sent[0]]);
      assert.deepEqual(JSON.parse(sent[0]).tags, ["a&b", "c"]);
    }
    await request.fill('{"shelf": "x", "thing": {"id": "gone"}}');
    await send.click();
    await log.getByText("✕ not_found").waitFor();
    await log.getByText("HTTP 404: no such thing <img src=x onerror=alert(1)>").waitFor();
    await protocol.selectOption("live");
    await request.fill('{"shelf": "top", "thing": {"id": "tea"}}');
    await send.click();
    await log.getByText("✓ ok").waitFor();
    assert.equal(await page.getByRole("button", { name: "Copy as curl" }).count(), 0, "curl does not speak it");
    assert.match(shell(await line("Copy as tidewire")), /on top, /);
    const { calls } = await mock.ask("Mocks/ListCalls", { session: "rest", bodies: true });
    assert.equal(new Set(calls.slice(-2).map((one) => one.requests[0])).size, 1);
    await page.goto(`http://${mock.admin}/#/services?method=store.v1.Store%2FList`);
    await protocol.selectOption("REST: GET /shelves/{shelf}");
    await page.getByLabel("shelf", { exact: true }).fill("top");
    await send.click();
    await log.getByText("✓ ok").waitFor();
    assert.equal(await log.getByText("message", { exact: true }).count(), 2);
    assert.deepEqual(shell((await line("Copy as curl")).replace(/^curl/, "curl -sS")).trim().split("\n").map((one) => JSON.parse(one).id), ["a", "b"]);
    await page.getByLabel("shelf", { exact: true }).fill("broken");
    await send.click();
    await log.getByText("✕ ").waitFor();
    // Only requests of the method are sent: the page makes them, the program looks.
    for (const rest of [{ verb: "GET", path: "/docs" }, { verb: "DELETE", path: "/shelves/x" }, { verb: "GET", path: "http://127.0.0.1:1/shelves/x" }]) {
      assert.equal((await mock.ask("Services/Open", { method: "store.v1.Store/List", protocol: "rest", rest })).code, "invalid_argument", JSON.stringify(rest));
    }
  });

  test("messages of a stream are shown one by one, and are sent one by one", async () => {
    const page = await open("/services?method=shop.v1.Cart%2FWatch");
    await page.getByRole("button", { name: "Send", exact: true }).click();
    const log = page.getByRole("log", { name: "What came back" });
    await log.getByText("✓ ok").waitFor();
    assert.equal(await log.getByText("message", { exact: true }).count(), 3);
    await page.goto(`http://${mock.admin}/#/services?method=shop.v1.Cart%2FFill`);
    await page.getByRole("region", { name: "Try shop.v1.Cart/Fill" }).waitFor();
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByRole("button", { name: "Send another" }).click();
    await page.getByRole("button", { name: "Close send" }).click();
    await log.getByText("✓ ok").waitFor();
  });

  test("what a method refuses, and a request that it does not take, are told", async () => {
    const page = await open("/services?method=shop.v1.Cart%2FPrice", {}, mock, /400/);
    await page.getByRole("button", { name: "JSON" }).click();
    await page.getByLabel("Request as JSON").fill('{"item": {"sku": "gone"}}');
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByText("✕ not_found").waitFor();
    await page.getByText("no such item <img src=x onerror=alert(1)>").waitFor();
    for (const text of ['{"itm": 1}', "{", `${"[".repeat(10_000)}`]) {
      await page.getByLabel("Request as JSON").fill(text);
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await page.getByRole("alert").getByText("invalid_argument").waitFor();
    }
  });
});

describe("cache", () => {
  test("why a reply was computed again is found on the page alone; what was not observed is not guessed", async () => {
    const program = `${process.env.CARGO_TARGET_DIR ?? `${root}target`}/debug/contacts`;
    const port = await freePort();
    const settings = `[server]\nlisten = ["127.0.0.1:0"]\n[admin]\nlisten = "127.0.0.1:${port}"\ntoken_file = "admin.token"\n`;
    const contacts = await start({ "tidewire.toml": settings }, [], { program, env: { CONTACTS: "300" }, ready: (line) => line.startsWith("Ctrl-C") });
    contacts.at(`127.0.0.1:${port}`);
    const call = (method, request) => contacts.call(`contacts.v1.Contacts/${method}`, request);
    await call("Get", { id: 7 });
    const page = await open("/cache", {}, contacts);
    await page.getByText("not recorded: nobody observes.").waitFor();
    await page.getByRole("button", { name: "/contacts.v1.Contacts/Get", exact: true }).click();
    await page.getByRole("table", { name: "Keys of the memo" }).getByRole("button").first().click();
    const detail = page.getByRole("region", { name: "Keys" });
    await detail.getByText("nobody observed").waitFor();
    await page.getByRole("button", { name: "Observe for 10 min" }).click();
    await page.getByText("Nothing changed since it is observed.").waitFor();
    await call("Update", { id: 7, firstName: "Changed" });
    await call("Get", { id: 7 });
    await page.getByRole("button", { name: "Look again" }).click();
    await detail.getByText(/changed/).first().waitFor();
    await detail.getByText(/What it read \([1-9]/).waitFor();
    await page.getByRole("region", { name: "What made most stale" }).getByRole("table").waitFor();
  });
});

const REPORTS = `import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Reports(BaseHTTPRequestHandler):
    def do_GET(self):
        print("asked for", self.path, file=sys.stderr, flush=True)
        if self.path.endswith("/crash"):
            os._exit(3)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Reports).serve_forever()
`;

describe("programs", () => {
  test("what a program wrote and how it fares is seen; it is stopped, and broken ones are told on the page of health", async () => {
    const table = (name, run) => `[[service]]\nname = "${name}"\nroute = "/${name}/*"\nrun = ${JSON.stringify(run)}\n`;
    const settings = `[server]\nlisten = ["127.0.0.1:0"]\n${table("reports", ["python3", "reports.py"])}${table("gone", ["python3", "-c", "raise SystemExit(7)"])}`;
    const host = await start({ "tidewire.toml": settings, "reports.py": REPORTS }, ["serve", "--dev"]);
    const page = await open("/processes", {}, host);
    const get = (path) => fetch(`http://${host.address}${path}`);
    assert.equal((await get("/reports/january")).status, 200);
    await page.getByRole("button", { name: "reports", exact: true }).click();
    const detail = page.getByRole("region", { name: "Program reports" });
    await detail.getByText("asked for /reports/january").waitFor();
    await detail.getByRole("table", { name: "Its processes" }).getByText("ready").waitFor();
    await detail.getByLabel("Only lines with").fill("february");
    await detail.getByText("No line has that.").waitFor();
    await detail.getByRole("button", { name: "Stop", exact: true }).click();
    await detail.getByRole("button", { name: /Stop reports with 0 calls – sure/ }).click();
    await detail.getByText("No process runs; the next call starts one.").waitFor();
    assert.ok((await get("/reports/crash")).status >= 500);
    await page.getByRole("table", { name: "Programs" }).getByRole("row").filter({ hasText: "reports" }).getByRole("cell", { name: "1", exact: true }).first().waitFor();
    // As often as opens its breaker.
    for (let times = 0; times < 6; times += 1) assert.equal((await get("/gone/x")).status, 503);
    await page.goto(`http://${host.admin}/#/health`);
    const attention = page.getByRole("region", { name: "What to look at" });
    await attention.getByText("gone is broken").waitFor();
    await attention.getByRole("listitem").filter({ hasText: "gone is broken" }).getByRole("link", { name: "open" }).click();
    await page.getByRole("region", { name: "Program gone" }).getByRole("button", { name: "CloseBreaker" }).or(page.getByRole("button", { name: "Close the breaker" })).click();
    await page.getByRole("table", { name: "Programs" }).getByText("✕ broken").waitFor({ state: "detached" });
  });

  test("settings say where they come from, secrets are not shown, and the level of the log is set", async () => {
    const program = await start({ ...FILES, "tidewire.toml": `[server]\nlisten = ["127.0.0.1:0"]\n[limits]\nbody_bytes_max = "9MiB"\n` }, ["mock", "--port", "0"], { env: { TIDEWIRE_LOG_LEVEL: "warn" } });
    const page = await open("/settings", {}, program, /400/);
    await page.getByRole("checkbox", { name: "Only what is set" }).check();
    const table = page.getByRole("table", { name: "Settings" });
    await table.getByRole("row").filter({ hasText: "limits.body_bytes_max" }).getByText("tidewire.toml").waitFor();
    await table.getByRole("row").filter({ hasText: "log.level" }).getByText("TIDEWIRE_LOG_LEVEL").waitFor();
    await page.getByLabel("Level of the log").fill("no such level!");
    await page.getByRole("button", { name: "Set the level" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Level of the log").fill("debug");
    await page.getByRole("button", { name: "Set the level" }).click();
    await page.getByText("The level is debug now.").waitFor();
  });
});

describe("every page", () => {
  const places = ["/mocks?method=shop.v1.Cart%2FPrice", "/mocks/misses", "/mocks/calls", "/mocks/verify", "/mocks/sessions", "/mocks/faults", "/mocks/protos?file=shop.proto", "/calls", "/cache", "/services?method=shop.v1.Cart%2FPrice", "/processes", "/health", "/load?method=shop.v1.Cart%2FPrice", "/settings"];
  const looks = /** @type {[string, object][]} */ ([
    ["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }],
    ["200 %", { viewport: { width: 640, height: 450 }, deviceScaleFactor: 2 }], ["360 px", { viewport: { width: 360, height: 740 } }],
  ]);
  for (const [look, options] of looks) {
    let running = "";
    test(`${look}: axe finds nothing, and nothing is wider than the window`, async () => {
      await price({ item: { sku: "tea" } });
      await price({ quantity: 50 });
      const plan = { method: "shop.v1.Cart/Price", message: "{}", requests: 20, connections: 1, seconds: 60 };
      const { id: base } = await mock.load(plan);
      const { id } = await mock.load(plan);
      const page = await open("/mocks", { ...options, bypassCSP: false });
      const ended = `/load?run=${id}`;
      for (const [place, prepare] of /** @type {[string, (() => Promise<void>)?][]} */ ([
        ...places.map((one) => [one]), [ended],
        [`${ended}&compared`, async () => {
          await page.getByLabel("Compare with the run before").selectOption(base);
          await page.getByRole("button", { name: "Compare" }).click();
          await page.getByRole("table", { name: "The run before, and this one" }).waitFor();
        }],
        ["/load", async () => {
          running = (await mock.ask("Loads/Start", { ...plan, requests: 0, rate: 5, seconds: 300 })).id;
          await page.getByRole("region", { name: "The run that goes on" }).getByText(/[1-9]\d* answered/).waitFor();
          await page.getByText("Calls in each second").waitFor();
        }],
      ])) {
        await page.goto(`http://${mock.admin}/#${place}`);
        await page.getByRole("heading", { level: 1 }).waitFor();
        await prepare?.();
        await page.waitForFunction(() => !document.body.innerText.includes("…\n"));
        const found = await page.evaluate(`(() => { ${axe}; return window.axe.run(document, { resultTypes: ["violations"] }); })()`);
        const violations = found.violations.map(({ id, nodes }) => `${place} ${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join("; ")}`);
        assert.deepEqual(violations, []);
        const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(wide <= window, `${place} is ${wide} wide in ${window}`);
      }
      await mock.ask("Loads/Stop", { id: running });
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await page.keyboard.press("Escape");
    });
  }

  test("hostile texts are texts wherever they are shown", async () => {
    const names = HOSTILE.map((text) => JSON.stringify(text));
    const rules = `responses:\n${names.map((name) => `  - name: ${name}\n    when: {request.item.sku: ${name}}\n    body: {note: ${name}}\n`).join("")}`;
    const hostile = await start({ ...FILES, "rules/shop.v1.cart.fill.yaml": rules }, ["mock", "--port", "0"]);
    const page = await open("/calls", {}, hostile, /400/);
    await page.getByRole("button", { name: "Capture bodies" }).click();
    for (const text of HOSTILE) {
      const header = encodeURIComponent(text).slice(0, 60);
      await hostile.call("shop.v1.Cart/Price", { item: { sku: text }, tags: [text], labels: { [text]: text } }, { "x-mock-session": header, "x-hostile": header, "user-agent": header });
    }
    const whole = async () => page.evaluate(() => ({ text: document.body.innerText, images: document.images.length, scripts: document.scripts.length, foreign: document.querySelectorAll("svg, img, iframe, object, embed").length }));
    await page.getByRole("button", { name: "shop.v1.Cart/Price" }).first().click();
    for (const place of ["/mocks/misses", "/mocks/sessions", "/mocks/calls", "/mocks?method=shop.v1.Cart%2FFill"]) {
      await page.goto(`http://${hostile.admin}/#${place}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
    }
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("table", { name: "Responses and why they lost" }).waitFor();
    const { text, images, scripts, foreign } = await whole();
    assert.ok(text.includes("<img src=x onerror=alert(1)>"));
    assert.ok(text.includes("\\u{202e}") && !text.includes("\u202e"), "the direction of writing is not turned");
    assert.deepEqual([images, scripts, foreign], [0, 1, 0]);
    await page.goto(`http://${hostile.admin}/#/mocks/calls`);
    await page.getByRole("button", { name: "shop.v1.Cart/Price" }).first().waitFor();
    for (const button of await page.getByRole("table", { name: "Mocked calls" }).getByRole("button").all()) {
      await button.click();
      const now = await whole();
      assert.deepEqual([now.images, now.scripts, now.foreign], [0, 1, 0]);
      assert.ok(!now.text.includes("\u202e") && !now.text.includes("\u001b"));
    }
    for (const query of ["<img src=x onerror=alert(1)>", "javascript:alert(1)", "__proto__"]) {
      await page.goto(`http://${hostile.admin}/#/mocks?method=${encodeURIComponent(query)}&name=${encodeURIComponent(query)}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
    }
  });

  test("pictures for the guide", async () => {
    const folder = process.env.PICTURES ?? `${mock.folder}/pictures`;
    mkdirSync(folder, { recursive: true });
    for (const request of [{ item: { sku: "tea" } }, { quantity: 200 }, { quantity: 50 }, { item: { sku: "gone" } }]) await price(request);
    for (const [name, place, options, prepare] of /** @type {[string, string, object, ((page: import("playwright-core").Page) => Promise<void>)?][]} */ ([
      ["mocks", "/mocks?method=shop.v1.Cart%2FPrice", {}, async (page) => {
        await exampleIn(page);
        await page.getByLabel("Request as JSON").fill('{"item": {"sku": "tea"}, "quantity": 50}');
        await page.getByRole("button", { name: "Preview" }).click();
        await page.getByText("✓ answers").waitFor();
      }],
      ["calls", "/calls", { colorScheme: "dark" }, async (page) => {
        await page.getByRole("heading", { name: "Calls" }).waitFor();
        await page.getByText("0 of 0 calls").or(page.getByRole("table", { name: "Calls" })).first().waitFor();
        for (const sku of ["tea", "gone", "bag"]) await price({ item: { sku } });
        await page.getByText("✕ not_found").first().waitFor();
        await page.keyboard.press("e");
        await page.keyboard.press("Enter");
        await page.getByRole("region", { name: /^Call \d/ }).waitFor();
      }],
      ["health", "/health", {}, async (page) => {
        await page.getByRole("table", { name: "Methods that were called" }).waitFor();
      }],
      ["load", "/load", { viewport: { width: 1100, height: 1150 } }, async (page) => {
        const { id } = await mock.load({ method: "shop.v1.Cart/Price", message: '{"item":{"sku":"tea"}}', rate: 400, seconds: 8, connections: 4 });
        await page.goto(`http://${mock.admin}/#/load?run=${id}`);
        await page.getByText("How long answers took in each second").waitFor();
        await page.getByRole("region", { name: "Runs", exact: true }).scrollIntoViewIfNeeded();
        await page.evaluate(() => document.querySelector("section[aria-label='Runs']")?.scrollIntoView());
      }],
      ["services", "/services?method=shop.v1.Cart%2FWatch", {}, async (page) => {
        await page.getByRole("button", { name: "Send", exact: true }).click();
        await page.getByText("✓ ok").waitFor();
      }],
    ])) {
      const page = await open(place, { viewport: { width: 1100, height: 720 }, reducedMotion: "reduce", ...options });
      await prepare?.(page);
      await page.screenshot({ path: `${folder}/console-${name}.png` });
      await page.context().close(); // the load of another picture drops the call that this one shows
    }
  });
});
