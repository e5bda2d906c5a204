#!/bin/sh
# Starts nginx on port $1 with its files in folder $2.
set -eu
sed -e "s/PORT/$1/" -e "s#FOLDER#$2#" "$(dirname "$0")/nginx.conf" > "$2/nginx.conf"
exec "$(dirname "$0")/../target/nginx" -e stderr -p "$2" -c "$2/nginx.conf"
