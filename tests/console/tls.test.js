// A server that takes calls over TLS alone: the console calls it, and trusts its certificate and no other.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, afterEach, before, test } from "node:test";
import { Program, launch, root, tidewire, watched } from "./support.js";
import { FILES } from "./shop.js";

const PRICE = "shop.v1.Cart/Price";
const FIXTURES = `${root}tests/fixtures/tls`;
const fixture = (/** @type {string} */ name) => readFileSync(`${FIXTURES}/${name}`, "utf8");

/** Self-signed, for a name that is not the address it is called at. @type {{ certificate: string, key: string }} */
let ownSigned;
/** @type {import("playwright-core").Browser} */
let browser;
/** @type {Program[]} */
let programs = [];
before(async () => {
  const folder = mkdtempSync(`${tmpdir()}/tls-`);
  const words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=shop.example", "-addext", "subjectAltName=DNS:shop.example", "-addext", "basicConstraints=critical,CA:FALSE"];
  execFileSync("openssl", [...words, "-keyout", `${folder}/key.pem`, "-out", `${folder}/cert.pem`], { stdio: "ignore" });
  ownSigned = { certificate: readFileSync(`${folder}/cert.pem`, "utf8"), key: readFileSync(`${folder}/key.pem`, "utf8") };
  rmSync(folder, { recursive: true });
  browser = await launch();
});
after(() => browser.close());
afterEach(async () => {
  const begun = programs;
  programs = [];
  for (const program of begun) await program.stop();
});

/** @param {{ certificate: string, key: string }} identity @param {string} [more] */
async function start({ certificate, key }, more = "") {
  const settings = `[server]\nlisten = ["127.0.0.1:0"]\n[server.tls]\ncertificate = "cert.pem"\nkey = "key.pem"\n${more}`;
  const files = { ...FILES, "tidewire.toml": settings, "cert.pem": certificate, "key.pem": key, "authority.pem": fixture("authority.pem") };
  const program = await Program.start(files, ["mock"]);
  programs.push(program);
  return program;
}

/** @param {Program} program @param {string} place @param {RegExp} [expected] */
async function open(program, place, expected) {
  const it = await watched(await browser.newContext({ viewport: { width: 1280, height: 900 } }), { expected });
  await it.page.goto(program.signIn());
  await it.page.getByRole("navigation", { name: "Pages" }).waitFor();
  await it.page.goto(`http://${program.admin}/#${place}`);
  return it;
}

test("a method of a server with a self-signed certificate is tried by each protocol, and is put under load", async () => {
  const program = await start(ownSigned);
  const { page, faults } = await open(program, `/services?method=${encodeURIComponent(PRICE)}`);
  const log = page.getByRole("log", { name: "What came back" });
  for (const protocol of ["connect", "grpc", "grpc-web", "live"]) {
    await page.getByLabel("Protocol").selectOption(protocol);
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await log.getByText("✓ ok").waitFor();
  }
  await page.goto(`http://${program.admin}/#/services?method=store.v1.Store%2FFind`);
  await page.getByLabel("Protocol").selectOption("REST: POST /things:find");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await log.getByText("✓ ok").waitFor();
  await page.goto(`http://${program.admin}/#/load?method=${encodeURIComponent(PRICE)}`);
  await page.getByLabel("The line for a terminal").getByText(`--server-cert ${program.folder}/cert.pem`).waitFor();
  await page.getByRole("button", { name: "Start" }).and(page.locator(":enabled")).waitFor();
  for (const protocol of ["connect", "grpc"]) {
    const load = await program.load({ method: PRICE, protocol, message: "{}", requests: 20, connections: 1, seconds: 60 });
    assert.equal(load.figures?.ok, "20", JSON.stringify(load));
    assert.match(load.command, /bench run https:/);
    // The line makes the same run again.
    execFileSync("sh", ["-c", load.command.replace(/^tidewire/, tidewire)], { cwd: "/", env: program.env });
  }
  await page.context().close();
  assert.deepEqual(faults, []);
});

test("so is one whose certificate an authority signed that this machine does not trust; another certificate is refused", async () => {
  const program = await start({ certificate: fixture("server.pem"), key: fixture("server.key") });
  const opened = await program.ask("Services/Open", { method: PRICE, messages: ["{}"] });
  const { events } = await program.ask("Services/Receive", { call: opened.call });
  assert.ok(events.length > 0 && !JSON.stringify(events).includes("certificate"), JSON.stringify(events));
  const url = `https://${program.address.replace(/^https:\/\//, "")}/${PRICE}`;
  const run = (/** @type {string} */ name) => program.run(["bench", "run", url, "--protocol", "connect", "-d", "{}", "--requests", "5", "--server-cert", `${FIXTURES}/${name}`]);
  assert.equal(run("server.pem").status, 0, run("server.pem").stderr);
  for (const other of ["other.pem", "authority.pem"]) {
    const { status, stderr } = run(other);
    assert.notEqual(status, 0, other);
    assert.match(stderr, /certificate/i);
  }
});

test("a server that wants a certificate of each client says on the page why it is not called", async () => {
  const program = await start(ownSigned, 'client_authorities = "authority.pem"\n');
  const why = "this server takes no client without a certificate, and the console has none";
  const { page, faults } = await open(program, `/services?method=${encodeURIComponent(PRICE)}`, /400/);
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByRole("alert").getByText(why).waitFor();
  await page.goto(`http://${program.admin}/#/load?method=${encodeURIComponent(PRICE)}`);
  await page.getByRole("note").getByText(why).waitFor();
  await page.getByRole("button", { name: "Start" }).and(page.locator(":disabled")).waitFor();
  await page.context().close();
  assert.deepEqual(faults, []);
});
