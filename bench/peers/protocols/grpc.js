// grpc-js with the schema loaded at start, as its documentation writes it. First line of output is the address.
const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const definition = loader.loadSync(path.join(__dirname, "../overhead/proto/hello.proto"), { longs: String, oneofs: true });
const { hello } = grpc.loadPackageDefinition(definition);
const server = new grpc.Server();
const echo = (call, done) => done(null, call.request);
server.addService(hello.v1.Greeter.service, { SayHello: echo, LookHello: echo });
server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(`127.0.0.1:${port}`);
});
