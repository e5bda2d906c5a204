// Responses as rule files have them, from calls one after the other; and what of them is JSON.

import { inspect } from "node:util";

import { MockError, placed } from "./admin.js";

/** The name of a method: `shop.v1.Cart/GetPrice`, or of a descriptor that protobuf-es made. */
export function methodName(method) {
  if (typeof method === "string") return method.replace(/^\//, "");
  if (typeof method?.parent?.typeName !== "string" || typeof method.name !== "string") {
    const next = "write shop.v1.Cart/GetPrice, or the descriptor Cart.method.getPrice";
    throw new MockError("invalid_argument", `not a method: ${inspect(method)}; ${next}`);
  }
  return `${method.parent.typeName}/${method.name}`;
}

/** A message as JSON: a plain document, or a message of protobuf-es with the descriptor of its type. */
export async function document(value, type) {
  if (typeof value?.$typeName === "string") {
    if (type?.typeName !== value.$typeName) {
      const why = `a message of ${value.$typeName} needs its method's descriptor`;
      throw new MockError("invalid_argument", `${why}: write on(Cart.method.getPrice)`);
    }
    const { toJson } = await import("@bufbuild/protobuf");
    return toJson(type, value);
  }
  return plain(value);
}

/** What JSON has no words for, in the words that the mock reads. */
function plain(value) {
  if (typeof value === "bigint") return String(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (value instanceof Date) return value.toISOString();
  if (typeof value?.toJSON === "function") return plain(value.toJSON());
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]));
  }
  return value;
}

/** What is wanted of requests, by path: of a message, all that is set in it. */
export async function conditions(wanted, type) {
  if (typeof wanted?.$typeName !== "string") return plain(wanted ?? {});
  const json = await document(wanted, type);
  if (typeof json !== "object" || json === null) return { "": { equals: json } };
  return Object.fromEntries(Object.entries(json).map(([key, value]) => [key, { equals: value }]));
}

/** A stub in the making; `reply`, `replyStream`, `fail` and `passOn` add it to the mock. */
export class Rule {
  #add;
  #method;
  #wanted = [];
  #when = {};
  #rest = {};

  constructor(method, add) {
    this.#method = method;
    this.#add = add;
  }

  with(wanted, value) {
    this.#wanted.push(typeof wanted === "string" ? { [wanted]: value } : wanted);
    return this;
  }

  withHeader(name, value) {
    this.#when[`metadata.${name}`] = value;
    return this;
  }

  times(count) {
    return this.set("times", count);
  }

  delay(time) {
    return this.set("delay", typeof time === "number" ? `${time}ms` : time);
  }

  header(name, value) {
    return this.#put("headers", name, value);
  }

  trailer(name, value) {
    return this.#put("trailers", name, value);
  }

  fault(fault) {
    const one = typeof fault === "string" ? { kind: fault } : fault;
    return this.set("fault", [...(this.#rest.fault ?? []), one]);
  }

  set(key, value) {
    this.#rest[key] = value;
    return this;
  }

  #put(key, name, value) {
    return this.set(key, { ...this.#rest[key], [name]: value });
  }

  reply(message) {
    const done = async (type) =>
      message === undefined ? {} : { body: await document(message, type) };
    return this.#done(done, this.reply);
  }

  replyStream(messages) {
    const done = async (type) => ({
      stream_delay_ms: 0,
      stream_items: await Promise.all(messages.map((message) => document(message, type))),
    });
    return this.#done(done, this.replyStream);
  }

  fail(code, message = "", details = []) {
    const error = { code, message, ...(details.length > 0 && { details }) };
    return this.#done(async () => ({ error }), this.fail);
  }

  passOn() {
    return this.#done(async () => ({ upstream: true }), this.passOn);
  }

  async #done(answer, from) {
    const place = {};
    Error.captureStackTrace(place, from);
    try {
      const name = methodName(this.#method);
      const when = { ...this.#when };
      for (const wanted of this.#wanted) {
        for (const [path, value] of Object.entries(await conditions(wanted, this.#method.input))) {
          when[path === "" ? "request" : `request.${path}`] = value;
        }
      }
      const response = { ...(await answer(this.#method.output)), ...plain(this.#rest) };
      if (Object.keys(when).length > 0) response.when = when;
      await this.#add(name, JSON.stringify(response));
    } catch (error) {
      throw placed(error, place);
    }
  }
}
