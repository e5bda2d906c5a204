// The client in Chromium: what only a browser does to a page.
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { existsSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { build } from "esbuild";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { Notes } from "./gen/notes/v1/notes_pb.js";
import { Proxy } from "./support/proxy.ts";
import { RustServer } from "./support/server.ts";

const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

let files: Server;
let origin: string;
let policy = "";
let server: RustServer;
let proxy: Proxy;
let browser: Browser;
let context: BrowserContext;
let notes: ReturnType<typeof createClient<typeof Notes>>;

before(async () => {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("browser/page.ts", import.meta.url))],
    bundle: true, format: "esm", target: "es2022", write: false, minify: true,
    define: { "process.env.NODE_ENV": '"production"' },
  });
  files = createServer(({ url }, response) => {
    const isScript = url === "/page.js";
    response.setHeader("access-control-allow-origin", "*"); // A frame without an origin loads it, too.
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    if (policy) response.setHeader("content-security-policy", policy);
    if (isScript) return response.end(outputFiles[0]!.contents);
    response.end(url!.startsWith("/other") ? "another page" : '<!doctype html><div id="root"></div><script type="module" src="/page.js"></script>');
  });
  await new Promise<void>((resolve) => files.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(files.address() as { port: number }).port}`;
  server = await RustServer.start({ TIDEWIRE_CORS_ORIGINS: origin });
  proxy = await new Proxy(server.port).start();
  notes = createClient(Notes, createConnectTransport({ baseUrl: server.url, httpVersion: "2" }));
  assert.ok(executablePath, "there is no Chromium; run `make setup` once");
  browser = await chromium.launch({
    executablePath, args: flags, ignoreDefaultArgs: ["--disable-back-forward-cache"],
  });
  context = await browser.newContext();
  context.setDefaultTimeout(300_000);
});
after(async () => {
  await browser?.close();
  proxy?.stop();
  await server?.kill();
  files?.close();
});

async function open(text: string, to = proxy.url): Promise<Page> {
  await notes.set({ key: "n", text });
  const page = await context.newPage();
  await page.goto(`${origin}/?server=${to}`);
  await shows(page, text);
  return page;
}

/** The page shows the text, and that it is current. */
async function shows(page: Page, text: string): Promise<void> {
  await page.waitForFunction((wanted) => {
    const all = [...document.querySelectorAll<HTMLElement>(".note")];
    return all.length === 2 && all.every((note) => note.textContent === wanted && note.dataset.stale === "false");
  }, text);
}

describe("Chromium", () => {
  test("two components in StrictMode use one socket, and show each change", async () => {
    const page = await context.newPage();
    const sockets: string[] = [];
    page.on("websocket", (socket) => sockets.push(socket.url()));
    await notes.set({ key: "n", text: "one" });
    await page.goto(`${origin}/?server=${proxy.url}`);
    await shows(page, "one");
    await notes.set({ key: "n", text: "two" });
    await shows(page, "two");
    assert.equal(sockets.length, 1);
    await page.close();
  });

  test("offline: the connection is lost, and dialed as soon as the network is back", async () => {
    const page = await open("before");
    await context.setOffline(true);
    proxy.isRefusing = true;
    proxy.cut();
    await page.waitForFunction(() => document.querySelector<HTMLElement>(".note")!.dataset.stale === "true");
    await notes.set({ key: "n", text: "meanwhile" });
    proxy.isRefusing = false;
    await context.setOffline(false);
    await shows(page, "meanwhile");
    await page.close();
  });

  test("a page that was frozen shows what changed, when it runs again", async () => {
    const page = await open("before");
    const session = await context.newCDPSession(page);
    await session.send("Page.setWebLifecycleState", { state: "frozen" });
    await notes.set({ key: "n", text: "thawed" });
    await session.send("Page.setWebLifecycleState", { state: "active" });
    await shows(page, "thawed");
    await page.close();
  });

  test("a page that comes back from the cache of pages is current", async () => {
    const page = await open("before");
    await page.goto(`${origin}/other`);
    await notes.set({ key: "n", text: "after" });
    await page.goBack({ waitUntil: "commit" });
    await shows(page, "after");
    assert.deepEqual(await page.evaluate("life.filter((word) => word === 'restored')"), ["restored"]);
    await page.close();
  });

  test("a tab that comes back asks whether what it shows is current", async () => {
    const page = await open("before");
    const other = await context.newPage();
    await other.bringToFront();
    await notes.set({ key: "n", text: "behind" });
    await page.bringToFront();
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await shows(page, "behind");
    await Promise.all([page.close(), other.close()]);
  });

  test("where a policy forbids WebSockets, HTTP takes over and is polled", async () => {
    policy = `connect-src ${server.url}`;
    await notes.set({ key: "n", text: "polled" });
    const page = await context.newPage();
    await page.goto(`${origin}/?server=${server.url}`);
    await page.waitForFunction(() => document.querySelector(".status")!.textContent === "fallback");
    await page.waitForFunction(() => document.querySelector(".note")!.textContent === "polled");
    assert.equal(await page.locator(".note").first().getAttribute("data-stale"), "true");
    policy = "";
    await page.close();
  });

  test("a server that does not know the page's origin is not reached by it", async (context_) => {
    const closed = await RustServer.start();
    context_.after(() => closed.kill());
    await createClient(Notes, createConnectTransport({ baseUrl: closed.url, httpVersion: "2" })).set({ key: "n", text: "secret" });
    const page = await context.newPage();
    await page.goto(`${origin}/?server=${closed.url}`);
    // Neither by WebSocket nor by what is tried then.
    await page.waitForFunction(() => document.querySelector(".status")!.textContent === "fallback");
    await page.waitForFunction(() => document.querySelector(".note")!.textContent!.includes("fetch"));
    assert.doesNotMatch(await page.locator("body").innerText(), /secret/);
    await page.close();
  });

  test("a page that keeps data comes back from the cache of pages, too", async () => {
    await notes.set({ key: "n", text: "before" });
    const page = await context.newPage();
    await page.goto(`${origin}/?server=${proxy.url}&user=eve`);
    await shows(page, "before");
    await page.goto(`${origin}/other`);
    await notes.set({ key: "n", text: "after" });
    await page.goBack({ waitUntil: "commit" });
    await shows(page, "after");
    assert.deepEqual(await page.evaluate("life.filter((word) => word === 'restored')"), ["restored"]);
    await page.close();
  });

  test("a page without an origin (`null`) is not let in", async () => {
    await notes.set({ key: "n", text: "secret" });
    const page = await context.newPage();
    await page.goto(`${origin}/other`);
    await page.setContent(`<iframe sandbox="allow-scripts" src="${origin}/?server=${server.url}"></iframe>`);
    const frame = page.frameLocator("iframe");
    await frame.locator(".status", { hasText: "fallback" }).waitFor();
    await frame.locator(".note", { hasText: "fetch" }).first().waitFor();
    assert.doesNotMatch(await frame.locator("body").innerText(), /secret/);
    await page.close();
  });

  test("what IndexedDB keeps is there after a start without a server; a waiting command is sent once it is back", async () => {
    const url = `${origin}/?server=${proxy.url}&user=ada`;
    await notes.set({ key: "n", text: "kept" });
    const before = await context.newPage();
    await before.goto(url);
    await shows(before, "kept");
    await before.evaluate("offline.save()");
    await before.close();
    proxy.isRefusing = true;
    proxy.cut();
    const page = await context.newPage();
    await page.goto(url);
    await page.waitForFunction(() => document.querySelector(".note")?.textContent === "kept");
    assert.equal(await page.locator(".note").first().getAttribute("data-stale"), "true");
    await page.evaluate("void offline.mutate(Notes.method.set, { key: 'n', text: 'written without a server' })");
    await page.waitForFunction("offline.outbox.getSnapshot().length === 1");
    proxy.isRefusing = false;
    await page.evaluate("transport.wake()");
    await shows(page, "written without a server");
    await page.waitForFunction("life.includes('done')");
    assert.equal(await page.evaluate("offline.outbox.getSnapshot().length"), 0);
    // Another tab signs out: this one forgets.
    const other = await context.newPage();
    await other.goto(url);
    await shows(other, "written without a server");
    await other.evaluate("offline.signOut()");
    await page.waitForFunction("life.includes('signed out')");
    await Promise.all([page.close(), other.close()]);
  });

  const ends: [string, (page: Page) => Promise<unknown>][] = [
    ["closed", (page) => page.close()],
    ["loaded anew", (page) => page.reload()],
    ["left for another page, and closed", (page) => page.goto(`${origin}/other`).then(() => page.close())],
  ];
  for (const [how, end] of ends) {
    test(`a command that a dead connection swallowed is sent by the next page, also if its own is ${how} at once`, async () => {
      const url = `${origin}/?server=${proxy.url}&user=${how[0]}`;
      await notes.set({ key: "n", text: "before" });
      const page = await context.newPage();
      await page.goto(url);
      await shows(page, "before");
      proxy.isDead = true;
      await page.evaluate(`void offline.mutate(Notes.method.set, { key: "n", text: "${how}" })`);
      await end(page);
      if (!page.isClosed()) await page.close();
      proxy.isDead = false;
      proxy.cut();
      assert.equal((await notes.get({ key: "n" })).text, "before");
      const next = await context.newPage();
      await next.goto(url);
      await next.waitForFunction("globalThis.life?.includes('done')");
      await shows(next, how);
      assert.equal(await next.evaluate("offline.outbox.getSnapshot().length"), 0);
      await next.close();
    });
  }

  test("a command whose page crashed before the answer came is not run again without a key: the next page hears that nobody knows", async () => {
    const url = `${origin}/?server=${proxy.url}&user=crash`;
    await notes.set({ key: "n", text: "before" });
    const { count } = await notes.get({ key: "n" });
    const page = await context.newPage();
    await page.goto(url);
    await shows(page, "before");
    proxy.isMute = true;
    await page.evaluate("void offline.mutate(Notes.method.add, { key: 'n', by: 1n })");
    await page.waitForFunction("offline.outbox.getSnapshot().length === 1");
    const crashed = page.waitForEvent("crash");
    await Promise.all([crashed, page.goto("chrome://crash").catch(() => {})]);
    proxy.isMute = false;
    proxy.cut();
    const next = await context.newPage();
    await next.goto(url);
    await next.waitForFunction("globalThis.life?.includes('unknown')");
    assert.equal((await notes.get({ key: "n" })).count, count + 1n);
    await Promise.all([page.close(), next.close()]);
  });
});
