// Puts the server's answers on the page. Every call goes through `call`, which shows it on the right;
// what a person typed is never looked at here, so that the errors are the server's own. The table is
// a live query: whoever changes a contact, the page follows.

import { begin, contacts, curl, get, grpcurl, send } from "./calls.js";
import { connection, watch } from "./live.js";

const at = (id) => document.getElementById(id);
const PAGE_SIZE = 10;

/// A new element: its properties, and what is in it.
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/// Sends a request, and shows it, its answer and what to type for the same.
async function call(request) {
  const answer = await send(request);
  show(request, answer.status, `in ${answer.took.toFixed(0)} ms`);
  const pretty = answer.value === undefined ? answer.text : JSON.stringify(answer.value, null, 2);
  at("answer").textContent = pretty || answer.error || "(empty)";
  return answer;
}

function show(request, status, took) {
  at("status").textContent = status;
  at("took").textContent = took;
  at("by-curl").replaceChildren(...command(curl(request)));
  at("by-grpcurl-heading").hidden = !request.method;
  at("by-grpcurl").replaceChildren(...(request.method ? command(grpcurl(request.method)) : []));
}

/// A command to copy; where there is a request, to run as well.
function command(text, request) {
  const said = make("span", { role: "status" });
  const copy = make("button", { type: "button", className: "small", ariaLabel: `Copy ${text}` }, "Copy");
  copy.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "copied";
    } catch {
      said.textContent = "not allowed here; select the text";
    }
  };
  const buttons = make("p", { className: "row" }, copy, said);
  if (request) {
    const run = make("button", { type: "button", className: "small", ariaLabel: `Run ${text}` }, "Run");
    run.onclick = async () => {
      const answer = await call(request);
      said.textContent = answer.error ?? `${answer.status}; the answer is at “The last call”`;
    };
    buttons.prepend(run);
  }
  return [make("pre", {}, text), buttons];
}

/// Calls a method of contacts over the chosen protocol; undefined when that failed, which is said.
async function ask(name, message, wrong = at("wrong")) {
  const protocol = document.querySelector("[name=protocol]:checked").value;
  at("said").textContent = wrong.textContent = "";
  const answer = await call(contacts(protocol, name, message));
  wrong.textContent = answer.error ?? "";
  return answer.error ? undefined : (answer.value ?? {});
}

const called = ({ firstName = "", surname = "" }) => `${firstName} ${surname}`.trim();

/// A line of the table. `write` shows a contact in it, `drop` takes it away.
function row(contact) {
  const line = make("tr");
  const cells = ["", "", ""].map(() => make("td"));
  const edit = make("button", { type: "button", className: "small" }, "Edit");
  const remove = make("button", { type: "button", className: "small" }, "Delete");
  line.append(...cells, make("td", {}, edit, " ", remove));
  const write = (newer) => {
    contact = newer;
    const { id, firstName = "", surname = "" } = contact;
    [id, firstName, surname].forEach((text, index) => (cells[index].textContent = text));
    edit.ariaLabel = `Edit ${called(contact)}`;
    remove.ariaLabel = `Delete ${called(contact)}`;
  };
  const drop = () => {
    const focused = line.contains(document.activeElement);
    const neighbour = line.nextElementSibling ?? line.previousElementSibling;
    line.remove();
    // Who works by keyboard goes on where the contact was.
    if (focused) (neighbour?.querySelector("button:last-child") ?? at("first")).focus();
  };
  edit.onclick = () => open(contact, write);
  remove.onclick = async () => {
    if (!(await ask("Delete", { id: contact.id }))) return;
    forget(contact.id);
    at("said").textContent = `Deleted ${contact.id}, ${called(contact)}.`;
  };
  write(contact);
  return { line, write, drop };
}

/// The page's contacts, and those that were found or created, which stay above them; by id.
const listed = new Map();
const pinned = new Map();

/// A contact is there no more.
function forget(id) {
  listed.get(id)?.drop();
  listed.delete(id);
  pinned.get(id)?.end();
  pinned.get(id)?.drop();
  pinned.delete(id);
}

/// Puts a contact above the others, and follows it.
function first(contact, text) {
  forget(contact.id);
  const kept = row(contact);
  kept.line.className = "new";
  kept.end = watch("Get", { id: contact.id }, ({ value, error }) => {
    if (value) kept.write(value);
    else if (error.startsWith("not_found")) forget(contact.id);
  });
  pinned.set(contact.id, kept);
  at("rows").prepend(kept.line);
  at("said").textContent = text;
}

/// Shows what the server says the page is now.
function list({ value, error, isStale }) {
  if (error) at("wrong").textContent = error;
  if (!value) return;
  const { contacts: all = [], nextPageToken = "" } = value;
  token = nextPageToken;
  at("next").disabled = !token;
  const ids = new Set(all.map(({ id }) => id));
  for (const [id, kept] of listed) {
    if (ids.has(id) && !pinned.has(id)) continue;
    kept.drop();
    listed.delete(id);
  }
  const body = at("rows");
  let place = pinned.size;
  for (const contact of all) {
    if (pinned.has(contact.id)) continue;
    const kept = listed.get(contact.id) ?? row(contact);
    listed.set(contact.id, kept);
    kept.write(contact);
    // What is in its place keeps the focus.
    if (body.rows[place] !== kept.line) body.insertBefore(kept.line, body.rows[place] ?? null);
    place++;
  }
  const from = all.length ? ` from id ${all[0].id}` : "";
  at("caption").textContent = `${all.length} contacts${from}, ${isStale ? "as they were" : "live"}`;
}

let token = "";
let endPage = () => {};

function page(pageToken) {
  endPage();
  endPage = watch("Page", { pageSize: PAGE_SIZE, pageToken }, list);
}

at("first").onclick = () => page("");
at("next").onclick = () => page(token);

connection(({ status, error }) => {
  const trouble = error ? `Not connected: ${error.rawMessage}` : "Connecting …";
  at("connection").textContent = status === "open" ? "Live: what others change is shown here." : trouble;
});

/// What a form submits, as an object.
function submits(form, then) {
  form.onsubmit = (event) => {
    event.preventDefault();
    return then(Object.fromEntries(new FormData(form)), form);
  };
}

submits(at("create"), async (typed, form) => {
  const contact = await ask("Create", typed);
  if (!contact) return;
  form.reset();
  form.elements.firstName.focus();
  first(contact, `Created ${contact.id}, ${called(contact)}.`);
});

submits(at("find"), async ({ id }) => {
  const contact = await ask("Get", { id });
  if (contact) first(contact, `Found ${id}, ${called(contact)}.`);
});

let changing;

function open(contact, write) {
  changing = { contact, write };
  at("editor-heading").textContent = `Edit ${contact.id}, ${called(contact)}`;
  at("edit-wrong").textContent = "";
  for (const name of ["firstName", "surname"]) at("edit").elements[name].value = contact[name] ?? "";
  at("editor").showModal();
}

at("cancel").onclick = () => at("editor").close();
submits(at("edit"), async (typed) => {
  const contact = await ask("Update", { id: changing.contact.id, ...typed }, at("edit-wrong"));
  if (!contact) return;
  at("editor").close();
  changing.write(contact);
  at("said").textContent = `Changed ${contact.id}, ${called(contact)}.`;
});

at("health").onclick = health;
async function health() {
  const answer = await call(get("/health"));
  at("health-answer").textContent = answer.ok ? `healthy: ${answer.status}` : answer.error;
}

submits(at("echo"), ({ text }) => call(get(`/echo/${encodeURIComponent(text)}`)));

let stopping;

at("stream").onclick = async () => {
  if (stopping) return stopping.abort();
  stopping = new AbortController();
  at("stream").textContent = "Stop";
  const request = get("/contacts", { accept: "application/x-ndjson" });
  const started = performance.now();
  let count = 0;
  const ended = (how) => {
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    at("streamed").textContent = `${count.toLocaleString("en")} contacts ${how} ${seconds} s`;
  };
  try {
    const response = await begin(request, stopping.signal);
    show(request, `${response.status} ${response.statusText}`, "");
    at("answer").textContent = "A line each; they are counted below.";
    const reader = response.body.getReader();
    for (let part; !(part = await reader.read()).done; ) {
      for (const byte of part.value) count += byte === 10;
    }
    ended("in");
  } catch (cause) {
    ended(stopping.signal.aborted ? "until it was stopped, in" : `before “${cause.message}”, in`);
  }
  stopping = undefined;
  at("stream").textContent = "Stream all contacts";
};

const ada = { firstName: "Ada", surname: "Lovelace" };
const COMMANDS = [
  ["Find over REST", contacts("rest", "Get", { id: 1 })],
  ["Find over Connect", contacts("connect", "Get", { id: 1 })],
  ["Find over gRPC", grpcurl({ name: "contacts.v1.Contacts/Get", message: { id: 1 } })],
  ["Create", contacts("rest", "Create", ada)],
  ["Change", contacts("rest", "Update", { id: 1, surname: "Lovelace" })],
  ["A page of three", contacts("rest", "Page", { pageSize: 3, pageToken: "" })],
  ["Delete", contacts("rest", "Delete", { id: 2 })],
  ["What is wrong is said", contacts("rest", "Create", { firstname: "Ada" })],
  ["Ask another service, which asks a third", get("/relay/hello")],
  ["All of it for machines", get("/openapi.json")],
];
at("commands").append(...COMMANDS.map(([title, what]) => {
  const isRequest = typeof what !== "string";
  const shown = isRequest ? command(curl(what), what) : command(what);
  return make("li", {}, make("h4", {}, title), ...shown);
}));

at("origin").textContent = location.origin;
page("");
await health();
