// Frames of the live protocol as a dialer writes and reads them, from docs/live-protocol.md.

export const KIND = { hello: 1, request: 3, reply: 4, error: 5, goaway: 12 };
const END = 1;

const string = (bytes) => Buffer.concat([Buffer.from([bytes.length]), bytes]);
const entry = (tag, value) => Buffer.concat([Buffer.from([tag]), string(value)]);

function frame(kind, stream, flags, metadata, payload, deadline = 0) {
  const head = Buffer.alloc(16);
  head.writeUInt32LE(metadata.length + payload.length, 0);
  head.writeUInt32LE(stream, 4);
  head.writeUInt8(kind, 8);
  head.writeUInt8(flags, 9);
  head.writeUInt16LE(metadata.length, 10);
  head.writeUInt32LE(deadline, 12);
  return Buffer.concat([head, metadata, payload]);
}

export function hello() {
  const payload = Buffer.concat([entry(1, Buffer.from([1, 0, 1, 0])), entry(2, Buffer.from([14]))]);
  return frame(KIND.hello, 0, 0, Buffer.alloc(0), payload, 0x564c5754);
}

export function request(stream, number, path, payload, headers = []) {
  const name = Buffer.concat([Buffer.from([1]), Buffer.from(path)]);
  const metadata = [entry(1, Buffer.from([number])), entry(2, name)];
  for (const [header, value] of headers) {
    metadata.push(Buffer.concat([Buffer.from([0]), string(Buffer.from(header)), string(Buffer.from(value))]));
  }
  return frame(KIND.request, stream, END, Buffer.concat(metadata), Buffer.from(payload));
}

export function* frames(message) {
  for (let at = 0; at < message.length; ) {
    const length = message.readUInt32LE(at);
    const metadata = at + 16 + message.readUInt16LE(at + 10);
    yield { kind: message.readUInt8(at + 8), stream: message.readUInt32LE(at + 4),
      magic: message.readUInt32LE(at + 12), metadata: message.subarray(at + 16, metadata),
      payload: message.subarray(metadata, at + 16 + length) };
    at += 16 + length;
  }
}

export function check(holds, what) {
  if (!holds) {
    console.log(`FAILED ${what}`);
    process.exit(1);
  }
}
