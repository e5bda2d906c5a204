// What the admin listener of a mock is asked: `tidewire.admin.v1.Mocks` in JSON, by POST.

import { AssertionError } from "node:assert";

/** The mock refuses what it was asked, or cannot be asked. */
export class MockError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "MockError";
    /** As in gRPC: `invalid_argument`, `not_found`, `unavailable`. */
    this.code = code;
  }
}

/** Calls did not come as they were to; the message tells the nearest ones. */
export class VerifyError extends AssertionError {
  constructor(message) {
    super({ message });
    this.name = "VerifyError";
  }
}

export class Admin {
  #program;

  constructor(program) {
    this.#program = program;
  }

  /** The reply of a method; `from` is where errors say that they are from. */
  async ask(method, request, from = this.ask) {
    const place = {};
    Error.captureStackTrace(place, from);
    try {
      return await this.#ask(method, request);
    } catch (error) {
      throw placed(error, place);
    }
  }

  async #ask(method, request) {
    let response;
    let body;
    try {
      response = await fetch(`http://${this.#program.admin}/tidewire.admin.v1.Mocks/${method}`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${this.#program.token}`,
          "content-type": "application/json",
        },
        body: JSON.stringify(request),
      });
      body = await response.json();
    } catch (error) {
      const cause = error.cause?.message || error.cause?.code || error.message;
      const why = (await this.#program.whyDead()) ?? `the mock does not answer: ${cause}`;
      throw new MockError("unavailable", why);
    }
    if (response.ok) return body;
    let message = body.message ?? `the mock answers ${response.status}`;
    if (body.code === "not_found") {
      // A method may be missing because its file does not compile.
      message = [message, ...this.#program.errors()].join("\n");
    }
    throw new MockError(body.code ?? "unknown", message);
  }
}

/** The error with the stack of where it was asked for. */
export function placed(error, place) {
  const frames = place.stack.slice(place.stack.indexOf("\n    at "));
  error.stack = `${error.name}: ${error.message}${frames}`;
  return error;
}
