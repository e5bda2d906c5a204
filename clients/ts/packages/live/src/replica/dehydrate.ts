/** Data as text, to go with a page that a server made: base64, so that no script or BigInt breaks it. */
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import { EMPTY } from "../wire/frame.ts";
import { Reader, Writer } from "../wire/varint.ts";

export interface Entry {
  /** The key of the query, as bytes of one character each. */
  key: Uint8Array;
  data: Uint8Array;
  validator: Uint8Array | undefined;
}

const VERSION = 1;

export function writeEntries(entries: Iterable<Entry>): Uint8Array {
  const writer = new Writer();
  writer.byte(VERSION);
  for (const { key, data, validator } of entries) {
    writer.string(key);
    writer.string(data);
    writer.string(validator ?? EMPTY);
  }
  return writer.take();
}

/** What was written; nothing of what another version wrote, or what was cut off. */
export function readEntries(bytes: Uint8Array): Entry[] {
  const reader = new Reader(bytes);
  const entries: Entry[] = [];
  try {
    if (reader.byte() !== VERSION) return [];
    while (reader.hasMore) {
      const [key, data, validator] = [reader.string(), reader.string(), reader.string()];
      entries.push({ key, data, validator: validator.length === 16 ? validator : undefined });
    }
  } catch {
    return [];
  }
  return entries;
}

export const toText = (bytes: Uint8Array): string => base64Encode(bytes);

export function fromText(text: string): Uint8Array {
  try {
    return base64Decode(text);
  } catch {
    return EMPTY;
  }
}
