// Calls the admin routes of wishmock, as its documentation says, with nothing but `fetch`.
//
//   node wishmock.js ADMIN CALLS
//
// Both are URLs: of the admin routes, and of the port of Connect. Each line says what was seen.
const [admin, calls] = process.argv.slice(2);
let failed = 0;

function check(name, is, ...more) {
  console.log(`${is ? "ok" : "FAILED"} ${name}`, ...(is ? [] : more.map((one) => JSON.stringify(one))));
  if (!is) failed += 1;
}

async function ask(method, url, body) {
  const init = { method };
  if (body !== undefined) {
    init.headers = { "content-type": "application/json" };
    init.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  const response = await fetch(url, init);
  const text = await response.text();
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    json = text;
  }
  return { status: response.status, json };
}

const get = (path) => ask("GET", admin + path);
const call = (method, request) => ask("POST", `${calls}/${method}`, request);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

let seen = await get("/");
check("GET /", seen.status === 200 && same(seen.json, { ok: true }), seen);
seen = await get("/liveness");
check("GET /liveness", seen.status === 200 && seen.json.status === "alive", seen);
seen = await get("/readiness");
check("GET /readiness", seen.status === 200 && seen.json.status === "ready", seen);
seen = await ask("GET", `${calls}/health`);
check("GET /health", seen.status === 200, seen);

seen = await get("/admin/status");
check("status: ports", seen.json.grpc_ports?.plaintext === seen.json.grpc_port && seen.json.connect_rpc?.enabled, seen);
check("status: services", seen.json.loaded_services?.includes("helloworld.Greeter/SayHello"), seen);
check("status: rules", same(seen.json.rules, ["helloworld.greeter.sayhello"]), seen);
check("status: protos", same(seen.json.protos?.loaded, ["helloworld.proto"]), seen);

seen = await get("/admin/services");
const greeter = seen.json.services?.find((one) => one.name === "helloworld.Greeter");
check("services", greeter?.package === "helloworld" && greeter?.service === "Greeter", seen);
check("services: methods", same(greeter?.methods?.[0], {
  full_method: "helloworld.Greeter/SayHello",
  name: "SayHello",
  request_stream: false,
  request_type: "helloworld.HelloRequest",
  response_stream: false,
  response_type: "helloworld.HelloReply",
  rule_key: "helloworld.greeter.sayhello",
}), greeter);

seen = await get("/admin/schema/helloworld.HelloRequest");
check("schema: message", seen.json.kind === "message" && seen.json.fields?.[0]?.name === "name" && seen.json.fields[0].id === 1 && seen.json.fields[0].type === "string", seen);
const labels = seen.json.fields?.find((one) => one.name === "labels");
check("schema: map", labels?.map === true && labels.keyType === "string" && labels.type === "int32", seen);
check("schema: oneof", same(seen.json.oneofs?.way?.oneof, ["mail", "phone"]), seen);
seen = await get("/admin/schema/helloworld.Mood");
check("schema: enum", seen.json.kind === "enum" && seen.json.values?.HAPPY === 1, seen);
check("schema: unknown", (await get("/admin/schema/helloworld.Nothing")).status === 404);

seen = await get("/admin/protos");
check("protos", same(seen.json, { files: ["helloworld.proto"] }), seen);
seen = await get("/admin/proto/helloworld.proto");
check("proto", seen.json.filename === "helloworld.proto" && seen.json.content.includes("service Greeter"), seen);
check("proto: none", (await get("/admin/proto/nothing.proto")).status === 404);

seen = await get("/admin/rules/grpc");
check("rules", same(seen.json, { files: ["helloworld.greeter.sayhello.yaml"] }), seen);
const rule = "/admin/rule/grpc/helloworld.greeter.sayhello.yaml";
seen = await get(rule);
check("rule", seen.json.content.includes("Hello"), seen);
seen = await call("helloworld.Greeter/SayHello", { name: "Ada" });
check("call", seen.status === 200 && seen.json.message === "Hello Ada", seen);

seen = await ask("PUT", admin + rule, { content: "responses: [{body: {message: changed}}]" });
check("PUT rule", seen.status === 200 && seen.json.ok === true && seen.json.filename === "helloworld.greeter.sayhello.yaml" && seen.json.saved, seen);
seen = await call("helloworld.Greeter/SayHello", { name: "Ada" });
check("PUT rule holds", seen.json.message === "changed", seen);
seen = await ask("PUT", admin + rule, { content: "responses: [{body: " });
check("PUT of broken YAML is answered as there", seen.status === 200, seen);
seen = await call("helloworld.Greeter/SayHello", { name: "Ada" });
check("and the rules before it stay", seen.json.message === "changed", seen);

const proto = 'syntax = "proto3"; package more; service More { rpc Do(In) returns (In); } message In { string a = 1; }';
seen = await ask("POST", `${admin}/admin/upload/proto`, { filename: "more.proto", content: proto });
check("upload proto", seen.status === 200 && seen.json.ok === true && seen.json.saved, seen);
seen = await ask("POST", `${admin}/admin/upload/rule/grpc`, { filename: "more.more.do.yaml", content: "[{body: {a: uploaded}}]" });
check("upload rule", seen.status === 200 && seen.json.ok === true && seen.json.saved, seen);
seen = await call("more.More/Do", {});
check("uploads hold", seen.json.a === "uploaded", seen);
seen = await ask("POST", `${admin}/admin/upload/proto/path`, { path: "common/types.proto", content: 'syntax = "proto3"; package common; message T {}' });
check("upload proto into a folder", seen.status === 200 && seen.json.ok === true, seen);
seen = await ask("PUT", `${admin}/admin/proto/more.proto`, { content: proto.replace("In { string a = 1; }", "In { string a = 1; string b = 2; }") });
check("PUT proto", seen.status === 200 && seen.json.filename === "more.proto", seen);
seen = await get("/admin/schema/more.In");
check("PUT proto holds", seen.json.fields?.length === 2, seen);

for (const name of ["..%2f..%2fetc%2fpasswd", "..%2fhelloworld.proto", "%2fetc%2fpasswd", "%2e%2e%2fa.proto"]) {
  for (const at of ["/admin/proto/", "/admin/rule/grpc/"]) {
    seen = await get(at + name);
    check(`GET ${at}${name} is refused`, seen.status >= 400 && seen.status < 500, seen);
    seen = await ask("PUT", admin + at + name, { content: "[]" });
    check(`PUT ${at}${name} is refused`, seen.status >= 400 && seen.status < 500, seen);
  }
}
for (const path of ["../a.proto", "/tmp/a.proto", "a/../../b.proto", "a.txt"]) {
  seen = await ask("POST", `${admin}/admin/upload/proto/path`, { path, content: proto });
  check(`upload to ${path} is refused`, seen.status >= 400 && seen.status < 500, seen);
}
seen = await ask("POST", `${admin}/admin/upload/proto`, { filename: "a.proto" });
check("an upload without content", seen.status === 400 && typeof seen.json.error === "string", seen);
seen = await ask("POST", `${admin}/admin/upload/proto`, "{");
check("an upload that is not JSON", seen.status === 400, seen);
const foreign = await fetch(`${admin}/admin/upload/proto`, { method: "POST", headers: { "content-type": "text/plain" }, body: "{}" });
check("a form of any page is refused", foreign.status === 415, foreign.status);

console.log(failed === 0 ? "all seen" : `${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
