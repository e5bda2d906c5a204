// The live protocol over a WebSocket of the library `ws`: node live.js HOST:PORT
//
// A dialer of the fewest frames, written from docs/live-protocol.md. Prints `ok NAME` for each case.
import WebSocket from "ws";
import { KIND, check, frames, hello, request } from "./live_frames.js";

const [address] = process.argv.slice(2);
function open(path = "/tidewire.live.v1", protocol = "tidewire.live.v1") {
  const socket = new WebSocket(`ws://${address}${path}`, protocol, { perMessageDeflate: true });
  const heard = [], waiting = [];
  socket.on("message", (data, isBinary) => {
    check(isBinary, "messages are binary");
    for (const one of frames(data)) {
      const next = waiting.shift();
      next ? next(one) : heard.push(one);
    }
  });
  const next = () => new Promise((resolve) => heard.length ? resolve(heard.shift()) : waiting.push(resolve));
  const event = (name) => new Promise((resolve, reject) => {
    socket.once(name, (...values) => resolve(values));
    if (name !== "error" && name !== "close") socket.once("error", reject);
  });
  return { socket, next, event };
}

async function calls() {
  const { socket, next, event } = open();
  await event("open");
  check(socket.protocol === "tidewire.live.v1", "the subprotocol is echoed");
  check(socket.extensions === "", "nothing is compressed");
  socket.send(hello());
  const greeting = await next();
  check(greeting.kind === KIND.hello && greeting.magic === 0x564c5754, "a hello is answered by one");
  console.log("ok hello");
  const look = "/tidewire.test.v1.BehaviourService/Look";
  // Two frames in one message, and a message for one.
  socket.send(Buffer.concat([request(1, 0, look, '{"key":"a"}'), request(3, 1, "/a.B/C", "{}")]));
  const answers = [await next(), await next()].sort((one, other) => one.stream - other.stream);
  check(answers[0].kind === KIND.reply && answers[0].payload.toString() === '{"value":"value of a"}', "a query");
  console.log("ok query");
  check(answers[1].kind === KIND.error && answers[1].metadata.includes("no service a.B"), "an unknown method");
  console.log("ok unknown method");
  socket.send("text");
  const goaway = await next();
  check(goaway.kind === KIND.goaway, "a text message ends the connection");
  const [code] = await event("close");
  check(code === 4005, `close code ${code}`);
  console.log("ok text is refused");
}

async function refusals() {
  const other = open("/tidewire.live.v1", "graphql-ws");
  const [error] = await other.event("error");
  check(String(error).includes("400"), String(error));
  console.log("ok another subprotocol");
}

await calls();
await refusals();
process.exit(0);
