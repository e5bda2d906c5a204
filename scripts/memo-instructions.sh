#!/usr/bin/env bash
# Counts the instructions of hits and misses of `memo` with callgrind: the difference of two runs that
# differ in the number of calls alone. Prints the table of bench-runs/memo/instructions.md.
#
# BARS names a program that was built before; else `cargo bench` builds it. Needs valgrind.
set -euo pipefail
cd "$(dirname "$0")/.."

bars=${BARS:-}
if [[ -z $bars ]]; then
  bars=$(cargo bench --package tidewire-memo --bench bars --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
fi

instructions() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bars" count "$1" "$2" 2>&1 |
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

echo '| what | instructions a call | without the random key |'
echo '|---|---|---|'
floor=
for kind in floor borrow copy owned miss; do
  # Misses of so many keys that the growth of tables is in it, evenly.
  few=16384
  many=65536
  each=$(awk -v a="$(instructions $kind $few)" -v b="$(instructions $kind $many)" -v n=$((many - few)) \
    'BEGIN { printf "%.1f", (b - a) / n }')
  floor=${floor:-$each}
  net=$each
  [[ $kind == miss ]] || net=$(awk -v a="$each" -v b="$floor" 'BEGIN { printf "%.1f", a - b }')
  echo "| $kind | $each | $net |"
done
