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

# Keys are hashed with a random seed, and some keys of some seeds are found the long way: five processes.
echo '| what | median | min | max | unit |'
echo '|---|---|---|---|---|'
empty=$(instructions floor 1)
for kind in floor borrow copy owned await miss 'miss and close' cut-off; do
  calls=400000
  before=$empty
  if [[ $kind == miss* ]]; then
    # The growth of tables is in it.
    before=$(instructions "$kind" 1)
    calls=60000
  elif [[ $kind == cut-off ]]; then
    # Less what it takes to make so many suspect values.
    calls=60000
    before=$(instructions suspect $calls)
  fi
  for _ in 1 2 3 4 5; do
    awk -v a="$before" -v b="$(instructions "$kind" $calls)" -v n=$calls 'BEGIN { printf "%.1f\n", (b - a) / n }'
  done | sort -g | awk -v kind="$kind" '{ each[NR] = $1 }
    END { printf "| %s | %s | %s | %s | instructions, random key included |\n", kind, each[3], each[1], each[NR] }'
done
