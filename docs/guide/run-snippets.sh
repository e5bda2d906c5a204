#!/usr/bin/env bash
# Runs what the documents tell a reader to type, and compares what they say it prints.
#
#   docs/guide/run-snippets.sh              README.md and every guide page that has commands
#   docs/guide/run-snippets.sh PAGE...      these pages
#
# | block               | what is done                                                            |
# |---------------------|-------------------------------------------------------------------------|
# | ```sh               | run, in one shell a page, so that `cd` and variables last               |
# | ```sh server        | started; the page goes on once port 8080 answers, and it ends with it,  |
# |                     | or with the next one                                                    |
# | ```output           | what the ```sh block before it prints, to the letter                    |
# | ```LANGUAGE PATH    | written to PATH                                                         |
# | any other           | left alone                                                              |
#
# A page runs in an empty folder beside `tidewire`, a link to the repository. Port 8080 stands for a
# free one here. Builds are of the dev profile and share target/ and Cargo.lock. Programs of the
# repository are those that `cargo xtask ci test` has built: a package alone has other features, and
# most crates would be built once more. AS_WRITTEN=1 builds them as the page says (`make proof` does
# so for README.md). Two pages run at a time: one waits for a server while another builds. Needs
# curl, node, npm and, from `make setup`, .tools/bin/grpcurl; other-languages.md also needs Go and
# Python with venv; mock-tests.md these and Maven.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in curl node npm; do
  command -v "$tool" >/dev/null || { echo "snippets: $tool is missing; see CONTRIBUTING.md" >&2; exit 1; }
done
[[ -x $repository/.tools/bin/grpcurl ]] || { echo "snippets: grpcurl is missing; run make setup" >&2; exit 1; }
export PATH="$repository/.tools/bin:$PATH"
# What `make setup` has fetched for Maven; what is installed there is nobody else's.
export MAVEN_OPTS="-Dmaven.repo.local=$repository/.tools/m2 -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# As in the workspace's Cargo.toml, so that what was built there is not built again.
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-line-tables-only}

# What a page's script starts with.
prelude=$work/prelude.sh
cat >"$prelude" <<'PRELUDE'
set -euo pipefail
server=
running=
end() {
  if [[ -n $running ]]; then
    # Where a command fails, standard error still is its file.
    cat "$work/out" "$work/err" >&9
    printf '%s:%s: the command failed\n' "$page" "$running" >&9
  fi
  stop
}
stop() {
  if [[ -n $server ]]; then
    kill -TERM -- "-$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
  fi
}
exec 9>&2
trap end EXIT
fail() { printf '%s:%s: %s\n' "$page" "$1" "$2" >&2; exit 1; }
printed() { # LINE: compares what the block before printed with standard input
  cat >"$work/expected"
  diff -u --label "$page says" --label "it prints" "$work/expected" <(sed -e '$a\' "$work/out") >&2 ||
    fail "$1" "the command above prints something else"
}
until_it_answers() { # LINE
  local started=$SECONDS
  until curl -s -o /dev/null "http://127.0.0.1:$port/"; do
    kill -0 "$server" 2>/dev/null || { cat "$work/server" >&2; fail "$1" "the server ended"; }
    # A bound on a hang; the wait includes the build.
    ((SECONDS - started < 900)) || { cat "$work/server" >&2; fail "$1" "no answer in 15 minutes"; }
    sleep 0.2
  done
}
PRELUDE

# Markdown to a shell script. A block's text is taken as it is.
script() {
  awk -v q="'" '
    function open_block(words) {
      if (language == "sh" && words == "server") {
        kind = "server"; print "stop; set -m; {"
      } else if (language == "sh" && words == "") {
        kind = "run"; print "running=" NR "; {"
      } else if (language == "output") {
        kind = "output"; print "printed " NR " <<" q "END-OF-BLOCK" q
      } else if (language != "" && words != "") {
        kind = "file"; print "mkdir -p \"$(dirname " words ")\"; cat >" words " <<" q "END-OF-BLOCK" q
        if (words == "Cargo.toml") { lock = 1 }
      } else { kind = "none" }
      line = NR
    }
    function close_block() {
      if (kind == "server") { print "} >\"$work/server\" 2>&1 & server=$!; set +m; until_it_answers " line }
      if (kind == "run") { print "} >\"$work/out\" 2>\"$work/err\"; running=" }
      if (kind == "output" || kind == "file") { print "END-OF-BLOCK" }
      if (lock) { print "cp \"$repository/Cargo.lock\" ."; lock = 0 }
    }
    /^```/ {
      if (inside) { close_block(); inside = 0 }
      else {
        inside = 1; language = substr($1, 4); words = $0; sub(/^```[^ ]* ?/, "", words); open_block(words)
      }
      next
    }
    inside && kind != "none" { print }
  ' "$1"
}

# Out of those that the system gives to nobody.
free_port() {
  node -e 'const look = () => {
    const port = 11000 + Math.floor(Math.random() * 9000)
    const server = require("net").createServer().on("error", look)
    server.listen(port, "127.0.0.1", () => { console.log(port); server.close() })
  }
  look()'
}

# `make demo` has a profile of its own; to see that its words are right a dev build will do.
cargo_dev=$work/cargo-dev
printf '#!/bin/sh\nfor word; do shift; [ "$word" = demo ] && word=dev; set -- "$@" "$word"; done\nexec cargo "$@"\n' >"$cargo_dev"
chmod +x "$cargo_dev"

mkdir "$work/bin"
cat >"$work/bin/cargo" <<'WRAPPER'
#!/usr/bin/env bash
real=$(type -ap cargo | sed -n 2p)
# Cargo tells crates apart by the path of their manifest as it is written: by the link, each page
# would build all of Tidewire anew.
words=("$@")
for at in "${!words[@]}"; do
  words[at]=${words[at]/#..\/tidewire\//$repository/}
  words[at]=${words[at]/#tidewire\/Cargo.toml/$repository/Cargo.toml}
done
set -- "${words[@]}"
if [[ -f Cargo.toml && -e ../tidewire/crates ]]; then
  sed -i "s#\"\.\./tidewire/crates/#\"$repository/crates/#" Cargo.toml
fi
case " $* " in
  *" --package tidewire-cli --package shop-in-rust "*) bins=(--bin tidewire --bin shop-in-rust) ;;
  *" build "*" --package tidewire-cli ") bins=(--bin tidewire) ;;
  *" --package contacts --package replica "*) bins=(--bin contacts --bin relay --bin reader) ;;
  *" run -q -p contacts -- "*) bins=(--bin contacts) ;;
  *" run "*" --package hello ") bins=(--bin hello) ;;
  *" run "*" --package contacts --no-default-features ") bins=(--bin contacts) ;;
  *) exec "$real" "$@" ;;
esac
[[ -z ${AS_WRITTEN:-} ]] || exec "$real" "$@"
cd "$repository" && "$real" build --quiet --workspace "${bins[@]}" --example gateway || exit
case " $* " in
  *" run "*" --package hello ") exec "$repository/target/debug/hello" ;;
  *" run "*" --package contacts "*) exec "$repository/target/debug/contacts" ;;
  " run "*) shift 5; exec "$repository/target/debug/contacts" "$@" ;;
esac
WRAPPER
chmod +x "$work/bin/cargo"

run_page() { # PAGE FOLDER: runs a page in FOLDER/page
  local page=$1 bin=$work/bin work=$2 folder=$2/page port
  mkdir -p "$folder"
  ln -s "$repository" "$folder/tidewire"
  port=$(free_port)
  {
    printf 'page=%q work=%q repository=%q port=%q\n' "$page" "$work" "$repository" "$port"
    cat "$prelude"
    printf 'cd %q\n' "$folder"
    script "$repository/$page" | sed "s/127\.0\.0\.1:8080/127.0.0.1:$port/g"
  } >"$work/script"
  TIDEWIRE_SERVER_LISTEN=127.0.0.1:$port CARGO="$cargo_dev" CARGO_TARGET_DIR="$repository/target" \
    CONTACTS=1000 CONTACTS_DB="$work/contacts.sqlite" repository="$repository" \
    PATH="$bin:$PATH" bash "$work/script"
}

cd "$repository"
pages=("$@")
if ((${#pages[@]} == 0)); then
  mapfile -t pages < <(grep -lE '^```sh( server)?$' README.md docs/guide/*.md)
fi
# check PAGE: runs it, and prints what it printed once it has ended.
check() {
  local page=$1 folder started=$SECONDS verdict=ok
  folder=$(mktemp -d "$work/XXXXXX")
  (run_page "$page" "$folder") >"$folder/log" 2>&1 || verdict=FAILED
  {
    flock 8
    cat "$folder/log"
    echo "$verdict $page ($((SECONDS - started)) s)"
    [[ $verdict == ok ]] || echo "$page" >>"$work/failed"
  } 8>"$work/lock"
  rm -rf "$folder"
}

running=0
for page in "${pages[@]}"; do
  if ((running == 2)); then
    wait -n
    running=$((running - 1))
  fi
  check "$page" &
  running=$((running + 1))
done
wait
failed=$([[ ! -e $work/failed ]] || wc -l <"$work/failed")
printf '%s passed, %s failed\n' $((${#pages[@]} - ${failed:=0})) "$failed"
((failed == 0))
