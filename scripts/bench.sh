#!/usr/bin/env bash
# Measures the suites of `tidewire bench` (all of them, or those that are named) beside the peers that the
# machine has tools for, and writes bench-runs/DATE-machine, from which documents are filled by
# `cargo xtask tables`. This file only starts the program: schedules, peers and reports are its, but for
# wanted.md (what was wanted of the run, and what was found), which bench/wanted.py writes.
set -euo pipefail
cd "$(dirname "$0")/.."
suites=("$@")
((${#suites[@]})) || suites=(web protocols mock rpc memo hosting stacks)
cargo build --release --package tidewire-cli
bash bench/peers/setup.sh
out=bench-runs/$(date +%F)-$(nproc)-core
for suite in "${suites[@]}"; do
  target/release/tidewire bench suite "$suite" --out "$out"
done
python3 bench/wanted.py "$out"
target/release/tidewire bench index bench-runs
