// Calls of tidewire.admin.v1, by Connect in JSON.

import { current, forget } from "./session.js";

/** What the server refused, or that it does not answer (`unavailable`). */
export class ApiError extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * @param {string} method `Mocks/ListRules`
 * @param {object} [request]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function call(method, request = {}, signal) {
  const response = await send(method, "application/json", JSON.stringify(request), signal);
  return read(await response.text());
}

/**
 * JSON of the server. Integers that a number of this language does not hold become texts.
 * @param {string} text
 */
export function read(text) {
  return JSON.parse(exact(text));
}

/**
 * Puts quotes around integers with more digits than a number holds.
 * @param {string} text
 */
export function exact(text) {
  return text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g,
    (token) => (/^-?\d{16,}$/.test(token) ? `"${token}"` : token));
}

/**
 * @param {string} method @param {string} type @param {BodyInit} body @param {AbortSignal} [signal]
 */
async function send(method, type, body, signal) {
  const headers = { "content-type": type, "connect-protocol-version": "1", authorization: `Bearer ${current()?.bearer ?? ""}` };
  let response;
  try {
    response = await fetch(`/tidewire.admin.v1.${method}`, { method: "POST", headers, body, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("unavailable", "the program does not answer; is it still running?");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  if (response.status === 401) forget();
  throw new ApiError(said.code ?? "unknown", said.message ?? `the server refuses (${response.status})`);
}

/**
 * What happens as it happens, until the signal or an error ends it.
 * @param {object} request @param {(batch: any) => void} onBatch @param {AbortSignal} signal
 */
export async function tail(request, onBatch, signal) {
  const message = new TextEncoder().encode(JSON.stringify(request));
  const body = new Uint8Array(5 + message.length);
  new DataView(body.buffer).setUint32(1, message.length);
  body.set(message, 5);
  const response = await send("Tail/Watch", "application/connect+json", body, signal);
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  let held = new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new ApiError("unavailable", "the program ended the stream");
    const all = new Uint8Array(held.length + value.length);
    all.set(held);
    all.set(value, held.length);
    held = all;
    for (;;) {
      if (held.length < 5) break;
      const length = new DataView(held.buffer, held.byteOffset).getUint32(1);
      if (held.length < 5 + length) break;
      const text = new TextDecoder().decode(held.subarray(5, 5 + length));
      const isEnd = (held[0] & 2) !== 0;
      held = held.slice(5 + length);
      const said = read(text || "{}");
      if (isEnd) throw new ApiError(said.error?.code ?? "unavailable", said.error?.message ?? "the program ended the stream");
      onBatch(said);
    }
  }
}
