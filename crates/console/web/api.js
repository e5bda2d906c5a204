// Calls of tidewire.admin.v1, by Connect in JSON.

import { ApiError, envelope, messages, read } from "./connect.js";
import { current, forget } from "./session.js";

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
  const response = await send("Tail/Watch", "application/connect+json", envelope(JSON.stringify(request)), signal);
  for await (const { text, isEnd } of messages(response)) {
    const said = read(text || "{}");
    if (isEnd) throw new ApiError(said.error?.code ?? "unavailable", said.error?.message ?? "the program ended the stream");
    onBatch(said);
  }
  throw new ApiError("unavailable", "the program ended the stream");
}
