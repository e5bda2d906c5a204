#!/usr/bin/env bash
# Three `contacts` on one PostgreSQL: what `psql` changes is new on each of them, and a write on one is
# read on the others with its token.
#
#   examples/contacts/three-hosts.sh            makes a database for itself (Debian: apt-get install postgresql)
#   DATABASE_URL=postgres://… examples/contacts/three-hosts.sh
#
# CONTACTS_PROGRAM names a program that is built already.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
pids=()
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
as_postgres() { if [[ $(id -u) = 0 ]]; then (cd / && setpriv --reuid postgres --regid postgres --clear-groups -- "$@"); else "$@"; fi; }
end() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  [[ -d $work/data ]] && as_postgres "$bin/pg_ctl" -s -D "$work/data" -m immediate stop >/dev/null 2>&1
  rm -rf "$work"
}
trap end EXIT

if [[ -z ${DATABASE_URL:-} ]]; then
  [[ $(id -u) = 0 ]] && chown postgres "$work"
  as_postgres "$bin/initdb" -A trust -U postgres -E UTF8 --locale=C -D "$work/data" >/dev/null
  as_postgres "$bin/pg_ctl" -s -w -D "$work/data" -l "$work/log" -o "-k $work -h ''" start
  export DATABASE_URL="postgres:///postgres?host=${work//\//%2F}&user=postgres"
fi

program=${CONTACTS_PROGRAM:-}
if [[ -z $program ]]; then
  cargo build -q -p contacts
  program=${CARGO_TARGET_DIR:-target}/debug/contacts
fi
urls=()
for name in A B C; do
  "$program" --listen 127.0.0.1:0 >"$work/$name" 2>"$work/$name.err" &
  pids+=($!)
  until grep -q '^listening on' "$work/$name"; do
    kill -0 "${pids[-1]}" 2>/dev/null || { cat "$work/$name.err" >&2; exit 1; }
    sleep 0.05
  done
  urls+=("http://$(sed -n 's/^listening on //p' "$work/$name" | head -1)")
done
grep '^change log' "$work/A"

# The surname that a host answers with; arguments go to curl.
surname() { curl -sS "$@" | sed 's/.*"surname":"\([^"]*\)".*/\1/'; }
id=$(curl -sS "${urls[0]}/contacts" --json '{"firstName":"Ada","surname":"Byron"}' | sed 's/.*"id":\([0-9]*\).*/\1/')

# Every host has the contact in memory now.
for url in "${urls[@]}"; do
  until [[ $(surname "$url/contacts/$id") = Byron ]]; do :; done
  curl -sS "$url/contacts/$id" >/dev/null
done

echo "psql: UPDATE contact SET surname = 'X' WHERE id = $id"
psql -X -q "$DATABASE_URL" -c "UPDATE contact SET surname = 'X' WHERE id = $id"
for index in 0 1 2; do
  begun=$(date +%s%N)
  until [[ $(surname "${urls[index]}/contacts/$id") = X ]]; do :; done
  echo "host $((index + 1)) answers X, $((($(date +%s%N) - begun) / 1000000)) ms after it was first asked"
done

for turn in 1 2 3 4 5; do
  token=$(curl -sS -D - -o /dev/null -X PATCH "${urls[0]}/contacts/$id" --json "{\"surname\":\"P$turn\"}" |
    tr -d '\r' | sed -n 's/^tidewire-token: //ip')
  for url in "${urls[@]}"; do
    seen=$(surname -H "tidewire-token: $token" "$url/contacts/$id")
    [[ $seen = P$turn ]] || { echo "$url answered $seen, not P$turn, with the token of the write" >&2; exit 1; }
  done
done
echo "five writes on host 1 were read on all three hosts with their tokens, at once"
