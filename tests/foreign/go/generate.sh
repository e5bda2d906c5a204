#!/usr/bin/env bash
# Writes gen/ anew from ../../proto. Needed only after a change of a .proto; the result is committed,
# so that neither CI nor a test run needs protoc. Needs protoc (Debian: protobuf-compiler) and go.
set -euo pipefail
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
GOBIN=$bin go install connectrpc.com/connect/cmd/protoc-gen-connect-go@v1.21.1
rm -rf gen && mkdir gen
PATH="$bin:$PATH" protoc --proto_path=../../proto \
  --go_out=. --go_opt=module=tidewire.test/foreign \
  --go-grpc_out=. --go-grpc_opt=module=tidewire.test/foreign \
  --connect-go_out=. --connect-go_opt=module=tidewire.test/foreign \
  tidewire/test/v1/behaviour.proto
