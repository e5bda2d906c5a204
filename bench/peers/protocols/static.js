// connect-es with generated code on Node's HTTP/1.1 server, which answers one message that never changes.
// First line of output is the address.
const http = require("node:http");
const { create } = require("@bufbuild/protobuf");
const { connectNodeAdapter } = require("@connectrpc/connect-node");
const { Greeter, HelloSchema } = require("./gen/hello_pb.js");

const reply = create(HelloSchema, { name: "Hello from a mock", n: 42 });
const adapter = connectNodeAdapter({ routes: router => router.service(Greeter, { sayHello: () => reply }) });
const server = http.createServer(adapter);
server.listen(0, "127.0.0.1", () => console.log(`127.0.0.1:${server.address().port}`));
