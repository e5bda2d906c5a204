/** What a method of generated code says of itself: its path, its kind, its codec. */
import {
  type BinaryReadOptions,
  type BinaryWriteOptions,
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { CODE_INTERNAL, CODE_INVALID_ARGUMENT } from "../wire/code.ts";
import type { Kind } from "../session/call.ts";

export type BinaryOptions = Partial<BinaryReadOptions & BinaryWriteOptions>;

// Of google.protobuf.MethodOptions.IdempotencyLevel; importing it would bring all of wkt.
const NO_SIDE_EFFECTS = 1;
const IDEMPOTENT = 2;

const paths = new WeakMap<DescMethod, string>();

export function pathOf(method: DescMethod): string {
  let path = paths.get(method);
  if (!path) paths.set(method, (path = `/${method.parent.typeName}/${method.name}`));
  return path;
}

export function kindOf({ idempotency }: DescMethod): Kind {
  if (idempotency === (NO_SIDE_EFFECTS as number)) return "query";
  return idempotency === (IDEMPOTENT as number) ? "idempotent" : "command";
}

export function encode<T extends DescMessage>(
  schema: T,
  input: MessageInitShape<T>,
  options: BinaryOptions | undefined,
): Uint8Array {
  try {
    return toBinary(schema, create(schema, input), options);
  } catch (error) {
    throw ConnectError.from(error, CODE_INTERNAL);
  }
}

export function decode<T extends DescMessage>(
  schema: T,
  data: Uint8Array,
  options: BinaryOptions | undefined,
): MessageShape<T> {
  try {
    return fromBinary(schema, data, options);
  } catch (error) {
    throw ConnectError.from(error, CODE_INVALID_ARGUMENT);
  }
}
