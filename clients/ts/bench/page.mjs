// What runs in Chromium: globalThis.run(peer, url, seconds) as calls.mjs does in Node.
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { createLiveTransport } from "@tidewire/live";
import { createTRPCClient, createWSClient, wsLink } from "@trpc/client";
import { BehaviourService } from "../tests/gen/tidewire/test/v1/behaviour_pb.js";

const connect = (transport) => {
  const client = createClient(BehaviourService, transport);
  return () => client.look({ key: "hello" });
};
const peers = {
  live: (url) => connect(createLiveTransport({ baseUrl: url })),
  "connect-web (fetch)": (url) => connect(createConnectTransport({ baseUrl: url, useBinaryFormat: true })),
  "tRPC (WebSocket)": (url) => {
    const client = createTRPCClient({ links: [wsLink({ client: createWSClient({ url: url.replace("http", "ws") }) })] });
    return () => client.look.query({ key: "hello" });
  },
};

globalThis.run = async (peer, url, seconds) => {
  const one = peers[peer](url);
  const measure = async (milliseconds) => {
    const began = performance.now();
    let count = 0;
    const worker = async () => {
      do {
        await one();
        count++;
      } while (performance.now() < began + milliseconds);
    };
    await Promise.all(Array.from({ length: 100 }, worker));
    return (count * 1_000) / (performance.now() - began);
  };
  await measure(700);
  return { rate: await measure(seconds * 1_000) };
};
