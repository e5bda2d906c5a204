// One client, 100 calls in flight for a while: node calls.mjs PEER URL SECONDS. Prints calls a second
// and this process's CPU time a call. The server is another process.
import { createClient } from "@connectrpc/connect";
import { BehaviourService } from "../tests/gen/tidewire/test/v1/behaviour_pb.js";

const [peer, url, seconds] = process.argv.slice(2);
const WIDTH = 100;

const connect = (transport) => {
  const client = createClient(BehaviourService, transport);
  return () => client.look({ key: "hello" });
};
const peers = {
  live: async () => connect((await import("@tidewire/live")).createLiveTransport({ baseUrl: url })),
  "live, full path": async () => {
    const { createLiveTransport } = await import("@tidewire/live");
    const client = createClient(BehaviourService, createLiveTransport({ baseUrl: url, interceptors: [(next) => next] }));
    // A signal for each call, as a component has: connect leaves listeners on one that outlives its calls.
    return () => client.look({ key: "hello" }, { signal: new AbortController().signal, timeoutMs: 60_000 });
  },
  "connect-web (fetch)": async () =>
    connect((await import("@connectrpc/connect-web")).createConnectTransport({ baseUrl: url, useBinaryFormat: true })),
  "connect-node (HTTP/2)": async () =>
    connect((await import("@connectrpc/connect-node")).createConnectTransport({ baseUrl: url, httpVersion: "2", useBinaryFormat: true })),
  "tRPC (WebSocket)": async () => {
    const { createTRPCClient, createWSClient, wsLink } = await import("@trpc/client");
    const client = createTRPCClient({ links: [wsLink({ client: createWSClient({ url: url.replace("http", "ws") }) })] });
    return () => client.look.query({ key: "hello" });
  },
};

const one = await peers[peer]();
async function run(milliseconds) {
  const end = performance.now() + milliseconds;
  let count = 0;
  const worker = async () => {
    do {
      await one();
      count++;
    } while (performance.now() < end);
  };
  const began = performance.now();
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: WIDTH }, worker));
  const { user, system } = process.cpuUsage(before);
  return { rate: (count * 1_000) / (performance.now() - began), cpu: (user + system) / count };
}
await run(700);
console.log(JSON.stringify(await run(seconds * 1_000)));
process.exit();
