// The board in Chromium: two tabs, another process that writes, a server that goes away.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";

const program = fileURLToPath(new URL("../../../../target/debug/board", import.meta.url));
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const folder = mkdtempSync(join(tmpdir(), "board-"));
const shots = process.env.SCREENSHOTS;

let server: ChildProcess;
let port: number;
let browser: Browser;

async function start(): Promise<void> {
  server = spawn(program, {
    env: { ...process.env, BOARD_DB: join(folder, "board.sqlite"), TIDEWIRE_SERVER_LISTEN: `127.0.0.1:${port}` },
    stdio: ["ignore", "pipe", "ignore"],
  });
  await new Promise<void>((resolve, reject) => {
    server.stdout!.on("data", (data) => `${data}`.includes("open http") && resolve());
    server.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
}

async function stop(): Promise<void> {
  if (server.exitCode !== null || server.signalCode) return;
  const ended = new Promise((resolve) => server.on("exit", resolve));
  server.kill("SIGKILL");
  await ended;
}

/** A port that nobody listens on, out of those that the system gives to nobody. */
function freePort(): Promise<number> {
  const port = 11_000 + Math.floor(Math.random() * 9_000);
  return new Promise((resolve) => {
    const probe = createServer().on("error", () => resolve(freePort()));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(port)));
  });
}

before(async () => {
  port = await freePort();
  await start();
  assert.ok(executablePath, "there is no Chromium; run `make setup` once");
  browser = await chromium.launch({ executablePath, args });
});
after(async () => {
  await browser?.close();
  await stop();
  rmSync(folder, { recursive: true });
});

async function add(page: Page, title: string): Promise<void> {
  await page.getByLabel("Title").fill(title);
  await page.getByRole("button", { name: "Add" }).click();
}

async function has(page: Page, column: string, ...titles: string[]): Promise<void> {
  await page.waitForFunction(
    ([name, wanted]) => {
      const shown = [...document.querySelectorAll(`section[aria-label="${name}"] article p`)].map((one) => one.textContent);
      return JSON.stringify(shown) === wanted;
    },
    [column, JSON.stringify(titles)] as const,
  );
}

const shoot = async (page: Page, name: string) => {
  if (shots) await page.screenshot({ path: join(shots, `${name}.png`) });
};

test("all tabs follow what anybody changes", async () => {
  const context = await browser.newContext({ viewport: { width: 720, height: 400 } });
  context.setDefaultTimeout(300_000);
  const [one, other] = [await context.newPage(), await context.newPage()];
  for (const page of [one, other]) await page.goto(`http://127.0.0.1:${port}/`);
  await add(one, "Write the guide");
  await has(other, "To do", "Write the guide");
  await add(other, "Feed the cat");
  await has(one, "To do", "Write the guide", "Feed the cat");
  await shoot(one, "1");
  await other.getByLabel("On: Write the guide").click();
  for (const page of [one, other]) {
    await has(page, "To do", "Feed the cat");
    await has(page, "Doing", "Write the guide");
  }
  await shoot(one, "2");

  // Pointers of the other tab.
  await other.mouse.move(200, 200);
  await other.mouse.move(300, 250);
  await one.waitForSelector(".pointer");

  // Another process writes to the file.
  await one.getByRole("button", { name: "Change the database" }).click();
  for (const page of [one, other]) {
    await has(page, "Doing", "Feed the cat!");
    await has(page, "Done", "Write the guide!");
  }
  await shoot(one, "3");

  // Without a server a task waits, over a reload of its page's data, and is added once.
  await stop();
  await one.getByText("offline, trying again").waitFor();
  await add(one, "Made offline");
  await one.getByText("1 waiting to be sent").waitFor();
  await shoot(one, "4");
  await start();
  for (const page of [one, other]) await has(page, "To do", "Made offline");
  await one.getByText("current", { exact: true }).waitFor();
  await shoot(one, "5");
  await one.getByLabel("Remove: Made offline").click();
  await has(other, "To do");
  await context.close();
});
