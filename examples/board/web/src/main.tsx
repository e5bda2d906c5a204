// Begins the page: one transport, one client, what an earlier page left, and the tree.
import { createConnectTransport } from "@connectrpc/connect-web";
import { createLiveTransport } from "@tidewire/live";
import { createOffline } from "@tidewire/live/offline";
import { createLiveClient } from "@tidewire/live/replica";
import { LiveProvider } from "@tidewire/react";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { Board } from "./gen/board/v1/board_pb.ts";
import "./style.css";

const transport = createLiveTransport({
  baseUrl: "/",
  fallback: async () => createConnectTransport({ baseUrl: "/" }),
});
const client = createLiveClient(transport);
// Everybody is the same user here; an application passes who is signed in.
const options = { client, transport, services: [Board] };
const offline = await createOffline({ ...options, principalKey: "everybody" }).catch((error) => {
  console.warn("nothing is stored here:", error); // As where the user forbids it; the page works all the same.
  return createOffline({ ...options, principalKey: undefined });
});

// Loaded by whoever asks for it: `/?devtools`.
const Devtools = new URLSearchParams(location.search).has("devtools")
  ? (await import("@tidewire/react/devtools")).LiveDevtools
  : () => null;

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <LiveProvider client={client}>
      <App transport={transport} offline={offline} />
      <Devtools outbox={offline.outbox} />
    </LiveProvider>
  </StrictMode>,
);
