// The page of the tests in Chromium: a client, and a React tree in StrictMode.
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { createLiveTransport } from "@tidewire/live";
import { createOffline } from "@tidewire/live/offline";
import { createLiveClient } from "@tidewire/live/replica";
import { LiveProvider, useConnectionState, useQuery } from "@tidewire/react";
import { createElement as h, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Notes } from "../gen/notes/v1/notes_pb.js";

const parameters = new URLSearchParams(location.search);
const baseUrl = parameters.get("server")!;
const transport = createLiveTransport({
  baseUrl,
  // Whoever is signed in waits for a socket.
  fallback: parameters.has("user") ? undefined : async () => createConnectTransport({ baseUrl }),
});
const client = createLiveClient(transport);
const notes = createClient(Notes, transport);
const life: string[] = [];
for (const name of ["freeze", "resume"]) document.addEventListener(name, () => life.push(name));
addEventListener("pageshow", (event) => life.push(event.persisted ? "restored" : "shown"));

function Note({ name }: { name: string }) {
  const { status, data, error, isStale } = useQuery(Notes.method.get, { key: name });
  const text = status === "success" ? data!.text : status === "error" ? error!.message : "…";
  return h("p", { className: "note", "data-stale": isStale }, text);
}

function Status() {
  return h("p", { className: "status" }, useConnectionState().status);
}

const principalKey = parameters.get("user") ?? undefined;
const offline = principalKey && (await createOffline({
  client, transport, services: [Notes], principalKey,
  onOutcome: ({ status }) => life.push(status),
  onSignOut: () => life.push("signed out"),
}));

const page = h(LiveProvider, { client }, h(Note, { name: "n" }), h(Note, { name: "n" }), h(Status));
createRoot(document.getElementById("root")!).render(h(StrictMode, null, page));

async function measure(count: number, width: number): Promise<{ live: number; fetch: number }> {
  const run = async (one: () => Promise<unknown>, all: number) => {
    const started = performance.now();
    let left = all;
    const worker = async () => {
      while (left-- > 0) await one();
    };
    await Promise.all(Array.from({ length: width }, worker));
    return (all * 1_000) / (performance.now() - started);
  };
  const web = createClient(Notes, createConnectTransport({ baseUrl, useBinaryFormat: true }));
  const live = await run(() => notes.get({ key: "n" }), count);
  return { live, fetch: await run(() => web.get({ key: "n" }), Math.ceil(count / 50)) };
}

Object.assign(globalThis, { Notes, offline, transport, client, notes, life, measure });
