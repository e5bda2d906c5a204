// A call as a line for a shell. Everything that others wrote is quoted: a line that is pasted runs one program.

/** @typedef {{ method: string, message: string, headers: Record<string, string>, address: string, tls: boolean, protocol: string, streams: boolean }} What */

/** One word of a POSIX shell, whatever is in it. @param {string} text */
export const quoted = (text) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** @param {What} what */
const url = ({ address, tls }) => `${tls ? "https" : "http"}://${address}`;

/** @param {What} what */
export function asCurl(what) {
  const headers = Object.entries(what.headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const socket = what.address.startsWith("unix:") ? ["--unix-socket", what.address.slice(5)] : [];
  const at = socket.length ? "http://localhost" : url(what);
  if (what.streams) return `# curl sends no stream; ${asTidewire(what)}`;
  return line(["curl", ...socket, "-H", "content-type: application/json", ...headers, "--data-raw", what.message, `${at}/${what.method}`]);
}

/** A request by a REST binding. @param {{ verb: string, url: string, body?: string, headers: Record<string, string> }} what */
export function asRestCurl({ verb, url, body, headers }) {
  const sent = Object.entries(body === undefined ? headers : { "content-type": "application/json", ...headers });
  const given = sent.flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  return line(["curl", ...(verb === "GET" ? [] : ["-X", verb]), ...given, ...(body === undefined ? [] : ["--data-raw", body]), url]);
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
