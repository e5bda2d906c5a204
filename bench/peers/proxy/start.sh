#!/bin/sh
# start.sh FILE PORT FOLDER ORIGIN COMMAND...: puts FILE, filled in, into FOLDER, and becomes COMMAND.
set -eu
file=$1 port=$2 folder=$3 origin=$4
shift 4
sed -e "s/PORT/$port/g" -e "s#FOLDER#$folder#g" -e "s/ORIGIN/$origin/g" "$(dirname "$0")/$file" > "$folder/$file"
exec "$@"
