// Who may come to the console: what a browser of somebody else would send, and what a thief would.
import assert from "node:assert/strict";
import { request } from "node:http";
import { readFileSync, statSync, readdirSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { Program, launch } from "./support.js";
import { FILES } from "./shop.js";

/** @type {Program} */
let mock;
before(async () => { mock = await Program.start(FILES, ["mock", "--port", "0"]); });
after(() => mock.stop());

/** @param {string} method @param {string} path @param {Record<string, string>} headers @param {string} [body] */
function http(method, path, headers = {}, body) {
  return new Promise((resolve, reject) => {
    const [host, port] = mock.admin.split(":");
    const asked = request({ host, port, method, path, headers: { host: mock.admin, ...headers } }, (response) => {
      let text = "";
      response.on("data", (chunk) => { text += chunk; });
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    asked.on("error", reject);
    asked.end(body);
  });
}
const JSON_TYPE = { "content-type": "application/json" };
const token = () => {
  const folder = `${mock.env.XDG_RUNTIME_DIR}/tidewire`;
  return readFileSync(`${folder}/${mock.admin}.token`, "utf8").trim();
};
const bearer = () => ({ authorization: `Bearer ${token()}` });

describe("the guard", () => {
  test("the token of a run is in a file of its owner alone, and goes with the program", async () => {
    const folder = `${mock.env.XDG_RUNTIME_DIR}/tidewire`;
    // Beside it lies what tells this program from others that run.
    assert.deepEqual(readdirSync(folder).sort(), [`${mock.admin}.about`, `${mock.admin}.token`]);
    assert.equal(statSync(`${folder}/${mock.admin}.token`).mode & 0o777, 0o600);
    assert.ok(!readFileSync(`${folder}/${mock.admin}.about`, "utf8").includes(token()));
    assert.equal(statSync(folder).mode & 0o777, 0o700);
    const other = await Program.start(FILES, ["mock", "--port", "0"]);
    const theirs = `${other.env.XDG_RUNTIME_DIR}/tidewire`;
    other.child.kill("SIGTERM");
    await new Promise((resolve) => other.child.once("exit", resolve));
    assert.deepEqual(readdirSync(theirs), []);
    await other.stop();
  });

  test("each check refuses what is sent by a page of somebody else, in the order of the design", async () => {
    const path = "/tidewire.admin.v1.Mocks/Reset";
    const same = { ...JSON_TYPE, ...bearer() };
    const [, port] = mock.admin.split(":");
    for (const [status, headers] of /** @type {[number, Record<string, string>][]} */ ([
      [421, { ...same, host: `evil.example:${port}` }],
      [421, { ...same, host: `127.0.0.1.evil.example:${port}`, origin: "null", "content-type": "text/plain" }],
      [403, { ...same, origin: "null", "content-type": "text/plain" }],
      [403, { ...same, origin: "http://127.0.0.1:1" }],
      [403, { ...same, origin: `http://localhost:${port}` }],
      [403, { ...same, "sec-fetch-site": "cross-site", "content-type": "text/plain" }],
      [403, { ...same, "sec-fetch-site": "same-site" }],
      [403, { ...same, "sec-fetch-site": "none" }],
      [415, { ...same, "content-type": "text/plain", authorization: "" }],
      [415, { ...same, "content-type": "application/x-www-form-urlencoded" }],
      [401, { ...JSON_TYPE }],
      [401, { ...JSON_TYPE, authorization: `Bearer ${"0".repeat(64)}` }],
      [200, { ...same, origin: `http://${mock.admin}`, "sec-fetch-site": "same-origin" }],
      [200, { ...same, host: `localhost:${port}` }],
    ])) {
      const said = await http("POST", path, headers, "{}");
      assert.equal(said.status, status, JSON.stringify(headers) + said.text);
      assert.ok(!Object.keys(said.headers).some((name) => name.startsWith("access-control-")), "no header for other origins");
    }
    assert.equal((await http("OPTIONS", path, { origin: "http://evil.example", "access-control-request-method": "POST" })).status, 403);
  });

  test("a command is not run by GET, and a page of the address bar is told nothing", async () => {
    for (const path of ["/tidewire.admin.v1.Mocks/Reset", "/tidewire.admin.v1.Mocks/Reset?encoding=json&message=%7B%7D", "/v1/mocks:reset", "/v1/system:drain"]) {
      const { status } = await http("GET", path, { ...bearer(), "sec-fetch-site": "same-origin" });
      assert.ok([404, 405, 415].includes(status), `${path} ${status}`);
    }
    assert.equal((await http("GET", "/v1/mocks/rules", { "sec-fetch-site": "none" })).status, 403);
    assert.equal((await http("GET", "/metrics", { "sec-fetch-site": "none" })).status, 401);
  });

  test("names lead nowhere else", async () => {
    for (const path of ["/console/..%2f..%2fCargo.toml", "/console/../index.html", "/console/%2e%2e/x", "/console/", "/console/app.js/x"]) {
      const { status } = await http("GET", path);
      assert.ok([400, 401, 404].includes(status), `${path} ${status}`);
    }
    for (const name of ["../shop.proto", "..%2fshop.proto", "/etc/passwd", "a/../../b.proto", ".hidden.proto", "a\0.proto"]) {
      const { status, text } = await http("POST", "/tidewire.admin.v1.Mocks/GetProto", { ...JSON_TYPE, ...bearer() }, JSON.stringify({ name }));
      assert.equal(status, 400, `${name} ${text}`);
    }
  });

  test("the page may load only what is here, and nothing keeps it", async () => {
    for (const path of ["/", "/console/app.js", "/console/style.css"]) {
      const { status, headers } = await http("GET", path, { "sec-fetch-site": "none" });
      assert.equal(status, 200, path);
      assert.match(headers["content-security-policy"], /^default-src 'none'; script-src 'self'; .*require-trusted-types-for 'script'; trusted-types 'none'$/);
      for (const [name, value] of [["x-content-type-options", "nosniff"], ["referrer-policy", "no-referrer"], ["cross-origin-opener-policy", "same-origin"], ["cross-origin-resource-policy", "same-origin"], ["cache-control", "no-store"]]) {
        assert.equal(headers[name], value, `${path} ${name}`);
      }
      assert.equal(headers["set-cookie"], undefined);
    }
    assert.equal((await http("GET", "/", { "sec-fetch-site": "cross-site" })).status, 403);
  });

  test("a code is good once, and not as a token; what is no code is refused", async () => {
    const code = mock.signIn().split("#")[1];
    const exchange = (said, headers = {}) => http("POST", "/console/sign-in", { ...JSON_TYPE, ...headers }, said);
    assert.equal((await exchange(JSON.stringify({ code }), { "content-type": "text/plain" })).status, 415);
    assert.equal((await exchange(JSON.stringify({ code }), { origin: "http://evil.example" })).status, 403);
    const first = await exchange(JSON.stringify({ code }));
    assert.equal(first.status, 200);
    const { bearer: text, act } = JSON.parse(first.text);
    assert.equal(act, true);
    assert.equal((await exchange(JSON.stringify({ code }))).status, 401, "twice");
    const look = (token) => http("POST", "/tidewire.admin.v1.System/Overview", { ...JSON_TYPE, authorization: `Bearer ${token}` }, "{}");
    assert.equal((await look(text)).status, 200);
    assert.equal((await look(code)).status, 401);
    for (const said of ["", "{}", '{"code":1}', '{"code":""}', "[]", "x".repeat(2000)]) {
      assert.ok([400, 401, 413, 429].includes((await exchange(said)).status), said.slice(0, 20));
    }
  });

  test("who may only look gets a console that may only look", async () => {
    const settings = '[admin]\nlisten = "127.0.0.1:0"\ntoken_file = "a.token"\nread_token_file = "r.token"\n';
    const readable = await Program.start({ ...FILES, "tidewire.toml": settings }, ["mock", "--port", "0"]);
    const { status, stdout, stderr } = readable.run(["console", "--admin", readable.admin, "--token-file", "r.token"]);
    assert.equal(status, 0, stderr);
    const browser = await launch();
    const page = await browser.newPage();
    await page.goto(stdout.trim());
    await page.getByText("read only").waitFor();
    await page.getByRole("link", { name: "Sessions" }).click();
    assert.equal(await page.getByRole("button", { name: "Reset all" }).isDisabled(), true);
    await browser.close();
    const raw = await fetch(`http://${readable.admin}/tidewire.admin.v1.Mocks/Reset`, {
      method: "POST", body: "{}", headers: { ...JSON_TYPE, authorization: `Bearer ${readFileSync(`${readable.folder}/r.token`, "utf8").trim()}` },
    });
    assert.equal(raw.status, 403);
    await readable.stop();
  });

  test("a name that was bound to this machine is not answered", async () => {
    const browser = await launch(["--host-resolver-rules=MAP evil.example 127.0.0.1"]);
    const page = await browser.newPage();
    const [, port] = mock.admin.split(":");
    const response = await page.goto(`http://evil.example:${port}/`);
    assert.equal(response?.status(), 421);
    await browser.close();
  });

  test("nothing more listens with --no-console, nor without --dev", async () => {
    const env = { ...mock.env };
    const { spawn } = await import("node:child_process");
    const { tidewire } = await import("./support.js");
    for (const words of [["mock", "--port", "0", "--no-console"], ["serve", "protos", "--port", "0"]]) {
      const child = spawn(tidewire, words, { cwd: mock.folder, env });
      let text = "";
      await new Promise((resolve) => child.stdout.on("data", (chunk) => { text += chunk; if (/mocking|serving/.test(text)) resolve(undefined); }));
      assert.doesNotMatch(text, /admin|console/);
      child.kill("SIGTERM");
      await new Promise((resolve) => child.once("exit", resolve));
    }
  });
});
