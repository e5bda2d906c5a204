// What is mocked in the tests, with texts that want to be more than text.
export const HOSTILE = [
  "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "__proto__", "a\u202Eb",
  "\u001b[31mred\u001b[0m", "\u0000nul", "\ud83d\ude00 \u0301\u0301", '"><svg onload=alert(1)>', "{{constructor.constructor('alert(1)')()}}",
];

export const PROTO = `syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "tidewire/v1/options.proto";
// What is in a cart, and what it costs.
service Cart {
  // The price of an item.
  rpc Price(PriceRequest) returns (PriceReply) { option idempotency_level = NO_SIDE_EFFECTS; }
  // A price again and again.
  rpc Watch(PriceRequest) returns (stream PriceReply);
  // Adds up what is sent.
  rpc Fill(stream PriceRequest) returns (PriceReply);
  rpc Talk(stream PriceRequest) returns (stream PriceReply);
}
enum Size { SIZE_UNSPECIFIED = 0; SMALL = 1; LARGE = 2; }
message Item { string sku = 1; Size size = 2; Item part = 3; }
message PriceRequest {
  // What is asked for: <img src=x onerror=alert(1)>
  Item item = 1;
  int32 quantity = 2;
  string card = 3 [debug_redact = true];
  int64 customer = 4;
  repeated string tags = 5;
  map<string, string> labels = 6;
  oneof way { string coupon = 7; bool member = 8; }
  google.protobuf.Timestamp at = 9;
  bytes blob = 10;
  optional double weight = 11;
}
message PriceReply { int64 price = 1; string note = 2; }
`;

/** A service with REST paths. */
export const STORE = `syntax = "proto3";
package store.v1;
import "google/api/annotations.proto";
service Store {
  rpc Find(FindRequest) returns (Thing) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/shelves/{shelf}/things/{thing.id}" additional_bindings { post: "/things:find" body: "*" } };
  }
  rpc List(FindRequest) returns (stream Thing) { option (google.api.http) = { get: "/shelves/{shelf}" }; }
}
message FindRequest { string shelf = 1; Thing thing = 2; int32 page_size = 3; repeated string tags = 4; }
message Thing { string id = 1; string note = 2; int64 weight = 3; }
`;

export const STORE_RULES = `responses:
  - when: {request.thing.id: gone}
    body: {}
    trailers: {grpc-status: 5, grpc-message: "no such thing <img src=x onerror=alert(1)>"}
  - body: {id: '{{request.thing.id}}', note: 'on {{request.shelf}}, {{request.page_size}} a page', weight: 9007199254740993}
`;

export const RULES = `responses:
  - name: bulk
    when: {request.quantity: {gte: 100}}
    body: {price: 4, note: bulk}
  - name: tea
    when: {request.item.sku: tea}
    body: {price: 5, note: "cheap </script><script>alert(1)</script>"}
  - name: none
    when: {request.item.sku: gone}
    body: {}
    trailers: {grpc-status: 5, grpc-message: "no such item <img src=x onerror=alert(1)>"}
  - body: {price: 9}
`;

export const FILES = {
  "protos/shop.proto": PROTO.replace('import "tidewire/v1/options.proto";\n', ""),
  "protos/store.proto": STORE,
  "rules/store.v1.store.find.yaml": STORE_RULES,
  "rules/store.v1.store.list.yaml": "responses:\n  - when: {request.shelf: broken}\n    stream_items: [{id: a}]\n    stream_delay_ms: 0\n    trailers: {grpc-status: 13, grpc-message: it broke}\n  - stream_items: [{id: a}, {id: b}]\n    stream_delay_ms: 0\n",
  "rules/shop.v1.cart.price.yaml": RULES,
  "rules/shop.v1.cart.watch.yaml": "responses:\n  - stream_items: [{price: 1}, {price: 2}, {price: 3}]\n    stream_delay_ms: 0\n",
};
