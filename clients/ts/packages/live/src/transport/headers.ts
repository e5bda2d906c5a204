/** Headers between the platform's `Headers` and metadata. */
import { type Header, putHeaders } from "../wire/metadata.ts";
import { Writer } from "../wire/varint.ts";

export function toHeaders(...lists: Header[][]): Headers {
  const headers = new Headers();
  for (const list of lists) appendHeaders(headers, list);
  return headers;
}

export function appendHeaders(headers: Headers, list: Header[]): void {
  for (const [name, value] of list) headers.append(name, value);
}

/** Encoded; undefined when there are none. */
export function encodeHeaders(headers: HeadersInit | undefined): Uint8Array | undefined {
  if (!headers) return undefined;
  const writer = new Writer();
  putHeaders(writer, new Headers(headers) as unknown as Iterable<[string, string]>);
  return writer.at ? writer.take() : undefined;
}
