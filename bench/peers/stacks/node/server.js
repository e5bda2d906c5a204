// The application with Fastify and pg, as one would write it for Node.js today: pools keep their
// connections, statements are prepared by name. First line of output is the address.
const http = require("node:http");
const fastify = require("fastify");
const { Pool } = require("pg");

const { DATABASE_URL, STORE, CONNECTIONS = "16" } = process.env;
const at = new URLSearchParams(DATABASE_URL.split("?")[1]);
const pool = new Pool({ host: at.get("host"), user: at.get("user"), database: "postgres", max: +CONNECTIONS, min: +CONNECTIONS });
const query = (name, text, values) => pool.query({ name, text, values });
const agent = new http.Agent({ keepAlive: true, maxSockets: 512 });
const [storeHost, storePort] = STORE.split(":");

const ask = key => new Promise((resolve, reject) => {
  const request = http.get({ host: storeHost, port: storePort, path: `/store/${encodeURIComponent(key)}`, agent }, reply => {
    let text = "";
    reply.setEncoding("utf8").on("data", part => text += part).on("end", () => resolve(JSON.parse(text))).on("error", reject);
  });
  request.on("error", reject);
});

const app = fastify();
app.get("/health", (request, reply) => reply.code(204).send());
app.get("/echo/:text", (request, reply) => reply.type("text/plain; charset=utf-8").send(request.params.text));
app.get("/relay/:key", async ({ params: { key } }) => ({ key, value: (await ask(key)).value }));

const names = { type: "object", required: ["firstName", "surname"], properties: { firstName: { type: "string" }, surname: { type: "string" } } };
const id = { type: "object", properties: { id: { type: "integer" } } };
app.post("/contacts", { schema: { body: names } }, async (request, reply) => {
  const { firstName, surname } = request.body;
  const made = await query("create", "INSERT INTO contact (firstname, surname) VALUES ($1, $2) RETURNING id", [firstName, surname]);
  const contact = { id: made.rows[0].id, firstName, surname };
  return reply.code(201).header("location", `http://${request.host}/contacts/${contact.id}`).send(contact);
});
app.get("/contacts/:id", { schema: { params: id } }, async (request, reply) => {
  const found = await query("get", "SELECT id, firstname, surname FROM contact WHERE id = $1", [request.params.id]);
  const [row] = found.rows;
  return row ? { id: row.id, firstName: row.firstname, surname: row.surname } : reply.code(404).send();
});
app.delete("/contacts/:id", { schema: { params: id } }, async (request, reply) => {
  await query("delete", "DELETE FROM contact WHERE id = $1", [request.params.id]);
  return reply.code(204).send();
});

app.listen({ host: "127.0.0.1", port: 0 }).then(address => console.log(address.replace("http://", "")));
