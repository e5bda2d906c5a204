#!/usr/bin/env bash
# Measures the bars of `memo` and writes bench-runs/memo/{memo-bars,memo-summary}.md, from which
# `cargo xtask tables` fills documents.
#
#   scripts/memo-bars.sh run FILE ROUNDS PART...   appends raw rows to FILE; see benches/bars.rs for parts
#   scripts/memo-bars.sh write FILE...             writes the tables of all rows in FILE...
#
# BARS names a program that was built before; else `cargo bench` builds it.
set -euo pipefail
cd "$(dirname "$0")/.."

run() {
  local file=$1 rounds=$2 bars=${BARS:-}
  shift 2
  if [[ -z $bars ]]; then
    bars=$(cargo bench --package tidewire-memo --bench bars --no-run --message-format=json |
      sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
  fi
  for _ in $(seq "$rounds"); do
    # A process of its own for each part: `memory` wants that, and heaps do not carry over.
    for part in "$@"; do
      taskset -c 0,1 "$bars" "$part" | grep -v -e '---' -e '^| what' >>"$file"
    done
  done
}

# One row for each measurement: the median of the medians, the least minimum, the greatest maximum.
merge() {
  awk -F' *\\| *' '
    { key = $2 "|" $6 }
    !(key in count) { order[++rows] = key; name[key] = $2; unit[key] = $6 }
    {
      gsub(/\*/, "", $3)
      n = ++count[key]; value[key, n] = $3 + 0; digits[key] = ($3 ~ /\.[0-9][0-9]/) ? 2 : 1
      low = ($4 == "") ? $3 + 0 : $4 + 0; high = ($5 == "") ? $3 + 0 : $5 + 0
      if (n == 1 || low < least[key]) least[key] = low
      if (n == 1 || high > most[key]) most[key] = high
    }
    END {
      print "| what | median | min | max | unit |\n|---|---|---|---|---|"
      for (r = 1; r <= rows; r++) {
        key = order[r]; n = count[key]
        for (i = 2; i <= n; i++) for (j = i; j > 1 && value[key, j] < value[key, j - 1]; j--) {
          t = value[key, j]; value[key, j] = value[key, j - 1]; value[key, j - 1] = t
        }
        middle = value[key, int((n + 1) / 2)]; f = "%." digits[key] "f"
        printf "| %s | " f " | " f " | " f " | %s |\n", name[key], middle, least[key], most[key], unit[key]
      }
    }' "$@"
}

write() {
  merge "$@" >bench-runs/memo/memo-bars.md
  {
    sed -n 1,2p bench-runs/memo/memo-bars.md
    grep -F -e '| floor (random key only), 1' -e '| hit, owned handle, 1' -e '| hit, borrow, 1' -e '/ tidewire-memo, 1' \
      -e '| miss, fresh key |' -e '| cut-off read: suspect' -e '| changed, 1,000,000' \
      -e '| the same again' -e '| reads at 10000 ' -e '| stale reads' -e '| entry, beyond' \
      bench-runs/memo/memo-bars.md
  } >bench-runs/memo/memo-summary.md
}

case ${1:-} in
  run | write) "$@" ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
