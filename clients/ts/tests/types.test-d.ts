// What must compile, and what must not. `tsc` reads it; nothing runs it.
import { createClient, type Transport } from "@connectrpc/connect";
import { createLiveTransport, isOutcomeUnknown } from "@tidewire/live";
import { createLiveClient } from "@tidewire/live/replica";
import { skipToken, useMutation, useQuery, useSuspenseQueries, useSuspenseQuery } from "@tidewire/react";
import { liveQueryOptions } from "@tidewire/tanstack-query";
import { BehaviourService, type LookReply } from "./gen/tidewire/test/v1/behaviour_pb.js";

const { look, echo, count } = BehaviourService.method;
const transport: Transport = createLiveTransport({ baseUrl: "/" });
createClient(BehaviourService, transport);
const client = createLiveClient(transport);
const query = client.query(look, { key: "a" });
const reply: Promise<LookReply> = query.fetch();
// @ts-expect-error the field is a string
client.query(look, { key: 1 });
// @ts-expect-error no such field
client.query(look, { name: "a" });
// @ts-expect-error a stream is not a query
client.query(count, { n: 1 });
const length = client.computed((get) => get(query).value.length).getSnapshot().data;
const both = client.computed((get) => {
  const [one, other] = get.all([query, query]);
  return one.value + other.value;
});
const width: number | undefined = length;
// @ts-expect-error it is a number
const wrong: string | undefined = length;

export function Component(): string {
  const { data } = useQuery(look, { key: "a" });
  // @ts-expect-error it may be pending
  data.value;
  const part: { data?: number } = useQuery(look, skipToken, { select: ({ value }) => value.length });
  const { data: there } = useSuspenseQuery(look, { key: "a" });
  const [first] = useSuspenseQueries([query]);
  const { mutate, outcomeUnknown } = useMutation(echo);
  // @ts-expect-error the field is a string
  mutate({ text: 1 });
  return `${part.data} ${there.value} ${first.value} ${outcomeUnknown}`;
}

export const options = liveQueryOptions(look, { key: "a" }, { transport: createLiveTransport({ baseUrl: "/" }) });
export const all: unknown[] = [reply, width, both, wrong, isOutcomeUnknown(new Error())];
