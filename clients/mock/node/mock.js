// A mock for tests: started on a free port, told what to answer, asked what it was called with.
//
// A session is a mock within the mock: its rules, its state and its calls are those of requests
// with its header, so that tests which run beside one another share one program.

import { randomUUID } from "node:crypto";

import { Admin, MockError, VerifyError, placed } from "./admin.js";
import { start } from "./program.js";
import { Rule, conditions, methodName } from "./rule.js";

export { MockError, VerifyError };

const SESSION_HEADER = "x-mock-session";

/** What a mock and a session have in common; the mock itself is the session without a name. */
class Scope {
  #admin;
  #name;
  #url;

  constructor(admin, url, name) {
    this.#admin = admin;
    this.#url = url;
    this.#name = name;
  }

  get url() {
    return this.#url;
  }

  get target() {
    return new URL(this.#url).host;
  }

  get headers() {
    return this.#name ? { [SESSION_HEADER]: this.#name } : {};
  }

  fetch(path, init = {}) {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(this.headers)) headers.set(name, value);
    return fetch(new URL(path, this.#url), { ...init, headers });
  }

  on(method) {
    return new Rule(method, async (name, response) => {
      await this.#admin.ask("Stub", { method: name, response, session: this.#name });
    });
  }

  async verify(method, { with: wanted, headers, exactly, atLeast, atMost } = {}) {
    const place = {};
    Error.captureStackTrace(place, this.verify);
    const request = {
      method: methodName(method),
      session: this.#name,
      with: JSON.stringify(await conditions(wanted, method.input)),
      withHeaders: JSON.stringify(headers ?? {}),
      exactly,
      atLeast,
      atMost,
    };
    const reply = await this.#admin.ask("Verify", request, this.verify);
    if (!reply.verified) throw placed(new VerifyError(reply.problem), place);
  }

  async calls(method) {
    const all = [];
    const wanted = { session: this.#name, bodies: true, limit: 1000 };
    if (method !== undefined) wanted.method = methodName(method);
    for (;;) {
      const { calls = [] } = await this.#admin.ask("ListCalls", wanted, this.calls);
      if (calls.length === 0) return all;
      all.push(...calls.map(call));
      wanted.after = calls.at(-1).number;
    }
  }

  async nearMisses() {
    const wanted = { session: this.#name, limit: 1000 };
    const { misses = [] } = await this.#admin.ask("NearMisses", wanted, this.nearMisses);
    return misses.map((miss) => ({
      call: call(miss.call),
      nearest: miss.nearest ?? "",
      misses: miss.misses ?? [],
    }));
  }

  async reset() {
    await this.#admin.ask("Reset", { session: this.#name }, this.reset);
  }
}

export class Session extends Scope {
  constructor(admin, url, name) {
    super(admin, url, name);
    this.name = name;
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.reset();
  }
}

export class Mock extends Scope {
  #admin;
  #program;

  static async start(options = {}) {
    const program = await start(options);
    return new Mock(program, new Admin(program));
  }

  constructor(program, admin) {
    super(admin, `http://${program.address}`, "");
    this.#program = program;
    this.#admin = admin;
  }

  get pid() {
    return this.#program.pid;
  }

  session(name = randomUUID()) {
    return new Session(this.#admin, this.url, name);
  }

  async setFaults(faults, method) {
    const request = { text: faults ? JSON.stringify(faults) : "" };
    if (method !== undefined) request.method = methodName(method);
    await this.#admin.ask("SetFaults", request, this.setFaults);
  }

  async close() {
    await this.#program.close();
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.close();
  }
}

/** A call as tests want it. */
function call(told) {
  const { number, method, session = "", rule = "", code, reason = "" } = told;
  const { requests = [], headers = [] } = told;
  return {
    number: Number(number),
    method,
    session,
    rule,
    code,
    reason,
    requests: requests.map(parsed),
    headers: Object.fromEntries(headers.map(({ name, value }) => [name, value])),
  };
}

/** A request that has no JSON is told as text. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
