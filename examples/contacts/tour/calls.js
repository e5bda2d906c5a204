// How each thing is asked for over REST, Connect and live, and the same as a command for a terminal.
//
// A request is { verb, path, headers, message }; `method` beside it names the RPC that it is, and
// `isLive` says that it goes over the page's own connection.

import { call } from "./live.js";

const SERVICE = "contacts.v1.Contacts";

/// The RPCs of contacts as REST has them; see proto/contacts/v1/contacts.proto.
const REST = {
  Create: (message) => ({ verb: "POST", path: "/contacts", message }),
  Get: ({ id }) => get(`/contacts/${encodeURIComponent(id)}`),
  Page: ({ pageSize, pageToken }) =>
    get(`/contacts:page?page_size=${pageSize}${pageToken ? `&page_token=${pageToken}` : ""}`),
  Update: ({ id, ...message }) => ({ verb: "PATCH", path: `/contacts/${id}`, message }),
  Delete: ({ id }) => ({ verb: "DELETE", path: `/contacts/${id}` }),
};

/// A call of a method of contacts, over "rest", "connect" or "live".
export function contacts(protocol, name, message) {
  const method = { name: `${SERVICE}/${name}`, message };
  if (protocol === "rest") return { ...REST[name](message), method };
  return { verb: "POST", path: `/${SERVICE}/${name}`, message, method, isLive: protocol === "live" };
}

/// A plain request.
export function get(path, headers = {}) {
  return { verb: "GET", path, headers };
}

/// Sends a request; the answer comes as soon as its head is there.
export function begin({ verb, path, headers, message }, signal) {
  const body = message && JSON.stringify(message);
  const all = { ...headers, ...(body && { "content-type": "application/json" }) };
  return fetch(path, { method: verb, headers: all, body, signal, cache: "no-store" });
}

/// Sends a request and reads the whole answer: { ok, status, text, value, took }. What went wrong is
/// `error`, in words, whoever says it.
export async function send(request) {
  const started = performance.now();
  const answer = { ok: false, status: "no answer", text: "" };
  if (request.isLive) {
    const { value, error } = await call(request.method.name.split("/")[1], request.method.message);
    const status = error ? error.split(":")[0] : "answered over the WebSocket";
    return { ok: !error, status, text: "", value, error, took: performance.now() - started };
  }
  try {
    const response = await begin(request);
    answer.status = `${response.status} ${response.statusText}`;
    answer.text = await response.text();
    answer.ok = response.ok;
    answer.value = parsed(answer.text);
    if (!response.ok) answer.error = wording(response, answer.value);
  } catch (cause) {
    answer.error = `${location.origin} does not answer (${cause.message}); is it still running?`;
  }
  answer.took = performance.now() - started;
  return answer;
}

function wording(response, value) {
  if (value?.code) return `${response.status} ${value.code}: ${value.message ?? ""}`;
  return `${response.status} ${response.statusText}`;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // Text is an answer too.
  }
}

/// The request as a command of curl.
export function curl({ verb, path, headers = {}, message }) {
  const words = ["curl", "-i"];
  const implied = message ? "POST" : "GET";
  if (verb !== implied) words.push("-X", verb);
  for (const [name, value] of Object.entries(headers)) words.push("-H", quoted(`${name}: ${value}`));
  words.push(quoted(location.origin + path));
  if (message) words.push("--json", quoted(JSON.stringify(message)));
  return words.join(" ");
}

/// The RPC as a command of grpcurl.
export function grpcurl({ name, message }) {
  const plaintext = location.protocol === "http:" ? " -plaintext" : "";
  return `grpcurl${plaintext} -d ${quoted(JSON.stringify(message))} ${location.host} ${name}`;
}

/// A word for a shell.
function quoted(word) {
  return /^[\w:/.%@-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
