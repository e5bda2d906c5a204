// The page of load: runs go to their end or are stopped, and what they counted is what the server was called.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { after, afterEach, before, describe, test } from "node:test";
import { Program, freePort, launch, root, tidewire, watched } from "./support.js";
import { FILES, HOSTILE } from "./shop.js";

const PRICE = "shop.v1.Cart/Price";

/** @type {import("playwright-core").Browser} */
let browser;
/** @type {Program} */
let mock;
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
afterEach(async () => {
  const seen = pages;
  pages = [];
  for (const { page } of seen) await page.context().close();
  assert.deepEqual(seen.flatMap(({ faults }) => faults), []);
});

/** @param {string} place @param {{ program?: Program, address?: string, expected?: RegExp }} [more] */
async function open(place, { program = mock, address = program.signIn(), expected } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, permissions: ["clipboard-read", "clipboard-write"] });
  const it = await watched(context, { expected });
  pages.push(it);
  await it.page.goto(address);
  await it.page.getByRole("navigation", { name: "Pages" }).waitFor();
  await it.page.goto(`http://${program.admin}/#${place}`);
  await it.page.getByRole("heading", { level: 1 }).waitFor();
  return it.page;
}

/** What runs left in the folder of a program that has ended. */
class StoredRuns {
  /** @param {string} folder */
  constructor(folder) {
    const all = `${folder}/.tidewire/loads`;
    const [ofProgram] = readdirSync(all);
    this.folder = `${all}/${ofProgram}`;
  }

  /** Changes what there is of a run. @param {string} id @param {(result: any, load: any) => unknown} edit */
  change(id, edit) {
    const [result, load] = ["result", "load"].map((name) => JSON.parse(readFileSync(`${this.folder}/${id}/${name}.json`, "utf8")));
    edit(result, load);
    for (const [name, text] of Object.entries({ result, load })) writeFileSync(`${this.folder}/${id}/${name}.json`, JSON.stringify(text));
    return id;
  }

  /** Another run like one, but for what is changed. @param {string} id @param {(result: any, load: any) => unknown} edit */
  copy(id, edit) {
    const next = `${String(Math.max(...readdirSync(this.folder).map((one) => Number(one.slice(0, 14)))) + 1).padStart(14, "0")}-abcd`;
    cpSync(`${this.folder}/${id}`, `${this.folder}/${next}`, { recursive: true });
    return this.change(next, edit);
  }
}

/** How often a session of the mock was called. @param {string} session @param {Program} [program] */
async function calls(session, program = mock) {
  const { sessions = [] } = await program.ask("Mocks/ListSessions", {});
  return Number(sessions.find(({ name }) => name === session)?.calls ?? 0);
}

/** What a run says of itself, by the name of the figure. @param {import("playwright-core").Page} page */
async function figures(page) {
  const run = page.getByRole("region", { name: "Run", exact: true });
  await run.getByText("Answered well").first().waitFor();
  return run.locator("dl.figures > div").evaluateAll((all) => Object.fromEntries(all.map((one) => [one.querySelector("dt")?.textContent, one.querySelector("dd")?.textContent])));
}

describe("a run", () => {
  test("by keyboard: so many calls are made, answered and counted; the copied line makes them again, and no secret is kept", async () => {
    const page = await open(`/load?method=${encodeURIComponent(PRICE)}`);
    await page.getByLabel("Headers").fill("x-mock-session: keyboard\nauthorization: Bearer hunter2");
    await page.getByRole("button", { name: "JSON" }).focus();
    await page.keyboard.press("Enter");
    await page.getByLabel("Request as JSON").fill('{"item": {"sku": "tea"}, "card": "hunter3"}');
    await page.getByRole("radio", { name: /^Open/ }).focus();
    await page.keyboard.press("ArrowDown");
    await page.getByLabel("Seconds, at most").fill("60");
    await page.getByLabel("Connections").fill("2");
    await page.getByLabel("Calls in all").fill("200");
    await page.getByText("at most 200 calls within 60 s").waitFor();
    const line = page.getByLabel("The line for a terminal");
    await line.getByText("--requests 200").waitFor();
    await page.getByRole("button", { name: "Copy the line for a terminal" }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    await page.getByRole("button", { name: "Start" }).focus();
    await page.keyboard.press("Enter");
    const run = page.getByRole("region", { name: "Run", exact: true });
    await run.getByText("✓ done").waitFor();
    const shown = await figures(page);
    assert.deepEqual([shown.Begun, shown["Answered well"], shown.Failed], ["200", "200", "0"]);
    assert.equal(await calls("keyboard"), 200);
    await run.getByText("Closed model").waitFor();
    await run.getByText("Calls in each second").waitFor();
    assert.match(await run.innerText(), /generator's busiest thread took \d+ % of a core, the server [\d.]+ cores/);
    const repeats = await run.getByLabel("The line that repeats it").innerText();
    assert.ok(copied.includes("hunter2") && copied.includes("hunter3"), "who asked has the whole line");
    assert.doesNotMatch(await page.locator("main").innerText().then((text) => text.slice(text.indexOf("Runs"))), /hunter2|hunter3/);
    assert.match(repeats, /^tidewire bench run http:\/\/127\.0\.0\.1:\d+\/shop\.v1\.Cart\/Price .*--requests 200/);
    execFileSync("sh", ["-c", copied.replace(/^tidewire/, tidewire)], { cwd: mock.folder, env: mock.env });
    assert.equal(await calls("keyboard"), 400);
    const folder = `${mock.folder}/.tidewire/loads`;
    assert.equal(statSync(`${folder}/${readdirSync(folder)[0]}`).mode & 0o777, 0o700);
    const kept = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
    assert.deepEqual([...new Set(kept.map(({ name }) => name))].sort(), ["load.json", "result.json"]);
    for (const { parentPath, name } of kept) assert.doesNotMatch(readFileSync(`${parentPath}/${name}`, "utf8"), /hunter2|hunter3/, name);
  });

  test("by every protocol, streams and a path of plain HTTP, as many calls come as were counted", async () => {
    for (const [plan, each] of /** @type {[object, number][]} */ ([
      ...["connect", "grpc", "grpc-web", "live"].map((protocol) => [{ method: PRICE, protocol, message: '{"item":{"sku":"tea"}}' }, 1]),
      ...["connect", "grpc", "grpc-web"].map((protocol) => [{ method: "shop.v1.Cart/Watch", protocol }, 1]),
      [{ method: "shop.v1.Cart/Fill", protocol: "grpc" }, 1],
      [{ path: "/shelves/top/things/{{seq}}" }, 1],
    ])) {
      const session = `all ${JSON.stringify(plan)}`.replace(/[^a-z]/gi, "");
      const load = await mock.load({ ...plan, requests: 20, seconds: 60, connections: 2, headers: { "x-mock-session": session } });
      assert.deepEqual([load.state, load.figures?.ok, load.figures?.failed ?? "0"], ["done", "20", "0"], `${session}: ${JSON.stringify(load)}`);
      assert.equal(await calls(session), 20 * each, session);
    }
  });

  test("a server at a Unix socket is called there, by a line that names the socket", async () => {
    const program = await Program.start(FILES, ["mock", "--listen", "unix:shop.sock"]);
    try {
      for (const protocol of ["connect", "grpc"]) {
        const load = await program.load({ method: PRICE, protocol, message: "{}", requests: 20, connections: 1, seconds: 60, headers: { "x-mock-session": protocol } });
        assert.equal(load.figures?.ok, "20", JSON.stringify(load));
        assert.equal(await calls(protocol, program), 20);
        assert.match(load.command, /--unix \/\S+\/shop\.sock /);
        execFileSync("sh", ["-c", load.command.replace(/^tidewire/, tidewire)], { cwd: "/", env: program.env });
        assert.equal(await calls(protocol, program), 40);
      }
    } finally {
      await program.stop();
    }
  });

  test("an open model says so: calls are due by the clock, and times count from then", async () => {
    const load = await mock.load({ method: PRICE, message: "{}", rate: 50, seconds: 2, connections: 2, headers: { "x-mock-session": "open" } });
    assert.equal(load.figures.model, "open");
    assert.equal(load.figures.fromIntendedStart, true);
    assert.equal(load.figures.offered, "100");
    assert.equal(await calls("open"), Number(load.figures.sent));
    const page = await open(`/load?run=${load.id}`);
    const shown = await figures(page);
    assert.equal(shown.Due, "100");
    await page.getByText("Open model: times are from when a call was due.").waitFor();
  });

  test("what fails is counted apart, and is in no time of answers; where nothing can be measured, why is said", async () => {
    const rules = "responses:\n  - times: 10\n    body: {price: 1}\n  - error: {code: UNAVAILABLE, message: 'no more <img src=x onerror=alert(1)>'}\n";
    const program = await Program.start({ ...FILES, "rules/shop.v1.cart.price.yaml": rules }, ["mock", "--port", "0"]);
    try {
      const load = await program.load({ method: PRICE, message: "{}", requests: 30, connections: 1, seconds: 60 });
      const page = await open(`/load?run=${load.id}`, { program });
      const shown = await figures(page);
      assert.deepEqual([shown.Begun, shown["Answered well"], shown.Failed], ["30", "10", "20"]);
      const run = page.getByRole("region", { name: "Run", exact: true });
      await run.getByRole("listitem").filter({ hasText: "20 ×" }).waitFor();
      await run.getByText("Failed calls are in no time above; half of them took").waitFor();
      await page.context().close();
    } finally {
      await program.stop();
    }
    const { id } = await mock.load({ method: PRICE, message: '{"item":{"sku":"gone"}}', requests: 30, connections: 1, seconds: 60 });
    const page = await open(`/load?run=${id}`);
    await page.getByRole("region", { name: "Run", exact: true }).getByText("the first answer says that the request is wrong: status 404").waitFor();
  });

  test("it is stopped by hand, with the figures so far; meanwhile there is no other, and other pages may be seen", async () => {
    const page = await open(`/load?method=${encodeURIComponent(PRICE)}`);
    await page.getByLabel("Seconds, at most").fill("300");
    await page.getByRole("textbox", { name: "Calls a second" }).fill("20");
    await page.getByText("6,000 calls within 300 s").waitFor();
    await page.getByRole("button", { name: "Start" }).click();
    const runs = page.getByRole("region", { name: "The run that goes on" });
    await runs.getByText(/[1-9]\d* answered, 0 failed/).waitFor();
    assert.equal((await mock.ask("Loads/Start", { method: PRICE })).code, "failed_precondition");
    await page.getByRole("navigation").getByRole("link", { name: "Health" }).click();
    await page.getByRole("heading", { name: "Health" }).waitFor();
    await page.getByRole("navigation").getByRole("link", { name: "Load" }).click();
    await runs.getByRole("button", { name: "Stop" }).click();
    const run = page.getByRole("region", { name: "Run", exact: true });
    await run.getByText("○ stopped").waitFor();
    await run.getByText("by hand").first().waitFor();
    assert.ok(Number((await figures(page))["Answered well"]) > 0);
  });

  test("a method that changes something asks first, and says how often it would", async () => {
    const page = await open("/load?method=shop.v1.Cart%2FWatch");
    await page.getByText("This method changes something").waitFor();
    await page.getByRole("radio", { name: /^Closed/ }).check();
    await page.getByLabel("Calls in all").fill("20");
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByRole("button", { name: "Change things by at most 20 calls within 10 s – sure?" }).click();
    await page.getByRole("region", { name: "Run", exact: true }).getByText("✓ done").waitFor();
    assert.equal((await figures(page))["Answered well"], "20");
  });
});

describe("bounds", () => {
  test("what is over a bound, at another host or not served is refused, and nothing is started", async () => {
    const { loads: before = [] } = await mock.ask("Loads/List", {});
    for (const [plan, why] of /** @type {[object, RegExp][]} */ ([
      [{ method: PRICE, rate: 1e6 }, /rate is 1000000, and at most 20000/], [{ method: PRICE, seconds: 301 }, /seconds is 301/],
      [{ method: PRICE, connections: 257 }, /connections is 257/], [{ method: PRICE, requests: 1_000_001 }, /requests is 1000001/],
      [{ method: PRICE, rate: -1 }, /rate is -1/], [{ method: PRICE, message: `"${"x".repeat(70_000)}"` }, /over 65536 bytes/],
      [{ path: "http://example.com/" }, /not a path of this server/], [{ path: "/x\r\nhost: example.com" }, /not a path/],
      [{ method: "none.v1.None/Get" }, /no service, method/], [{ method: PRICE, message: '{"itm": 1}' }, /itm/], [{ method: PRICE, protocol: "smtp" }, /smtp/],
      [{ method: PRICE, path: "/" }, /name a method, or a path/], [{}, /name a method, or a path/], [{ method: PRICE, headers: { "a\nb": "c" } }, /cannot be sent/],
      [{ method: "shop.v1.Cart/Watch", protocol: "live" }, /streams/],
    ])) {
      const refused = await mock.ask("Loads/Start", plan);
      assert.match(refused.message ?? "", why, JSON.stringify(plan).slice(0, 200));
    }
    assert.equal((await mock.ask("Loads/List", {})).loads?.length ?? 0, before.length);
    assert.equal((await mock.ask("Loads/Get", { id: "../../x" })).code, "not_found");
  });

  test("the page says what is wrong with a bound, and starts nothing then", async () => {
    const page = await open(`/load?method=${encodeURIComponent(PRICE)}`, { expected: /400/ });
    await page.getByRole("textbox", { name: "Calls a second" }).fill("1000000");
    await page.getByRole("alert").getByText("at most 20000 from here").waitFor();
    await page.getByRole("button", { name: "Start" }).and(page.locator(":disabled")).waitFor();
    await page.getByRole("textbox", { name: "Calls a second" }).fill("many");
    await page.getByRole("alert").getByText("write numbers above 0").waitFor();
  });

  test("who may only look sees runs and the line, and starts none", async () => {
    const settings = '[admin]\nlisten = "127.0.0.1:0"\ntoken_file = "a.token"\nread_token_file = "r.token"\n';
    const program = await Program.start({ ...FILES, "tidewire.toml": settings }, ["mock", "--port", "0"]);
    try {
      const { stdout } = program.run(["console", "--admin", program.admin, "--token-file", "r.token"]);
      const page = await open(`/load?method=${encodeURIComponent(PRICE)}`, { program, address: stdout.trim() });
      await page.getByLabel("The line for a terminal").waitFor();
      await page.getByRole("button", { name: "Start" }).and(page.locator(":disabled")).waitFor();
      const token = readFileSync(`${program.folder}/r.token`, "utf8").trim();
      const start = await fetch(`http://${program.admin}/tidewire.admin.v1.Loads/Start`, {
        method: "POST", headers: { "content-type": "application/json", authorization: `Bearer ${token}` }, body: JSON.stringify({ method: PRICE }),
      });
      assert.equal(start.status, 403);
      await page.context().close();
    } finally {
      await program.stop();
    }
  });

  test("a program that starts no load itself says so, and gives the line", async () => {
    const contacts = `${process.env.CARGO_TARGET_DIR ?? `${root}target`}/debug/contacts`;
    const port = await freePort();
    const settings = `[server]\nlisten = ["127.0.0.1:0"]\n[admin]\nlisten = "127.0.0.1:${port}"\ntoken_file = "admin.token"\n`;
    const program = await Program.start({ "tidewire.toml": settings }, [], { program: contacts, env: { CONTACTS: "3" }, ready: (line) => line.startsWith("Ctrl-C") });
    program.at(`127.0.0.1:${port}`);
    try {
      const page = await open("/load?method=contacts.v1.Contacts%2FGet", { program });
      await page.getByRole("note").getByText("this program starts no load itself; run the line in a terminal").waitFor();
      await page.getByLabel("The line for a terminal").getByText("/contacts.v1.Contacts/Get --protocol connect").waitFor();
      await page.getByRole("button", { name: "Start" }).and(page.locator(":disabled")).waitFor();
      await page.context().close();
    } finally {
      await program.stop();
    }
  });

  test("results are there after the program, and two are set side by side", async () => {
    const first = await Program.start(FILES, ["mock", "--port", "0"]);
    await first.load({ method: PRICE, message: "{}", requests: 50, connections: 1, seconds: 60 });
    await first.stop({ keep: true });
    const second = await Program.start({}, ["mock", "--port", "0"], { folder: first.folder });
    try {
      const { id } = await second.load({ method: PRICE, message: "{}", requests: 60, connections: 1, seconds: 60 });
      const page = await open(`/load?run=${id}`, { program: second });
      const table = page.getByRole("table", { name: "Runs that ended" });
      await table.getByRole("row").nth(2).getByText("50", { exact: true }).waitFor();
      await page.getByLabel("Compare with the run before").selectOption({ index: 1 });
      await page.getByRole("button", { name: "Compare" }).click();
      await page.getByRole("table", { name: "The run before, and this one" }).getByRole("row", { name: /^answers per second/ }).waitFor();
      await page.context().close();
    } finally {
      await second.stop();
    }
  });

  test("two runs are compared in a table: before, after and the ratio; where that says nothing of the server, it says so and why", async () => {
    const first = await Program.start(FILES, ["mock", "--port", "0"]);
    const { id } = await first.load({ method: PRICE, message: "{}", rate: 50, connections: 2, seconds: 7 });
    await first.stop({ keep: true });
    // The same run as others would have been: this machine, whatever else it does, changes none of them.
    const stored = new StoredRuns(first.folder);
    const calm = stored.change(id, (result) => {
      Object.assign(result.client, { is_bottleneck: false });
      result.client.lateness.p99 = 0;
      for (const second of result.timeline) Object.assign(second, { ok: 50, failed: 0, dropped: 0, histogram: [[1_000_000, 49], [5_000_000, 1]] });
      Object.assign(result.latency.corrected, { p50: 0.001, p90: 0.001, p99: 0.005, p99_9: 0.005 });
      Object.assign(result.requests, { ok: 350, failed: 0, dropped: 0 });
    });
    const slow = stored.copy(calm, (result) => {
      for (const second of result.timeline) for (const bucket of second.histogram) bucket[0] *= 2;
      for (const name of ["p50", "p90", "p99", "p99_9"]) result.latency.corrected[name] *= 2;
      Object.assign(result.requests, { failed: 7, ok: 343 });
    });
    const spoiled = stored.copy(calm, (result) => Object.assign(result.client, { is_bottleneck: true, busiest_thread: 0.99 }));
    const second = await Program.start({}, ["mock", "--port", "0"], { folder: first.folder });
    try {
      const page = await open(`/load?run=${slow}`, { program: second });
      const compare = async (/** @type {string} */ run, /** @type {string} */ base) => {
        await page.goto(`http://${second.admin}/#/load?run=${run}`);
        await page.getByLabel("Compare with the run before").selectOption(base);
        await page.getByRole("button", { name: "Compare" }).click();
        return page.getByRole("table", { name: "The run before, and this one" });
      };
      const texts = async (/** @type {import("playwright-core").Locator} */ table) => {
        await table.waitFor();
        const rows = await table.getByRole("row").all();
        return Promise.all(rows.map((row) => row.locator("th, td").allInnerTexts()));
      };
      let rows = await texts(await compare(slow, calm));
      assert.deepEqual(rows[0], ["Figure", "Before", "After", "Ratio"]);
      assert.deepEqual(rows.slice(1).map(([name]) => name), ["answers per second", "p50", "p90", "p99", "p99.9", "failed or never sent", "server CPU per request"]);
      const row = (/** @type {string} */ name) => rows.find(([one]) => one === name) ?? [];
      assert.match(row("p50")[3], /^2\.00× \(2\.00–2\.00\)\s+✕ worse$/);
      assert.match(row("answers per second")[3], /^1\.00× .*\s+no difference shown$/);
      assert.match(row("failed or never sent").join(" | "), /\| 0 of 350 \| 7 of 350 \| –\s+none before$/);
      const table = page.getByRole("table", { name: "The run before, and this one" });
      assert.equal(await table.getByRole("columnheader").count(), 4);
      assert.equal(await table.getByRole("rowheader").count(), 7);
      rows = await texts(await compare(calm, slow));
      assert.match(row("p50")[3], /^0\.50× \(0\.50–0\.50\)\s+✓ better$/);
      assert.match(row("failed or never sent")[3], /^–\s+none after$/);
      rows = await texts(await compare(spoiled, calm));
      await page.getByRole("note").getByText("Not comparable").waitFor();
      await page.getByRole("note").getByRole("listitem").getByText("the generator was the bottleneck: a thread of it was busy 99 % of the time").waitFor();
      assert.deepEqual([...new Set(rows.slice(1).map((one) => one[3]))], ["not comparable"]);
      const said = second.run(["bench", "compare", `${stored.folder}/${calm}/result.json`, `${stored.folder}/${spoiled}/result.json`]);
      assert.equal(said.status, 6, "the line of the terminal says the same");
      await page.context().close();
    } finally {
      await second.stop();
    }
  });

  test("a program that ends ends its run with it", async () => {
    const program = await Program.start(FILES, ["mock", "--port", "0"]);
    const { id } = await program.ask("Loads/Start", { method: PRICE, rate: 10, seconds: 300 });
    await program.ask("Loads/Get", { id, waitMs: 2000 });
    await program.stop({ keep: true });
    const again = await Program.start({}, ["mock", "--port", "0"], { folder: program.folder });
    try {
      const { loads } = await again.ask("Loads/List", {});
      assert.equal(loads[0].id, id);
      assert.notEqual(loads[0].state, "running");
      const left = execFileSync("ps", ["-eo", "args"], { encoding: "utf8" }).split("\n").filter((line) => line.includes("bench run") && line.includes(program.address));
      assert.deepEqual(left, []);
    } finally {
      await again.stop();
    }
  });
});

test("hostile texts are texts in what is sent, in the line and in what is kept", async () => {
  const sku = HOSTILE.filter((text) => !text.includes("\0") && !text.includes("{{")).join(" ");
  const load = await mock.load({ method: PRICE, message: JSON.stringify({ item: { sku } }), requests: 5, connections: 1, seconds: 60, headers: { "x-hostile": "'; touch x #<img src=x onerror=alert(1)>" } });
  assert.equal(load.figures?.ok, "5", JSON.stringify(load));
  const page = await open(`/load?run=${load.id}`);
  await figures(page);
  const { text, images, scripts } = await page.evaluate(() => ({ text: document.body.innerText, images: document.images.length, scripts: document.scripts.length }));
  assert.deepEqual([images, scripts], [0, 1]);
  assert.ok(text.includes("onerror=alert(1)") && !text.includes("\u202e") && text.includes("\\u{202e}"));
});

test("hostile texts are texts in each field of what runs left, and in the comparison of two", async () => {
  const first = await Program.start(FILES, ["mock", "--port", "0"]);
  const { id } = await first.load({ method: PRICE, message: "{}", requests: 30, connections: 1, seconds: 60 });
  await first.stop({ keep: true });
  const hostile = HOSTILE.join(" ");
  const stored = new StoredRuns(first.folder);
  const one = stored.change(id, (result, load) => {
    result.load.target = `before ${hostile}`;
    Object.assign(result.client, { is_bottleneck: false });
    result.client.lateness.p99 = 0;
    result.failures = Object.fromEntries(HOSTILE.map((text) => [text, 1]));
    result.notes = HOSTILE;
    Object.assign(load, { method: hostile, message: hostile, headers: { [hostile]: hostile }, command: hostile, stopped_by: hostile, protocol: hostile });
  });
  const other = stored.copy(one, (result) => { result.load.target = `after ${hostile}`; });
  const spoiled = stored.copy(one, (result) => Object.assign(result.client, { is_bottleneck: true, busiest_thread: 0.99 }));
  const second = await Program.start({}, ["mock", "--port", "0"], { folder: first.folder });
  try {
    const page = await open(`/load?run=${other}`, { program: second });
    for (const [run, where] of /** @type {[string, import("playwright-core").Locator][]} */ ([
      [other, page.getByText("the targets differ: before").first()], [spoiled, page.getByRole("note").getByText("the generator was the bottleneck")],
    ])) {
      await page.goto(`http://${second.admin}/#/load?run=${run}`);
      await page.getByLabel("Compare with the run before").selectOption(one);
      await page.getByRole("button", { name: "Compare" }).click();
      await page.getByRole("table", { name: "The run before, and this one" }).waitFor();
      await where.waitFor();
      await assertTextsOnly(page);
    }
    // What the assistant's tool and the terminal get is the same.
    const { text, notes = [] } = await second.ask("Loads/Compare", { base: one, new: other });
    assert.ok(notes.some((note) => note.includes("<img src=x onerror=alert(1)>")) && text.includes("the targets differ"));
    await page.context().close();
  } finally {
    await second.stop();
  }
});

test("hostile texts are texts in each field that is filled in, and in what is said of them", async () => {
  const page = await open("/load?method=%20path", { expected: /400/ });
  for (const text of HOSTILE) {
    // A key of the keyboard writes no NUL; what is pasted may have one.
    await page.getByLabel("Path of this server").fill(text);
    await page.getByRole("alert").getByText("is not a path of this server").waitFor();
    await assertTextsOnly(page, { isSaid: false });
  }
  await page.goto(`http://${mock.admin}/#/load?method=${encodeURIComponent(PRICE)}`);
  await page.getByRole("button", { name: "JSON" }).click();
  for (const text of HOSTILE) {
    for (const name of ["Calls a second", "Seconds, at most", "Connections, at most", "Calls in all"]) {
      const field = page.getByRole("textbox", { name });
      const before = await field.inputValue();
      await field.fill(text);
      await page.getByRole("alert").getByText("write numbers above 0").waitFor();
      await assertTextsOnly(page, { isSaid: false });
      await field.fill(before);
    }
    await page.getByLabel("Headers").fill(`x-a: ${text}`);
    await page.getByLabel("Request as JSON").fill(JSON.stringify({ item: { sku: text } }));
    await page.getByLabel("The line for a terminal").or(page.getByRole("alert")).first().waitFor();
    await assertTextsOnly(page, { isSaid: false });
    await page.getByLabel("Request as JSON").fill(text);
    // What has a template is known when it is sent.
    await (text.includes("{{") ? page.getByLabel("The line for a terminal") : page.getByRole("alert").first()).waitFor();
    await assertTextsOnly(page, { isSaid: false });
    await page.getByLabel("Headers").fill("");
  }
});

/** Nothing of the page is made of texts of others. @param {import("playwright-core").Page} page @param {{ isSaid?: boolean }} [more] `isSaid`: they are on it */
async function assertTextsOnly(page, { isSaid = true } = {}) {
  const { text, images, scripts, foreign, plots } = await page.evaluate(() => ({
    text: document.body.innerText, images: document.images.length, scripts: document.scripts.length,
    foreign: document.querySelectorAll("iframe, object, embed").length, plots: [...document.querySelectorAll("svg")].filter((one) => !one.closest(".chart")).length,
  }));
  assert.deepEqual([images, scripts, foreign, plots], [0, 1, 0, 0]);
  assert.ok(!text.includes("\u202e") && !text.includes("\u001b") && !text.includes("\0"), "what steers is shown, and does not");
  if (isSaid) assert.ok(text.includes("<img src=x onerror=alert(1)>") && text.includes("\\u{202e}"));
}
