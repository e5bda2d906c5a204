#!/usr/bin/env bash
# Builds the peers that this machine has the tools for; what is missing is named and left out.
set -euo pipefail
cd "$(dirname "$0")"
has() { command -v "$1" >/dev/null || { echo "peers: no $1, so what needs it is absent" >&2; return 1; }; }
if has cargo; then
  cargo build --release --package web --package overhead --package raw-epoll --package memo
  (cd ../.. && cargo build --release --package contacts --package tidewire-cli)
fi
if has go; then
  (cd web/go && go build -o ../../target/web-go .)
  (cd mock/go && go build -o ../../target/mock-go .)
  (cd stacks/go && go build -o ../../target/stacks-go .)
fi
if has npm; then
  (cd protocols && npm ci --silent --no-audit --no-fund)
  (cd stacks/node && npm ci --silent --no-audit --no-fund)
fi
for program in nginx psql redis-server; do has "$program" || true; done
