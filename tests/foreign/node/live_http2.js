// The live protocol over HTTP/2 (RFC 8441): node live_http2.js HOST:PORT
//
// HTTP/2 is Node's, the WebSocket on one of its streams is the library `ws`. Prints `ok NAME` for each case.
import http2 from "node:http2";
import WebSocket from "ws";
import { KIND, check, frames, hello, request } from "./live_frames.js";

const [address] = process.argv.slice(2);
const LOOK = "/tidewire.test.v1.BehaviourService/Look";
const connection = http2.connect(`http://${address}`);
await new Promise((resolve) => connection.once("remoteSettings", resolve));
check(connection.remoteSettings.enableConnectProtocol === true, "the server says that it takes them");
console.log("ok setting");

// A request, and its answer's headers.
async function ask(headers, keepsOpen = false) {
  const stream = connection.request(headers, { endStream: !keepsOpen });
  const answer = await new Promise((resolve, reject) => {
    stream.once("response", resolve);
    stream.once("error", reject);
  });
  return { stream, answer, status: answer[":status"] };
}

const connect = (more = {}) => ask({
  ":method": "CONNECT", ":protocol": "websocket", ":path": "/tidewire.live.v1", ":scheme": "http",
  "sec-websocket-version": "13", "sec-websocket-protocol": "tidewire.live.v1", ...more,
}, true);

// A WebSocket on a stream.
async function open() {
  const { stream, answer, status } = await connect({ origin: `http://${address}` });
  check(status === 200, `a stream is taken: ${status}`);
  check(answer["sec-websocket-protocol"] === "tidewire.live.v1", "the subprotocol is echoed");
  check(!("sec-websocket-accept" in answer), "no key is asked for, and none answered");
  const socket = new WebSocket(null, undefined, {});
  socket._isServer = false;
  socket.setSocket(stream, Buffer.alloc(0), { maxPayload: 1 << 20, skipUTF8Validation: false });
  const heard = [], waiting = [];
  socket.on("message", (data) => {
    for (const one of frames(data)) {
      const next = waiting.shift();
      next ? next(one) : heard.push(one);
    }
  });
  const next = () => new Promise((resolve) => heard.length ? resolve(heard.shift()) : waiting.push(resolve));
  socket.send(hello());
  check((await next()).kind === KIND.hello, "a hello is answered by one");
  return { socket, next };
}

async function look(live, stream, key) {
  live.socket.send(request(stream, (stream - 1) / 2, LOOK, `{"key":"${key}"}`));
  const answer = await live.next();
  check(answer.kind === KIND.reply && answer.payload.toString() === `{"value":"value of ${key}"}`, "a query");
}

async function neighbour() {
  const stream = connection.request({ ":method": "POST", ":path": LOOK, "content-type": "application/json" });
  stream.end('{"key":"n"}');
  let text = "";
  for await (const chunk of stream.setEncoding("utf8")) text += chunk;
  check(text === '{"value":"value of n"}', `a call beside it: ${text}`);
}

const [one, two] = [await open(), await open()];
await look(one, 1, "a");
await look(two, 1, "b");
console.log("ok two sessions");
await neighbour();
console.log("ok a call beside them");
const closed = new Promise((resolve) => one.socket.once("close", resolve));
one.socket.send("text");
check((await one.next()).kind === KIND.goaway, "a text message ends the stream");
check((await closed) === 4005, "with the reason");
await look(two, 3, "c");
await neighbour();
console.log("ok one ends alone");
for (const [more, expected] of [
  [{ origin: "https://evil.example" }, 403],
  [{ "sec-websocket-protocol": "graphql-ws" }, 400],
  [{ "sec-websocket-version": "8" }, 426],
  [{ ":protocol": "connect-udp" }, 404],
  [{ ":path": "/elsewhere" }, 404],
]) {
  const { stream, status } = await connect(more);
  check(status === expected, `${JSON.stringify(more)}: ${status}`);
  stream.close();
}
await look(two, 5, "d");
console.log("ok refusals");
process.exit(0);
