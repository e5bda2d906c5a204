/** The handshake: what each side offers and how much it takes. */
import { beginFrame, endFrame, endMetadata, type Frame, HELLO, MAGIC, payloadOf } from "./frame.ts";
import { utf8Bytes } from "./metadata.ts";
import { FEATURE, MAGIC_REASON, MALFORMED, VERSION, violation } from "./reason.ts";
import { numberOf, Reader, Writer } from "./varint.ts";

/** What one side takes; it binds the other. */
export interface Limits {
  bodyMax: number;
  callsMax: number;
  watchesMax: number;
  methodsMax: number;
  streamCredit: number;
  connectionCredit: number;
  metadataMax: number;
  repliesKeptMax: number;
}

export interface Hello extends Limits {
  features: number;
  required: number;
  boot?: Uint8Array;
  session?: Uint8Array;
  secret?: Uint8Array;
  resumed: boolean;
  retainMs: number;
  keysMs: number;
  schema?: Uint8Array;
  expiresMs: number;
}

export const DEFAULTS: Limits = {
  bodyMax: 4_194_304,
  callsMax: 1_024,
  watchesMax: 0,
  methodsMax: 1_024,
  streamCredit: 262_144,
  connectionCredit: 1_048_576,
  metadataMax: 16_384,
  repliesKeptMax: 0,
};

// The build shortens names of properties: these are such.
const NUMBERS: [
  tag: number,
  name: keyof Limits | "features" | "required" | "retainMs" | "keysMs" | "expiresMs",
  fallback: number,
  floor?: number,
  max?: number,
][] = [
  [2, /* @__KEY__ */ "features", 0],
  [3, /* @__KEY__ */ "required", 0],
  [4, /* @__KEY__ */ "bodyMax", DEFAULTS.bodyMax, 65_536, 0xffff_ffff],
  [5, /* @__KEY__ */ "callsMax", DEFAULTS.callsMax, 1, 0xffff_ffff],
  [6, /* @__KEY__ */ "watchesMax", 0, 0, 0xffff_ffff],
  [7, /* @__KEY__ */ "methodsMax", DEFAULTS.methodsMax, 0, 0xffff_ffff],
  [8, /* @__KEY__ */ "streamCredit", DEFAULTS.streamCredit, 1],
  [9, /* @__KEY__ */ "connectionCredit", DEFAULTS.connectionCredit, 1],
  [10, /* @__KEY__ */ "metadataMax", DEFAULTS.metadataMax, 256, 65_535],
  [15, /* @__KEY__ */ "retainMs", 0],
  [17, /* @__KEY__ */ "keysMs", 86_400_000],
  [18, /* @__KEY__ */ "repliesKeptMax", 0, 0, 0xffff_ffff],
  [21, /* @__KEY__ */ "expiresMs", 0],
];
const BYTES: [tag: number, name: "boot" | "session" | "secret" | "schema", size: number][] = [
  [11, /* @__KEY__ */ "boot", 16],
  [12, /* @__KEY__ */ "session", 16],
  [13, /* @__KEY__ */ "secret", 32],
  [20, /* @__KEY__ */ "schema", 16],
];

/** Writes the dialer's hello; `headers` are the default headers as metadata. */
export function putHello(
  writer: Writer,
  hello: Partial<Hello>,
  agent: string,
  headers: Uint8Array,
): void {
  const at = beginFrame(writer, HELLO, 0, 0, MAGIC);
  writer.bytes(headers);
  endMetadata(writer, at);
  const entries: [number, Uint8Array][] = [[1, new Uint8Array([1, 0, 1, 0])]];
  for (const [tag, name, fallback] of NUMBERS) {
    const value = hello[name] ?? fallback;
    if (value === fallback) continue;
    const number = new Writer();
    number.varint(value);
    entries.push([tag, number.take()]);
  }
  for (const [tag, name] of BYTES) {
    const value = hello[name];
    if (value) entries.push([tag, value]);
  }
  if (agent) entries.push([16, utf8Bytes(agent)]);
  for (const [tag, value] of entries.sort(([one], [other]) => one - other)) {
    writer.byte(tag);
    writer.string(value);
  }
  endFrame(writer, at);
}

/** Reads the acceptor's hello. */
export function readHello(frame: Frame, offered: number, required: number): Hello {
  if (frame.deadlineMs !== MAGIC) throw violation(MAGIC_REASON);
  const hello = { resumed: false } as Hello;
  for (const [, name, fallback] of NUMBERS) hello[name] = fallback;
  const reader = new Reader(payloadOf(frame));
  const seen = new Set<number>();
  let versions: Uint8Array | undefined;
  while (reader.hasMore) {
    const tag = reader.byte();
    const value = reader.string();
    if (seen.has(tag)) throw violation(MALFORMED);
    seen.add(tag);
    const number = NUMBERS.find((entry) => entry[0] === tag);
    const bytes = BYTES.find((entry) => entry[0] === tag);
    if (tag === 1) versions = value;
    if (tag === 14) {
      if (value.length !== 1 || value[0]! > 1) throw violation(MALFORMED);
      hello.resumed = value[0] === 1;
    }
    if (number) {
      const [, name, , floor = 0, max = Infinity] = number;
      const said = numberOf(value);
      if (said < floor || said > max) throw violation(MALFORMED);
      hello[name] = said;
    }
    if (bytes) {
      if (value.length !== bytes[2]) throw violation(MALFORMED);
      hello[bytes[1]] = value.slice();
    }
  }
  if (versions?.length !== 4) throw violation(MALFORMED);
  if (versions.join() !== "1,0,1,0") throw violation(VERSION);
  if (hello.required & ~offered || required & ~hello.features) throw violation(FEATURE);
  return hello;
}
