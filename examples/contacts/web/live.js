// What the page needs of @tidewire/live: queries that are watched, calls over the same connection,
// and whether it is there. build.mjs makes tour/live.js of it. Messages are JSON, as over REST.
import { fromJson, toJson } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createLiveTransport } from "@tidewire/live";
import { createLiveClient } from "@tidewire/live/replica";
import { Contacts } from "./.gen/contacts/v1/contacts_pb.js";

const transport = createLiveTransport({ baseUrl: "/" });
const client = createLiveClient(transport);
const methods = Object.fromEntries(Contacts.methods.map((method) => [method.name, method]));

/// Tells whether the page is connected, now and when that changes.
export function connection(told) {
  const tell = () => told(transport.connection.getSnapshot());
  tell();
  return transport.connection.subscribe(tell);
}

/// Tells what the server says to a query from now on: { value, error, isStale }. Returns what ends it.
export function watch(name, message, told) {
  const method = methods[name];
  const query = client.query(method, fromJson(method.input, message));
  const tell = () => {
    const { status, data, error, isStale } = query.getSnapshot();
    if (status !== "pending") told({ value: data && toJson(method.output, data), error: error && wording(error), isStale });
  };
  const end = query.subscribe(tell);
  tell();
  return end;
}

/// Calls a method over the connection: { value } or { error }.
export async function call(name, message) {
  const method = methods[name];
  try {
    const reply = await client.mutate(method, fromJson(method.input, message));
    return { value: toJson(method.output, reply) };
  } catch (cause) {
    return { error: wording(ConnectError.from(cause)) };
  }
}

/// As Connect names codes: `not_found: no contact has id 7`.
function wording({ code, rawMessage }) {
  return `${Code[code].replace(/(?<!^)[A-Z]/g, "_$&").toLowerCase()}: ${rawMessage}`;
}
