/** What makes two inputs equal: their encoding, with the entries of maps in order. */
import {
  create,
  type DescField,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { pathOf } from "../transport/method.ts";
import { latin1 } from "../wire/varint.ts";

export function encodeInput<T extends DescMessage>(schema: T, input: MessageInitShape<T>): Uint8Array {
  const message = create(schema, input);
  return toBinary(schema, hasMaps(schema) ? ordered(schema, message) : message);
}

export function keyOf(method: DescMethodUnary, input: MessageInitShape<DescMessage>): string {
  return `${pathOf(method)} ${latin1(encodeInput(method.input, input))}`;
}

const known = new WeakMap<DescMessage, boolean>();

/** Whether a message has a map, however deep. */
function hasMaps(schema: DescMessage): boolean {
  let has = known.get(schema);
  if (has !== undefined) return has;
  known.set(schema, false); // Of a message within itself.
  has = schema.fields.some((field) => field.fieldKind === "map" || (!!field.message && hasMaps(field.message)));
  known.set(schema, has);
  return has;
}

/** A copy whose maps have their entries in order. */
function ordered<T extends DescMessage>(schema: T, message: MessageShape<T>): MessageShape<T> {
  const copy = { ...message } as Record<string, any>;
  for (const field of schema.fields) {
    const holder = field.oneof ? copy[field.oneof.localName] : undefined;
    if (field.oneof) {
      if (holder?.case !== field.localName || !field.message) continue;
      copy[field.oneof.localName] = { ...holder, value: ordered(field.message, holder.value) };
      continue;
    }
    const value = copy[field.localName];
    if (value !== undefined) copy[field.localName] = orderedField(field, value);
  }
  return copy as MessageShape<T>;
}

function orderedField(field: DescField, value: any): unknown {
  const { message } = field;
  const inner = (one: unknown) => (message ? ordered(message, one as MessageShape<DescMessage>) : one);
  if (field.fieldKind === "map") {
    const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
    return Object.fromEntries(entries.map(([key, one]) => [key, inner(one)]));
  }
  if (!message) return value;
  return field.fieldKind === "list" ? value.map(inner) : inner(value);
}
