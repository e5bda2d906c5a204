#!/usr/bin/env bash
# Writes hello/ anew from ../../overhead/proto; the result is committed. Needs protoc, go and its plugins:
# protoc-gen-go 1.36.12, protoc-gen-go-grpc 1.6.2, protoc-gen-connect-go 1.21.1.
set -euo pipefail
cd "$(dirname "$0")"
rm -rf hello
map=Mhello.proto=protocols/hello
${PROTOC:-protoc} --proto_path=../../overhead/proto \
  --go_out=. --go_opt=module=protocols,$map --go-grpc_out=. --go-grpc_opt=module=protocols,$map \
  --connect-go_out=. --connect-go_opt=module=protocols,$map hello.proto
