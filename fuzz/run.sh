#!/bin/sh
# Runs every fuzz target for SECONDS each (default 600). Needs cargo-fuzz and nightly.
set -eu
cd "$(dirname "$0")"
for target in live_metadata live_hello live_acceptor live_session_bytes live_session_frames \
    wire_head wire_request wire_reply wire_both_sides rest_request rest_reply; do
    cargo +nightly fuzz run --fuzz-dir . "$target" -- \
        -max_total_time="${1:-600}" -max_len=4096 -rss_limit_mb=1024 -print_final_stats=1
done
