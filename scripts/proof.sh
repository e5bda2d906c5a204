#!/usr/bin/env bash
# The proofs that take longer than a test run may: see `make help`. Each part prints its name; the
# first that fails ends the run.
#
#   scripts/proof.sh          all parts
#   scripts/proof.sh PART...  only these: deny, readme, attack, h2spec, interop, kept, mock, stress, oplog,
#                             programs, mutants, models, dynamic, live, runtimes, fuzz, miri
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO_DENY=0.20.2
H2SPEC=github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
INTEROP=google.golang.org/grpc/interop/client@v1.82.0
INTEROP_CASES=(empty_unary large_unary client_streaming server_streaming ping_pong empty_stream
  timeout_on_sleeping_server cancel_after_begin cancel_after_first_response custom_metadata
  special_status_message status_code_and_message unimplemented_method unimplemented_service)
# Miri needs a nightly, pinned by date, with the components miri and rust-src.
NIGHTLY=nightly-2026-11-01

tools="$PWD/.tools"
parts=("$@")
((${#parts[@]})) || parts=(deny readme attack h2spec interop kept mock stress oplog programs mutants models dynamic live runtimes fuzz miri)

# Licences, bans and sources. Advisories need a copy of their database, which not every machine can
# fetch: they are checked where it can be.
part_deny() {
  local deny=$tools/bin/cargo-deny
  if [[ "$("$deny" --version 2>/dev/null)" != "cargo-deny $CARGO_DENY" ]]; then
    # Seven minutes on two cores, which is why `make test` leaves it out.
    cargo install cargo-deny --version "$CARGO_DENY" --locked --quiet --root "$tools" --target-dir .cache/cargo-deny
  fi
  "$deny" check --hide-inclusion-graph licenses bans sources
  if ! "$deny" fetch db 2>/dev/null; then
    echo "proof: the advisory database cannot be fetched from here; advisories are not checked" >&2
  else
    "$deny" check --hide-inclusion-graph advisories
  fi
}

# README.md, with each program built as it says: a package alone has fewer features than in a test run.
part_readme() {
  AS_WRITTEN=1 docs/guide/run-snippets.sh README.md
}

# Attacks over sockets on the program `tidewire`; the table is committed as bench-runs/attack.md. Rows
# with thousands of connections take as many as the descriptors allow.
part_attack() {
  cargo build --release --package tidewire-cli
  cargo build --release --package tidewire-tests --bin attack
  (ulimit -n "$(ulimit -Hn)" && target/release/attack target/release/tidewire)
}

# The suite of HTTP/2, of which 144 of 145 cases pass: on a port that speaks HTTP/1.1 too, what is no
# preface is answered as HTTP/1.1.
part_h2spec() {
  local tool=$tools/bin/h2spec log failed
  [[ -x $tool ]] || GOBIN="$tools/bin" go install "$H2SPEC"
  cargo build --release --package tidewire-cli
  log=$(mktemp)
  target/release/tidewire serve tests/proto --listen 127.0.0.1:50999 >/dev/null &
  local server=$!
  trap 'kill $server 2>/dev/null || true' RETURN
  until (exec 3<>/dev/tcp/127.0.0.1/50999) 2>/dev/null; do kill -0 "$server" && sleep 0.1; done
  "$tool" --host 127.0.0.1 --port 50999 --path /tidewire.test.v1.BehaviourService/Look | tee "$log" | tail -3
  failed=$(sed -n 's/.* \([0-9]*\) failed$/\1/p' "$log" | tail -1)
  ((failed <= 1))
}

# gRPC's own interop client, in Go, against a service of ours: the cases that need no server of Google.
part_interop() {
  local tool=$tools/bin/interop/client server address case
  [[ -x $tool ]] || GOBIN="$tools/bin/interop" go install "$INTEROP"
  cargo build --package tidewire-tests --bin interop
  coproc INTEROP_SERVER { exec target/debug/interop; }
  server=$INTEROP_SERVER_PID
  trap 'kill $server 2>/dev/null || true' RETURN
  read -r address <&"${INTEROP_SERVER[0]}"
  for case in "${INTEROP_CASES[@]}"; do
    "$tool" --server_host "${address%:*}" --server_port "${address##*:}" --test_case "$case"
    echo "interop: $case"
  done
  echo "interop: all ${#INTEROP_CASES[@]} cases pass"
}

# The Connect conformance suite with answers kept, which nobody shall notice.
part_kept() {
  cargo build --package tidewire-conformance
  "$tools/bin/connectconformance" --mode server -- target/debug/tidewire-conformance --memo
}

# A mock that plays the service of the conformance suite by rules, and the golden cases of wishmock.
part_mock() {
  cargo build --package tidewire-conformance
  "$tools/bin/connectconformance" --mode server -- target/debug/tidewire-conformance \
    --mock .tools/conformance-proto tests/fixtures/mock/conformance
  cargo test --package tidewire-tests --test it mock_
}

part_stress() {
  cargo run --release --package tidewire-memo --example stress -- --seconds 600 --seed "$(date +%s)"
}

# A hundred times the random programs of a test run, from a seed of the day, which is printed. They run
# in child processes, so a crash or a deadlock is a finding like any other.
part_programs() {
  MEMO_PROGRAMS=1000000 MEMO_SEED="$(date +%s)" \
    cargo test --package tidewire-memo --test it programs -- --nocapture
}

# Ten minutes of trying to read an old value from three hosts on one PostgreSQL; deliberate faults.
part_oplog() {
  cargo run --package tidewire-oplog --example oracle -- --seconds 600 --seed "$(date +%s)"
  scripts/oplog-mutants.py
}

# Deliberate faults, each of which has to be found by the proof that it names.
part_mutants() {
  MEMO_NIGHTLY=$NIGHTLY python3 scripts/memo-mutants.py
}

# The models of memo with ten times the schedules of a test run.
part_models() {
  MODEL_SCHEDULES=4000 RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle \
    cargo test --release --package tidewire-memo --test model
}

# Messages of a run-time schema agree with generated code on a million random ones.
part_dynamic() {
  DYNAMIC_MESSAGES=1000000 cargo test --release --package tidewire-build-fixture --test it dynamic -- --nocapture
}

# Two thousand schedules of the live protocol's virtual network, from a seed of the day; the seeds are printed.
part_live() {
  LIVE_SEED="$(date +%s)" LIVE_ROUNDS=2000 cargo test --release --package tidewire-live-proto --test it -- --nocapture all_properties_hold
}

# The browser client on Bun and Deno, which npm brings.
part_runtimes() {
  cargo build --package live-client-server
  npm --prefix clients/ts ci --no-audit --no-fund --silent
  npm --prefix clients/ts run --silent build
  npm --prefix clients/ts run --silent generate
  npm --prefix clients/ts/tests/runtimes ci --no-audit --no-fund --silent
  node clients/ts/tests/runtimes/run.mjs
}

# Ten minutes a fuzz target.
part_fuzz() {
  if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    cargo install cargo-fuzz --locked --quiet --root "$tools" --target-dir .cache/cargo-fuzz
    export PATH="$tools/bin:$PATH"
  fi
  sh fuzz/run.sh 600
}

part_miri() {
  if ! cargo "+$NIGHTLY" miri --version >/dev/null 2>&1; then
    echo "proof: missing: rustup toolchain install $NIGHTLY --component miri,rust-src" >&2
    return 1
  fi
  MIRIFLAGS=-Zmiri-many-seeds=0..8 CARGO_TARGET_DIR=target/miri cargo "+$NIGHTLY" miri test --package tidewire-memo --lib
  # The lock-free paths on several threads, under weak orders of memory. Pools keep what they have, so
  # memory that is left at the end says nothing.
  MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-many-seeds=0..8" CARGO_TARGET_DIR=target/miri \
    cargo "+$NIGHTLY" miri test --package tidewire-memo --test it weak_memory
}

for part in "${parts[@]}"; do
  if ! declare -F "part_$part" >/dev/null; then
    echo "proof: no part is called $part; there are deny, attack, h2spec, interop, kept, mock, stress, oplog, programs, mutants, models, dynamic, live, fuzz, miri" >&2
    exit 2
  fi
  started=$SECONDS
  echo "── proof: $part"
  "part_$part"
  echo "── proof: $part: $((SECONDS - started)) s"
done
