// What reading costs that is there already: node hits.mjs. Nanoseconds each.
import { create } from "@bufbuild/protobuf";
import { createRouterTransport } from "@connectrpc/connect";
import { createConnectQueryKey } from "@connectrpc/connect-query-core";
import { createLiveClient } from "@tidewire/live/replica";
import { QueryClient } from "@tanstack/query-core";
import { BehaviourService, LookRequestSchema } from "../tests/gen/tidewire/test/v1/behaviour_pb.js";

const { look } = BehaviourService.method;
const transport = createRouterTransport(({ service }) => service(BehaviourService, { look: () => ({ value: "1" }) }));
const client = createLiveClient(transport);
const input = create(LookRequestSchema, { key: "hello" });
const query = client.query(look, input);
query.subscribe(() => {});
await query.fetch().catch(() => {});
const queryClient = new QueryClient();
const key = () => createConnectQueryKey({ schema: look, input: { key: "hello" }, transport, cardinality: "finite" });
queryClient.setQueryData(key(), { value: "1" });

function time(one) {
  const COUNT = 200_000;
  const run = () => {
    const began = process.hrtime.bigint();
    for (let index = 0; index < COUNT; index++) one();
    return Number(process.hrtime.bigint() - began) / COUNT;
  };
  run();
  return [run(), run(), run(), run(), run()].sort((a, b) => a - b)[2];
}
console.log(JSON.stringify({
  handle: time(() => query.getSnapshot()),
  object: time(() => client.query(look, input).getSnapshot()),
  input: time(() => client.query(look, { key: "hello" }).getSnapshot()),
  "connect-query": time(() => queryClient.getQueryData(key())),
}));
process.exit();
