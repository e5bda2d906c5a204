// Ten thousand queries on one page: node --expose-gc watches.mjs live|polling SERVER. SERVER is the program.
// `live`: opened, all changed by one write, resumed after a cut, asked again of a server that started anew.
// `polling`: TanStack Query over connect-web, opened, and asked again.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { Notes, NoteSchema } from "../tests/gen/notes/v1/notes_pb.js";
import { Proxy } from "../tests/support/proxy.ts";
import { start } from "./server.mjs";

const [kind, program] = process.argv.slice(2);
const COUNT = 10_000;
const settings = { TIDEWIRE_LIMITS_WATCHES_MAX: "131072" };
let server = await start(program, settings);
const other = (url) => createClient(Notes, createConnectTransport({ baseUrl: url, useBinaryFormat: true }));
await other(server.url).set({ key: "k" });

const bytes = () => {
  gc();
  gc();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};
const result = {};
const timed = async (name, work) => {
  const began = performance.now();
  await work();
  result[name] = performance.now() - began;
};
/** What the messages alone weigh. */
function messages() {
  const encoded = toBinary(NoteSchema, create(NoteSchema, { key: "k" }));
  const before = bytes();
  const all = Array.from({ length: COUNT }, () => fromBinary(NoteSchema, encoded));
  return (bytes() - before) / all.length;
}
/** When a condition holds, looked at after each task. */
const until = async (holds) => {
  while (!holds()) await new Promise(setImmediate);
};
const inputs = Array.from({ length: COUNT }, (_, index) => ({ key: "k", times: index + 1 }));

if (kind === "live") {
  const { createLiveTransport } = await import("@tidewire/live");
  const { createLiveClient } = await import("@tidewire/live/replica");
  const proxy = await new Proxy(server.port).start();
  const transport = createLiveTransport({ baseUrl: proxy.url });
  const client = createLiveClient(transport, { gcTime: 3_600_000 });
  await createClient(Notes, transport).get({ key: "k" });
  const message = messages();
  const queries = inputs.map((input) => client.query(Notes.method.repeat, input));
  let tasks = 0;
  let isTold = false;
  const told = () => {
    if (isTold) return;
    isTold = true;
    tasks++;
    setImmediate(() => (isTold = false));
  };
  const before = bytes();
  await timed("open", async () => {
    for (const query of queries) query.subscribe(told);
    await until(() => queries.every((query) => query.getSnapshot().status === "success"));
  });
  await new Promise((resolve) => setTimeout(resolve, 500));
  result.bytes = (bytes() - before) / COUNT - message;
  tasks = 0;
  const writer = other(server.url);
  await timed("change", async () => {
    await writer.add({ key: "k", by: 1n });
    await until(() => queries.every((query) => query.getSnapshot().data.count === 1n && !query.getSnapshot().isStale));
  });
  result.commits = tasks;
  const answers = () => client.inspect().reduce((sum, one) => sum + one.answers, 0);
  const settled = () => queries.every((query) => !query.getSnapshot().isStale);
  const answered = answers();
  proxy.cut();
  await until(() => queries[0].getSnapshot().isStale);
  transport.wake();
  await timed("resume", () => until(settled));
  result.resumedAnswers = answers() - answered;
  proxy.isRefusing = true;
  proxy.cut();
  await server.stop();
  server = await start(program, { ...settings, TIDEWIRE_SERVER_LISTEN: `127.0.0.1:${server.port}` });
  await other(server.url).set({ key: "k" });
  proxy.isRefusing = false;
  transport.wake();
  await timed("restart", () => until(settled));
} else {
  const { QueryClient, QueryObserver } = await import("@tanstack/query-core");
  const web = other(server.url);
  const queryClient = new QueryClient();
  const message = messages();
  const before = bytes();
  const observers = inputs.map((input) => new QueryObserver(queryClient, { queryKey: ["repeat", input.times], queryFn: () => web.repeat(input), retry: 3 }));
  await timed("open", async () => {
    for (const observer of observers) observer.subscribe(() => {});
    await until(() => observers.every((observer) => observer.getCurrentResult().isSuccess));
  });
  await new Promise((resolve) => setTimeout(resolve, 500));
  result.bytes = (bytes() - before) / COUNT - message;
  await timed("change", async () => {
    await web.add({ key: "k", by: 1n });
    await queryClient.refetchQueries();
    await until(() => observers.every((observer) => observer.getCurrentResult().data.count === 1n));
  });
}
await server.stop();
console.log(JSON.stringify(result));
process.exit();
