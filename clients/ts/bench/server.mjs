// Starts a server as a process and finds its port in what it prints.
import { spawn } from "node:child_process";

export async function start(program, settings = {}, args = []) {
  const env = { ...process.env, TIDEWIRE_SERVER_LISTEN: "127.0.0.1:0", ...settings };
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "ignore"] });
  process.once("exit", () => child.kill("SIGKILL"));
  const port = await new Promise((resolve, reject) => {
    let said = "";
    child.stdout.on("data", (data) => {
      const found = /listening on .*:(\d+)/.exec((said += data));
      if (found) resolve(Number(found[1]));
    });
    child.on("exit", (code) => reject(new Error(`${program} ended with ${code}`)));
  });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    stop() {
      child.kill("SIGKILL");
      return ended;
    },
  };
}
