// What of the page needs no browser: texts of others, members of objects, lines for a shell, and how large it is.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { asCurl, asGrpcurl, asRestCurl, asRestTidewire, asTidewire, quoted } from "../../crates/console/web/commands.js";
import { visible } from "../../crates/console/web/text.js";
import { root } from "./support.js";
import { HOSTILE } from "./shop.js";

const web = `${root}crates/console/web/`;

test("a shell reads back every text that a copied line quotes", () => {
  for (const text of [...HOSTILE.filter((one) => !one.includes("\0")), "it's", "$(touch /tmp/x)", "`id`", "a\nb", "", "-d", "~", "\\"]) {
    assert.equal(execFileSync("sh", ["-c", `printf %s ${quoted(text)}`], { encoding: "utf8" }), text);
  }
});

test("lines for a shell are one command each, whatever is in a call", () => {
  const what = { method: "shop.v1.Cart/Price", message: `{"a":"'; touch x #"}`, headers: { "x-a": "$(id)" }, address: "127.0.0.1:1", tls: false, protocol: "grpc", streams: false };
  for (const line of [asCurl(what), asGrpcurl(what), asTidewire(what)]) {
    const words = execFileSync("sh", ["-c", `for word in ${line}; do printf '%s\\0' "$word"; done`], { encoding: "utf8" }).split("\0");
    assert.ok(words.includes(what.message), line);
    assert.ok(words.includes("x-a: $(id)"), line);
  }
  const rest = { verb: "POST", path: "/things:find?a='$(id)", body: what.message, headers: what.headers };
  for (const [at, url] of [["127.0.0.1:1", "127.0.0.1:1"], ["unix:/run/a b.sock", "localhost"]]) {
    const line = asRestCurl({ ...rest, address: at, tls: false });
    const words = execFileSync("sh", ["-c", `for word in ${line}; do printf '%s\\0' "$word"; done`], { encoding: "utf8" }).split("\0");
    assert.ok(words.includes(what.message) && words.includes("x-a: $(id)") && words.includes(`http://${url}${rest.path}`), line);
  }
  assert.equal(asRestTidewire({ ...rest, body: undefined, verb: "GET", path: "/a", headers: {}, address: "h:1", tls: true }), "tidewire call -X GET https://h:1/a");
});

test("control characters, and those that turn the direction of writing, are shown", () => {
  assert.equal(visible("a\u202eb\u0000\u001b[31m\u200f\n"), "a\\u{202e}b\\u{0}\\u{1b}[31m\\u{200f}\n");
  assert.equal(visible(undefined), "");
});

test("integers with more digits than a number holds stay what they are", async () => {
  globalThis.sessionStorage ??= /** @type {any} */ ({ getItem: () => null, setItem() {}, removeItem() {} });
  globalThis.BroadcastChannel = /** @type {any} */ (class { postMessage() {} });
  const { read } = await import("../../crates/console/web/connect.js");
  const { withMember } = await import("../../crates/console/web/form.js");
  assert.deepEqual(read('{"a": 9007199254740993, "b": "9007199254740993", "c": [1.5, -12345678901234567, 1e300], "d\\"1": 2}'),
    { a: "9007199254740993", b: "9007199254740993", c: [1.5, "-12345678901234567", 1e300], 'd"1': 2 });
  const made = withMember(withMember({}, "__proto__", { polluted: 1 }), "constructor", 2);
  assert.deepEqual(Object.keys(made), ["__proto__", "constructor"]);
  assert.equal(/** @type {any} */ ({}).polluted, undefined);
  assert.equal(JSON.stringify(made), '{"__proto__":{"polluted":1},"constructor":2}');
});

test("the first page is at most 90 KiB compressed, and all files at most 900 KiB", () => {
  const files = readdirSync(web).filter((name) => /\.(js|css|html|svg)$/.test(name)).map((name) => readFileSync(web + name));
  const sum = (sizes) => sizes.reduce((all, one) => all + one, 0);
  const first = sum(files.map((bytes) => gzipSync(bytes).length));
  const all = sum(files.map((bytes) => bytes.length));
  console.log(`first page ${first} bytes compressed, ${all} bytes embedded`);
  assert.ok(first <= 90 * 1024, `${first}`);
  assert.ok(all <= 900 * 1024, `${all}`);
});

test("no file makes markup of text, evaluates text or names another host", () => {
  for (const name of readdirSync(web).filter((one) => /\.(js|html|css)$/.test(one) && one !== "preact.js")) {
    const text = readFileSync(web + name, "utf8");
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?:\/\/(?!localhost|\$)/, name);
  }
});
