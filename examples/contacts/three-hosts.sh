#!/usr/bin/env bash
# Three `contacts` on one PostgreSQL: what `psql` changes is new on each of them, and a write on one is
# read on the others with its token.
#
#   examples/contacts/three-hosts.sh            makes a database for itself (Debian: apt-get install postgresql)
#   DATABASE_URL=postgres://… examples/contacts/three-hosts.sh
#   examples/contacts/three-hosts.sh --page     shows in a browser what each answers, until Ctrl-C (needs nginx)
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

# What a person types; a password is not printed.
shown='"$DATABASE_URL"'
if [[ -z ${DATABASE_URL:-} ]]; then
  [[ $(id -u) = 0 ]] && chown postgres "$work"
  as_postgres "$bin/initdb" -A trust -U postgres -E UTF8 --locale=C -D "$work/data" >/dev/null
  as_postgres "$bin/pg_ctl" -s -w -D "$work/data" -l "$work/log" -o "-k $work -h ''" start
  export DATABASE_URL="postgres:///postgres?host=${work//\//%2F}&user=postgres"
  shown="'$DATABASE_URL'"
fi

program=${CONTACTS_PROGRAM:-}
if [[ -z $program ]]; then
  cargo build -q -p contacts
  program=${CARGO_TARGET_DIR:-target}/debug/contacts
fi
urls=()
for name in A B C; do
  : >"$work/$name"
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

if [[ ${1:-} = --page ]]; then
  nginx=$(PATH=$PATH:/usr/sbin:.tools/bin type -P nginx) ||
    { echo "nginx is not installed (Debian: apt-get install nginx-light)" >&2; exit 1; }
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  mkdir "$work/page" "$work/nginx"
  cp examples/contacts/web/three-hosts.html "$work/page"
  sed -e "s#\ba:8080#${urls[0]#http://}#; s#\bb:8080#${urls[1]#http://}#; s#\bc:8080#${urls[2]#http://}#" \
    -e "s#listen 80;#listen 127.0.0.1:$port;#; s#/usr/share/nginx/html#$work/page#" \
    examples/contacts/nginx.conf >"$work/nginx/default.conf"
  {
    [[ $(id -u) = 0 ]] && echo "user root;"
    echo "daemon off; pid $work/nginx/pid; error_log $work/nginx/error.log; events {} http { access_log off;"
    for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $work/nginx/$kind;"; done
    echo "include $work/nginx/default.conf; }"
  } >"$work/nginx/nginx.conf"
  "$nginx" -p "$work/nginx" -e "$work/nginx/error.log" -c "$work/nginx/nginx.conf" &
  pids+=($!)
  echo "open http://127.0.0.1:$port/three-hosts.html?id=$id and change the row past all of them:"
  echo "  psql $shown -c \"UPDATE contact SET surname = 'X' WHERE id = $id\""
  echo "Ctrl-C stops it."
  wait "${pids[-1]}"
  exit
fi

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
