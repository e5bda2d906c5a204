// What the client costs by itself: node --expose-gc tests/bench.ts. The server is a few lines within
// this process, whose time is taken off by a run without the client's part.
import { create } from "@bufbuild/protobuf";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createLiveTransport, type LiveTransport } from "@tidewire/live";
import { createLiveClient } from "@tidewire/live/replica";
import { BehaviourService, LookRequestSchema } from "./gen/tidewire/test/v1/behaviour_pb.js";

const { look } = BehaviourService.method;
const median = (values: number[]) => values.sort((one, other) => one - other)[values.length >> 1]!;

/** A socket whose server answers each request with the same reply, as fast as can be. */
function echoing(interceptors?: Interceptor[]): LiveTransport {
  const hello = new Uint8Array(16 + 6 + 3 + 4 + 18 + 34);
  const view = new DataView(hello.buffer);
  view.setUint32(0, hello.length - 16, true);
  hello[8] = 1;
  view.setUint32(12, 0x564c5754, true);
  hello.set([1, 4, 1, 0, 1, 0, 2, 1, 30, 6, 2, 0x80, 0x7d, 12, 16], 16);
  hello.set([13, 32], 16 + 6 + 3 + 4 + 18);
  const payload = new Uint8Array([10, 5, 104, 101, 108, 108, 111]);
  return createLiveTransport({
    baseUrl: "http://bench.test",
    interceptors,
    webSocket: () => {
      const socket: any = { bufferedAmount: 0, close() {} };
      socket.send = (data: Uint8Array) => {
        if (data[8] === 1) return queueMicrotask(() => socket.onmessage({ data: hello.buffer }));
        let count = 0;
        for (let at = 0; at < data.length; count++) at += 16 + data[at]! + (data[at + 1]! << 8);
        // A reply of 23 bytes, or the answer of a watch, with its validator, of 41.
        const out = new Uint8Array(count * 41);
        let to = 0;
        for (let at = 0; at < data.length; at += 16 + data[at]! + (data[at + 1]! << 8)) {
          if (data[at + 8] !== 3) continue;
          const meta = data[at + 9]! & 0x20 ? 18 : 0;
          out[to] = 7 + meta;
          out.set(data.subarray(at + 4, at + 8), to + 4);
          out[to + 8] = 4;
          out[to + 9] = meta ? 0x10 : 1;
          out[to + 10] = meta;
          if (meta) out.set([4, 16], to + 16);
          out.set(payload, to + 16 + meta);
          to += 23 + meta;
        }
        const reply = out.slice(0, to);
        if (to) setImmediate(() => socket.onmessage({ data: reply.buffer }));
      };
      queueMicrotask(() => socket.onopen());
      return socket;
    },
  });
}

async function calls(name: string, one: () => Promise<unknown>): Promise<void> {
  const rates: number[] = [];
  const costs: number[] = [];
  for (let round = 0; round < 7; round++) {
    const count = 50_000;
    const began = performance.now();
    const cpu = process.cpuUsage();
    let left = count;
    const worker = async () => {
      while (left-- > 0) await one();
    };
    await Promise.all(Array.from({ length: 100 }, worker));
    const { user, system } = process.cpuUsage(cpu);
    rates.push((count * 1_000) / (performance.now() - began));
    costs.push((user + system) / count);
  }
  console.log(`${name.padEnd(44)} ${Math.round(median(rates))} calls/s, ${median(costs).toFixed(1)} µs CPU a call`);
}

const transport = echoing();
const client = createClient(BehaviourService, transport);
const signal = new AbortController().signal;
await client.look({ key: "hello" });
await calls("100 in flight, fast path", () => client.look({ key: "hello" }));
const full = createClient(BehaviourService, echoing([(next) => next]));
await full.look({ key: "hello" });
await calls("the same with an interceptor, signal, timeout", () => full.look({ key: "hello" }, { signal, timeoutMs: 60_000 }));
await calls("the same with a signal and a timeout", () => client.look({ key: "hello" }, { signal, timeoutMs: 60_000 }));

// Hits.
function hits(name: string, one: () => unknown): void {
  const times: number[] = [];
  for (let round = 0; round < 7; round++) {
    const count = 200_000;
    const began = process.hrtime.bigint();
    for (let index = 0; index < count; index++) one();
    times.push(Number(process.hrtime.bigint() - began) / count);
  }
  console.log(`${name.padEnd(44)} ${median(times).toFixed(0)} ns`);
}
const replicas = createLiveClient(transport);
const query = replicas.query(look, { key: "hello" });
const input = create(LookRequestSchema, { key: "hello" });
replicas.query(look, input);
hits("hit by handle", () => query.getSnapshot());
hits("hit by the same input object", () => replicas.query(look, input));
hits("hit by input", () => replicas.query(look, { key: "hello" }));

// Watches.
const COUNT = 10_000;
const watching = createLiveClient(echoing());
const gc = (globalThis as { gc?: () => void }).gc ?? (() => {});
const bytes = () => {
  gc();
  return process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers;
};
const queries = Array.from({ length: COUNT }, (_, index) => watching.query(look, { key: `key ${index}` }));
const before = bytes();
let told = 0;
const began = performance.now();
for (const one of queries) one.subscribe(() => told++);
while (told < COUNT) await new Promise(setImmediate);
console.log(`${"10k watches: open".padEnd(44)} ${Math.round(performance.now() - began)} ms`);
await new Promise((resolve) => setTimeout(resolve, 100));
console.log(`${"heap a watch, with its message".padEnd(44)} ${Math.round((bytes() - before) / COUNT)} bytes`);
process.exit();
