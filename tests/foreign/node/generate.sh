#!/usr/bin/env bash
# Writes gen/ anew from ../../proto. Needed only after a change of a .proto; the result is committed,
# so that neither CI nor a test run needs protoc. Needs protoc (Debian: protobuf-compiler) and npm.
set -euo pipefail
cd "$(dirname "$0")"
plugin=$(mktemp -d)
trap 'rm -rf "$plugin"' EXIT
npm install --silent --no-save --prefix "$plugin" @bufbuild/protoc-gen-es@2.17.0
rm -rf gen && mkdir gen
protoc --plugin="$plugin/node_modules/.bin/protoc-gen-es" --proto_path=../../proto \
  --es_out=gen --es_opt=target=js,import_extension=js \
  tidewire/test/v1/behaviour.proto
