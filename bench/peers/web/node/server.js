// Node's own HTTP server, as its documentation writes it. First line of output is the address.
const http = require("node:http");

const send = (reply, kind, body) => {
  reply.writeHead(200, { "content-type": kind, "content-length": Buffer.byteLength(body) });
  reply.end(body);
};
const json = reply => send(reply, "application/json", JSON.stringify({ message: "Hello World!" }));

const server = http.createServer((request, reply) => {
  const { pathname, searchParams } = request.url.startsWith("/method/")
    ? new URL(request.url, "http://h")
    : { pathname: request.url };
  switch (pathname) {
    case "/plaintext": return send(reply, "text/plain", "Hello, World!");
    case "/json": return json(reply);
    case "/method/plaintext": searchParams.get("name"); return send(reply, "text/plain", "Hello World!");
    case "/method/json": searchParams.get("name"); return json(reply);
    default: reply.writeHead(404).end();
  }
});
server.listen(0, "127.0.0.1", () => console.log(`127.0.0.1:${server.address().port}`));
