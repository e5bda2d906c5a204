#!/usr/bin/env bash
# Requests made up from /openapi.json against the reference application: none may end in a 500, in a
# content type or a body that the document does not have, or in anything but 405 for another verb.
#
#   scripts/schemathesis.sh [SEED]
#
# The seed is the same unless another is given, so that a run can be repeated; one worker, since two
# threads in Python 3.11's parser at once end in "AST constructor recursion depth mismatch".
# First it is shown that a 500 fails the run, against a server that gives nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
st=$PWD/.tools/schemathesis/bin/st
[[ -x $st ]] || { echo "schemathesis: $st is missing; run make setup" >&2; exit 1; }
seed=${1:-7}
work=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

# start COMMAND...: starts a server that prints `listening on ADDRESS`, and sets address.
start() {
  local out=$work/out.${#servers[@]} server
  "$@" >"$out" 2>"$work/err" &
  server=$!
  servers+=("$server")
  until address=$(sed -n 's/^listening on //p' "$out") && [[ -n $address ]]; do
    kill -0 "$server" 2>/dev/null || { cat "$out" "$work/err" >&2; exit 1; }
    sleep 0.1
  done
}
check() {
  (cd "$work" && "$st" run "http://$address/openapi.json" --no-color --seed "$seed" "$@" \
    --checks not_a_server_error,content_type_conformance,response_schema_conformance,unsupported_method)
}

cat >"$work/broken.py" <<'PYTHON'
import http.server, json

DOCUMENT = {"openapi": "3.1.0", "info": {"title": "broken", "version": "1"}, "paths": {
    "/broken": {"get": {"responses": {"default": {"description": "always 500"}}}}}}

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(DOCUMENT).encode()
        self.send_response(200 if self.path == "/openapi.json" else 500)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("listening on 127.0.0.1:%d" % server.server_address[1], flush=True)
server.serve_forever()
PYTHON
start python3 "$work/broken.py"
if check --max-examples 5 --phases fuzzing >"$work/broken.log" 2>&1; then
  cat "$work/broken.log" >&2
  echo "schemathesis: a server that answers 500 passed; the check finds nothing" >&2
  exit 1
fi
grep -q 'Server error' "$work/broken.log" || { cat "$work/broken.log" >&2; exit 1; }

# One that the other's relay asks: without it each relayed call would rightly be a 503.
contacts() {
  start env CONTACTS=50 CONTACTS_DB="$work/$1.sqlite" TIDEWIRE_SERVER_LISTEN=127.0.0.1:0 \
    Relay_KeyValueServiceHostname=127.0.0.1 Relay_KeyValueServicePort="$2" \
    "${CARGO_TARGET_DIR:-target}/debug/contacts"
}
contacts store 1
contacts tested "${address##*:}"
if ! check --workers 1 --max-examples 30 --warnings off | tee "$work/log"; then
  cat "$work/err" >&2
  echo "schemathesis: repeat with: scripts/schemathesis.sh $seed" >&2
  exit 1
fi
# A run that made up next to nothing shows nothing.
cases=$(sed -n 's/^ *\([0-9]*\) generated, .*/\1/p' "$work/log")
((${cases:-0} >= 300)) || { echo "schemathesis: only ${cases:-0} requests were made up" >&2; exit 1; }
