/** A hash of services and their messages: data of another schema are not read. */
import type { DescField, DescMessage, DescService } from "@bufbuild/protobuf";

export async function schemaHash(services: DescService[]): Promise<string> {
  const lines: string[] = [];
  const seen = new Set<DescMessage>();
  const field = ({ number, fieldKind, scalar, message, enum: numbers, ...more }: DescField & Record<string, any>) =>
    [number, fieldKind, more.mapKey, more.listKind, more.mapKind, scalar, message?.typeName, numbers?.typeName].join();
  const add = (message: DescMessage) => {
    if (seen.has(message)) return;
    seen.add(message);
    lines.push(`${message.typeName} ${message.fields.map((one) => field(one as never)).join(";")}`);
    for (const one of message.fields) if (one.message) add(one.message);
  };
  for (const { typeName, methods } of services) {
    for (const { name, methodKind, idempotency, input, output } of methods) {
      lines.push(`${typeName}/${name} ${methodKind} ${idempotency} ${input.typeName} ${output.typeName}`);
      add(input);
      add(output);
    }
  }
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(lines.sort().join("\n")));
  return [...new Uint8Array(digest, 0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
