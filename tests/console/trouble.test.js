// The page in trouble: a program that drains, ends, or is another one by now; no scripts; streams without an end.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { Program, freePort, launch, watched } from "./support.js";
import { FILES } from "./shop.js";

/** @type {import("playwright-core").Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());
/** @type {Program[]} */
let programs = [];
afterEach(async () => {
  const begun = programs;
  programs = [];
  for (const program of begun) await program.stop();
});

/** @type {typeof Program.start} */
async function start(files, words, more) {
  const program = await Program.start(files, words, more);
  programs.push(program);
  return program;
}

/** @param {Program} program @param {string} place @param {RegExp} [expected] */
async function open(program, place, expected) {
  const it = await watched(await browser.newContext({ viewport: { width: 1280, height: 900 } }), { expected });
  await it.page.goto(program.signIn());
  await it.page.getByRole("navigation", { name: "Pages" }).waitFor();
  await it.page.goto(`http://${program.admin}/#${place}`);
  await it.page.getByRole("heading", { level: 1 }).waitFor();
  return it;
}

test("a program that starts anew at the same address is not taken for the one before: the page asks for another code", async () => {
  const port = await freePort();
  const settings = `[admin]\nlisten = "127.0.0.1:${port}"\ntoken_file = "a.token"\n`;
  const first = await start({ ...FILES, "tidewire.toml": settings }, ["mock", "--port", "0"]);
  const signIn = () => {
    const { status, stdout, stderr } = first.run(["console", "--admin", first.admin, "--token-file", "a.token"]);
    assert.equal(status, 0, stderr);
    return stdout.trim();
  };
  const { page, faults } = await watched(await browser.newContext(), { expected: /./ });
  await page.goto(signIn());
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  await page.goto(`http://${first.admin}/#/calls`);
  await page.getByText("Calls are recorded while this page is open").waitFor();
  await first.stop({ keep: true });
  await page.getByText("does not answer").first().waitFor();
  // The token of the file is the same; what the page got for its code is not known to this one.
  await start({}, ["mock", "--port", "0"], { folder: first.folder });
  await page.getByText("tidewire console", { exact: true }).waitFor();
  assert.equal(await page.getByRole("navigation", { name: "Pages" }).count(), 0);
  await page.goto(signIn());
  await page.getByText("● takes calls").waitFor();
  await page.context().close();
  assert.deepEqual(faults, []);
});

test("without scripts the page says which commands of the terminal say the same", async () => {
  const program = await start(FILES, ["mock", "--port", "0"]);
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(`http://${program.admin}/`);
  // Searches for texts leave out what is for those without scripts.
  const said = page.locator("noscript p");
  await said.waitFor();
  assert.match(await said.innerText(), /This page needs JavaScript/);
  for (const command of ["top", "calls", "inspect", "mocks"]) {
    assert.ok((await said.innerText()).includes(`tidewire ${command}`), command);
    assert.equal(program.run([command, "--help"]).status, 0, command);
  }
  await context.close();
});

test("a program that drains is said to drain, and starts no load; the call that goes on is answered", async () => {
  const rules = "responses:\n  - stream_items: [{price: 1}]\n    stream_loop: true\n    stream_delay_ms: 50\n";
  const program = await start({ ...FILES, "rules/shop.v1.cart.watch.yaml": rules }, ["mock", "--port", "0"]);
  const { page } = await open(program, "/health", /./);
  await page.getByText("● takes calls").waitFor();
  const call = new AbortController();
  const envelope = new Uint8Array([0, 0, 0, 0, 2, 0x7b, 0x7d]);
  const response = await fetch(`http://${program.address}/shop.v1.Cart/Watch`, { method: "POST", headers: { "content-type": "application/connect+json" }, body: envelope, signal: call.signal });
  assert.equal(response.status, 200);
  const reader = response.body?.getReader();
  await reader?.read();
  await program.ask("System/Drain", {});
  await page.getByText("◌ drains").waitFor();
  await page.getByRole("region", { name: "What to look at" }).getByText("It drains").waitFor();
  assert.equal((await program.ask("Loads/Start", { method: "shop.v1.Cart/Price" })).code, "failed_precondition");
  call.abort();
  await page.context().close();
});

test("of a stream without an end the page keeps so many messages, says how many are gone, and ends it", async () => {
  const rules = "responses:\n  - stream_items: [{price: 1}]\n    stream_loop: true\n    stream_delay_ms: 0\n";
  const program = await start({ ...FILES, "rules/shop.v1.cart.watch.yaml": rules }, ["mock", "--port", "0"]);
  const { page, faults } = await open(program, "/services?method=shop.v1.Cart%2FWatch");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText(/^[1-9]\d* earlier messages are not shown\.$/).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  const log = page.getByRole("log", { name: "What came back" });
  await log.getByText("✕ canceled").waitFor();
  assert.ok(await log.getByText("message", { exact: true }).count() <= 200);
  await page.context().close();
  assert.deepEqual(faults, []);
});

test("a program that was stopped by somebody else meanwhile is stopped once, and so is a run of load", async () => {
  const settings = `[server]\nlisten = ["127.0.0.1:0"]\n[[service]]\nname = "files"\nroute = "/files/*"\nrun = ["python3", "server.py"]\nstart_timeout = "2m"\n`;
  const server = `import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Files(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Files).serve_forever()
`;
  const host = await start({ "tidewire.toml": settings, "server.py": server }, ["serve", "--dev"]);
  assert.equal((await fetch(`http://${host.address}/files/a`)).status, 200);
  const { page, faults } = await open(host, "/processes");
  await page.getByRole("button", { name: "files", exact: true }).click();
  const detail = page.getByRole("region", { name: "Program files" });
  await detail.getByRole("button", { name: "Stop", exact: true }).click();
  const sure = detail.getByRole("button", { name: /^Stop files with 0 calls – sure/ });
  await sure.waitFor();
  // Between the question and its answer somebody else stops it.
  assert.equal((await host.ask("Processes/Stop", { name: "files" })).code, undefined);
  await sure.click();
  await detail.getByText("No process runs; the next call starts one.").waitFor();
  assert.equal(await detail.getByRole("alert").count(), 0, "that it has ended is what was wanted");
  await page.context().close();
  assert.deepEqual(faults, []);
  const mock = await start(FILES, ["mock", "--port", "0"]);
  const { id } = await mock.ask("Loads/Start", { method: "shop.v1.Cart/Price", rate: 10, seconds: 300 });
  const stops = await Promise.all([mock.ask("Loads/Stop", { id }), mock.ask("Loads/Stop", { id })]);
  for (const load of [...stops, await mock.ask("Loads/Stop", { id })]) assert.equal(load.stoppedBy, "by hand", JSON.stringify(load));
});
