#!/usr/bin/env bash
# Measures the suites with `tidewire bench` and writes bench-runs/, from which documents are filled
# by `cargo xtask tables`. This file only starts the program: schedules, peers and reports are its.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ! -d crates/cli ]]; then
  echo "bench: there is no crates/cli yet, so there is nothing to measure with" >&2
  exit 1
fi
cargo run --release --package tidewire-cli -- bench "$@"
