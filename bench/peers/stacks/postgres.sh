#!/bin/sh
# A PostgreSQL of its own in the folder $1, on a Unix socket, with $2 contacts. Prints its URL when they
# are there, and ends with all of it when it is asked to.
set -eu
folder=$1/database rows=$2
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
[ -n "$bin" ] || { echo "PostgreSQL is not installed" >&2; exit 1; }
mkdir "$folder"
as=
if [ "$(id -u)" = 0 ]; then
  # It does not run as root.
  chmod 755 "$1" && chown postgres "$folder"
  as="setpriv --reuid postgres --regid postgres --clear-groups --"
fi
cd /
$as "$bin/initdb" --auth trust --username postgres --encoding UTF8 --no-sync -D "$folder/data" >/dev/null
$as "$bin/postgres" -D "$folder/data" -k "$folder" -h '' -c max_connections=400 >/dev/null 2>&1 &
server=$!
trap 'kill -INT $server 2>/dev/null; wait $server; exit 0' TERM INT
until "$bin/pg_isready" -q -h "$folder" -U postgres; do kill -0 $server; sleep 0.1; done
$as "$bin/psql" -q -h "$folder" -U postgres >/dev/null <<SQL
CREATE SEQUENCE contact_id_seq AS integer;
CREATE TABLE contact (
  id integer DEFAULT nextval('contact_id_seq') PRIMARY KEY, firstname varchar, surname varchar);
ALTER SEQUENCE contact_id_seq OWNED BY contact.id;
INSERT INTO contact (firstname, surname) SELECT 'First ' || n, 'Last ' || n FROM generate_series(1, $rows) AS n;
VACUUM ANALYZE contact;
CHECKPOINT;
SQL
echo "postgres:///postgres?host=$(echo "$folder" | sed 's|/|%2F|g')&user=postgres"
wait $server
