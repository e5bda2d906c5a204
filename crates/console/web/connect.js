// Connect in JSON, as far as pages speak it: exact integers, errors, and the messages of a stream.

/** What the server refused, or that it does not answer (`unavailable`). */
export class ApiError extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
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
 * One message as a stream carries it: a byte of flags, the length, the text.
 * @param {string} text
 */
export function envelope(text) {
  const message = new TextEncoder().encode(text);
  const bytes = new Uint8Array(5 + message.length);
  new DataView(bytes.buffer).setUint32(1, message.length);
  bytes.set(message, 5);
  return bytes;
}

/**
 * The messages of a stream as they come; the last one that a whole stream has is its end.
 * @param {Response} response
 * @returns {AsyncGenerator<{ text: string, isEnd: boolean }>}
 */
export async function* messages(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  let held = new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const all = new Uint8Array(held.length + value.length);
    all.set(held);
    all.set(value, held.length);
    held = all;
    while (held.length >= 5) {
      const length = new DataView(held.buffer, held.byteOffset).getUint32(1);
      if (held.length < 5 + length) break;
      const text = new TextDecoder().decode(held.subarray(5, 5 + length));
      const isEnd = (held[0] & 2) !== 0;
      held = held.slice(5 + length);
      yield { text, isEnd };
    }
  }
}
