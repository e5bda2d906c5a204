/** Method numbers of one connection: a path is named once, then a number stands for it. */
import { METHOD, NAME, putNumber, utf8Bytes } from "../wire/metadata.ts";
import type { Writer } from "../wire/varint.ts";

export class Methods {
  private numbers: Map<string, number> = new Map();
  private paths: Map<string, Uint8Array> = new Map();

  clear(): void {
    this.numbers.clear();
  }

  /** Writes what names the method. */
  put(writer: Writer, path: string, max: number): void {
    let number = this.numbers.get(path);
    if (number !== undefined) return putNumber(writer, METHOD, number);
    number = this.numbers.size;
    if (number < max) {
      this.numbers.set(path, number);
      putNumber(writer, METHOD, number);
    }
    let bytes = this.paths.get(path);
    if (!bytes) this.paths.set(path, (bytes = utf8Bytes(path)));
    writer.byte(NAME);
    writer.varint(bytes.length + 1);
    writer.byte(0); // The codec: protobuf.
    writer.bytes(bytes);
  }
}
