#!/usr/bin/env bash
# Writes rpcv1/ anew from ../proto; the result is committed. Needs protoc, go and its plugins:
# protoc-gen-go 1.36.12, protoc-gen-go-grpc 1.6.2, protoc-gen-connect-go 1.21.1.
set -euo pipefail
cd "$(dirname "$0")"
rm -rf rpcv1
map=Mrpc.proto=rpc/rpcv1
${PROTOC:-protoc} --proto_path=../proto \
  --go_out=. --go_opt=module=rpc,$map --go-grpc_out=. --go-grpc_opt=module=rpc,$map \
  --connect-go_out=. --connect-go_opt=module=rpc,$map rpc.proto
