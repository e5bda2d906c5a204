// A call as a line for a shell. Everything that others wrote is quoted: a line that is pasted runs one program.

/** @typedef {{ method: string, message: string, headers: Record<string, string>, address: string, tls: boolean, protocol: string, streams: boolean }} What */

/** One word of a POSIX shell, whatever is in it. @param {string} text */
export const quoted = (text) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** @param {{ address: string, tls: boolean }} what */
const url = ({ address, tls }) => `${tls ? "https" : "http"}://${address}`;

/** @param {What} what */
export function asCurl(what) {
  const headers = Object.entries(what.headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const socket = what.address.startsWith("unix:") ? ["--unix-socket", what.address.slice(5)] : [];
  const at = socket.length ? "http://localhost" : url(what);
  if (what.streams) return `# curl sends no stream; ${asTidewire(what)}`;
  return line(["curl", ...socket, "-H", "content-type: application/json", ...headers, "--data-raw", what.message, `${at}/${what.method}`]);
}

/** @typedef {{ verb: string, path: string, body?: string, headers: Record<string, string>, address: string, tls: boolean }} RestWhat the path begins with `/` */

/** A request by a REST binding. @param {RestWhat} what */
export function asRestCurl({ verb, path, body, headers, address, tls }) {
  const sent = Object.entries(body === undefined ? headers : { "content-type": "application/json", ...headers });
  const given = sent.flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const isSocket = address.startsWith("unix:");
  const at = isSocket ? "http://localhost" : url({ address, tls });
  return line(["curl", ...(isSocket ? ["--unix-socket", address.slice(5)] : []), ...(verb === "GET" ? [] : ["-X", verb]), ...given, ...(body === undefined ? [] : ["--data-raw", body]), at + path]);
}

/** The same by plain HTTP of `tidewire call`. @param {RestWhat} what */
export function asRestTidewire({ verb, path, body, headers, address, tls }) {
  const given = Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  return line(["tidewire", "call", "-X", verb, ...given, (tls ? url({ address, tls }) : address) + path, ...(body === undefined ? [] : ["-d", body])]);
}

/** @param {What} what */
export function asGrpcurl(what) {
  const headers = Object.entries(what.headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const socket = what.address.startsWith("unix:") ? ["-unix"] : [];
  return line(["grpcurl", ...(what.tls ? [] : ["-plaintext"]), ...socket, ...headers, "-d", what.message, what.address.replace(/^unix:/, ""), what.method]);
}

/** @param {What} what */
export function asTidewire(what) {
  const headers = Object.entries(what.headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const at = what.address.startsWith("unix:") || !what.tls ? what.address : url(what);
  return line(["tidewire", "call", "--protocol", what.protocol, ...headers, at, what.method, what.message]);
}

/** @param {string[]} words */
const line = (words) => words.map(quoted).join(" ");
