#!/usr/bin/env bash
# Makes TypeScript of the .proto files that the tests use, with the tools that users have.
set -euo pipefail
cd "$(dirname "$0")"
rm -rf .protos gen
mkdir .protos
cp -r ../../../crates/proto/proto/{google,buf,tidewire} ../../../tests/proto/tidewire server/proto/notes ../../../examples/contacts/proto/contacts .protos/
../node_modules/.bin/buf generate .protos
