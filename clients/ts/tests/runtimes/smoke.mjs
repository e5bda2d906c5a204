// The built packages on another runtime: a call, a stream that is left early, a watch, a command.
import { createClient } from "@connectrpc/connect";
import { createLiveTransport } from "@tidewire/live";
import { createLiveClient } from "@tidewire/live/replica";
import { Notes } from "../gen/notes/v1/notes_pb.js";

const transport = createLiveTransport({ baseUrl: process.argv[2], interceptors: [(next) => next] });
const notes = createClient(Notes, transport);
await notes.set({ key: "n", text: "one" });
const query = createLiveClient(transport).query(Notes.method.get, { key: "n" });
const shown = (text) =>
  new Promise((resolve) => {
    const look = () => query.getSnapshot().data?.text === text && resolve();
    query.subscribe(look);
    look();
  });
await shown("one");
let ticks = 0;
for await (const { count } of notes.ticks({ key: "n" })) if ((ticks = Number(count)) === 3) break;
await notes.set({ key: "n", text: "two" });
await shown("two");
await transport.close();
console.log(`a call, ${ticks} ticks, a watch`);
process.exit();
