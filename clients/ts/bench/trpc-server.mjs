// What tRPC's client calls: the same question and answer as Look of the behaviour service.
import { initTRPC } from "@trpc/server";
import { applyWSSHandler } from "@trpc/server/adapters/ws";
import { WebSocketServer } from "ws";

const t = initTRPC.create();
const router = t.router({
  look: t.procedure.input((value) => value).query(({ input }) => ({ value: `value of ${input.key}`, looks: 0 })),
});
const wss = new WebSocketServer({ port: 0, host: "127.0.0.1" });
applyWSSHandler({ wss, router });
wss.on("listening", () => console.log(`listening on 127.0.0.1:${wss.address().port}`));
