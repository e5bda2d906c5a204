// connect-es with generated code on Node's HTTP/1.1 server. First line of output is the address.
const http = require("node:http");
const { connectNodeAdapter } = require("@connectrpc/connect-node");
const { Greeter } = require("./gen/hello_pb.js");

const adapter = connectNodeAdapter({
  routes: router => router.service(Greeter, { sayHello: request => request, lookHello: request => request }),
});
const server = http.createServer(adapter);
server.listen(0, "127.0.0.1", () => console.log(`127.0.0.1:${server.address().port}`));
