#!/usr/bin/env bash
# Installs what the tests need and the Rust toolchain does not bring: into .tools/bin the Go programs
# of tests/foreign/go, whose go.mod pins connectconformance and grpcurl too, the Node packages of
# tests/foreign/node, clients/ts and clients/mock/node, what clients/mock/java is built with in
# .tools/m2, a .NET SDK, schemathesis, CacheControl, grpcio, opentelemetry-proto and pytest in Python
# environments below .tools, and Debian's PostgreSQL, Chromium, nginx, sqlite3, Maven, zsh
# and fish.
# What is there already at the right version is left alone. `setup.sh grpcurl` and
# `setup.sh dotnet` install that alone.
#
# A missing tool is named in one plain line and the exit code is 1, so that CI cannot pass without it.
set -euo pipefail
cd "$(dirname "$0")/.."

CONNECTCONFORMANCE=connectrpc.com/conformance/cmd/connectconformance
PROTOVALIDATE=github.com/bufbuild/protovalidate@v1.2.2
GRPCURL=github.com/fullstorydev/grpcurl/cmd/grpcurl

tools="$PWD/.tools"
bin="$tools/bin"
stamps="$tools/stamps"
mkdir -p "$bin" "$stamps"

missing=0
say() { printf 'setup: %s\n' "$*"; }
missing() {
  printf 'setup: missing: %s\n' "$*" >&2
  missing=1
}

# run WHAT COMMAND...: runs quietly, and shows the output only when it fails.
run() {
  local what=$1 log started=$SECONDS
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    say "$what ($((SECONDS - started)) s)"
    rm -f "$log"
  else
    cat "$log" >&2
    rm -f "$log"
    missing "$what: the command above failed: $*"
    return 1
  fi
}

# fresh NAME KEY: is NAME's stamp KEY? A stamp is written only after its work succeeded.
fresh() { [[ -f $stamps/$1 && $(<"$stamps/$1") == "$2" ]]; }
stamp() { printf '%s\n' "$2" >"$stamps/$1"; }

# hash_of FILE...: one hash over names and contents.
hash_of() { sha256sum "$@" | sha256sum | cut -d' ' -f1; }

# go_tool PACKAGE: one of the `tool` lines of tests/foreign/go/go.mod. They are of that module, so
# that what they share with its programs (gRPC, protobuf) is compiled once.
go_tool() {
  local package=$1 folder=tests/foreign/go name key
  name=$(basename "$package")
  key="$(go env GOVERSION) $package $(hash_of "$folder/go.mod" "$folder/go.sum")"
  if [[ -x $bin/$name ]] && fresh "$name" "$key"; then return 0; fi
  run "built $name" go -C "$folder" build -ldflags=-s -o "$bin/$name" "$package" || return 0
  stamp "$name" "$key"
}

# The suite's .proto files, for the server under test in conformance/.
conformance_protos() {
  local module=${CONNECTCONFORMANCE%%/cmd/*} folder=$tools/conformance-proto source
  source=$(go -C tests/foreign/go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  if [[ -d $folder ]] && fresh conformance-proto "$source"; then return 0; fi
  run "copied the conformance suite's .proto files" copy_conformance_protos "$source" "$folder" || return 0
  stamp conformance-proto "$source"
}
copy_conformance_protos() {
  rm -rf "$2" && mkdir -p "$2" && cp -r "$1/proto/connectrpc" "$2/" && chmod -R u+w "$2"
}

# The messages that protovalidate publishes to test implementations, and its examples, as one
# descriptor set: some are of an edition, which only the Go program reads as text.
protovalidate_cases() {
  local set=$tools/protovalidate-cases.binpb
  if [[ -s $set ]] && fresh protovalidate-cases "$PROTOVALIDATE $(hash_of "$bin/foreign-validate")"; then return 0; fi
  run "compiled the cases of protovalidate" compile_protovalidate_cases "$set" || return 0
  stamp protovalidate-cases "$PROTOVALIDATE $(hash_of "$bin/foreign-validate")"
}
compile_protovalidate_cases() {
  local source folder=$tools/protovalidate-proto cases=buf/validate/conformance/cases
  source=$(go mod download -json "$PROTOVALIDATE" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  rm -rf "$folder" && mkdir -p "$folder/examples" "$folder/${cases%/*}"
  cp "$source/proto/protovalidate/buf/validate/validate.proto" "$folder/buf/validate/"
  cp -r "$source/proto/protovalidate-testing/$cases" "$folder/$cases"
  # One example needs a file of another module.
  cp $(grep -L google/type "$source"/examples/*.proto) "$folder/examples/"
  chmod -R u+w "$folder"
  "$bin/foreign-validate" compile "$folder" >"$1"
}

go_programs() {
  local folder=tests/foreign/go key files
  mapfile -t files < <(find "$folder" -type f \( -name '*.go' -o -name 'go.*' \) | LC_ALL=C sort)
  key="$(go env GOVERSION) $(hash_of "${files[@]}")"
  if [[ -x $bin/foreign-go-client && -x $bin/foreign-go-server && -x $bin/foreign-grpc-server && -x $bin/foreign-validate && -x $bin/foreign-http-cache ]] && fresh foreign-go "$key"; then return 0; fi
  run "built the Go programs of $folder" build_go_programs "$folder" || return 0
  stamp foreign-go "$key"
}
build_go_programs() {
  (cd "$1" && go build -o "$bin/foreign-go-client" ./client &&
    go build -o "$bin/foreign-go-server" ./server &&
    go build -o "$bin/foreign-grpc-server" ./grpcserver &&
    go build -o "$bin/foreign-validate" ./validate &&
    go build -o "$bin/foreign-http-cache" ./httpcache)
}

node_packages() {
  local folder=tests/foreign/node key
  key="$(node --version) $(hash_of "$folder/package.json" "$folder/package-lock.json")"
  if [[ -d $folder/node_modules ]] && fresh foreign-node "$key"; then return 0; fi
  run "installed the Node packages of $folder" npm --prefix "$folder" ci --no-audit --no-fund || return 0
  stamp foreign-node "$key"
}

# The packages of clients/ts: compiler, test libraries, and the Node that its tests run on.
typescript_packages() {
  local folder=clients/ts key
  key="$(npm --version) $(hash_of "$folder"/package.json "$folder"/package-lock.json "$folder"/packages/*/package.json "$folder"/tests/react18/package-lock.json examples/board/web/package-lock.json tests/console/package-lock.json)"
  if [[ -d $folder/node_modules ]] && fresh typescript "$key"; then return 0; fi
  run "installed the packages of $folder" npm --prefix "$folder" ci --no-audit --no-fund || return 0
  run "installed React 18" npm --prefix "$folder/tests/react18" ci --no-audit --no-fund || return 0
  run "installed the packages of examples/board" npm --prefix examples/board/web ci --no-audit --no-fund || return 0
  run "installed the packages of tests/console" npm --prefix tests/console ci --no-audit --no-fund || return 0
  stamp typescript "$key"
}

# What the tests of clients/mock/node convert messages with.
mock_node_packages() {
  local folder=clients/mock/node key
  key="$(node --version) $(hash_of "$folder/package.json" "$folder/package-lock.json")"
  if [[ -d $folder/node_modules ]] && fresh mock-node "$key"; then return 0; fi
  run "installed the Node packages of $folder" npm --prefix "$folder" ci --no-audit --no-fund || return 0
  stamp mock-node "$key"
}

# Maven's plugins, JUnit and protobuf-java: one test is run so that all of them are fetched.
mock_java_packages() {
  local folder=clients/mock/java key
  key=$(hash_of "$folder/pom.xml")
  if [[ -d $tools/m2 ]] && fresh mock-java "$key"; then return 0; fi
  run "fetched what $folder is built with" mvn --batch-mode --quiet --file "$folder" \
    "-Dmaven.repo.local=$tools/m2" clean install -Dtest=JsonTest || return 0
  stamp mock-java "$key"
}

# The modules of clients/mock/go/protobuf.
mock_go_modules() {
  local folder=clients/mock/go/protobuf key
  key="$(go env GOVERSION) $(hash_of "$folder/go.mod" "$folder/go.sum")"
  fresh mock-go "$key" && return 0
  run "fetched the modules of $folder" go -C "$folder" mod download || return 0
  stamp mock-go "$key"
}

# debian COMMAND PACKAGE: installs PACKAGE where COMMAND is absent and this is a Debian with root.
debian() {
  # Not `command -v`, which finds functions of this script too.
  type -P "$1" >/dev/null && return 0
  if command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
    run "installed the Debian package $2" apt_install "$2" || return 0
  else
    missing "$1: install it (Debian: apt-get install $2)"
  fi
}
apt_install() { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1"; }

# The browser, by any of its names; see tests/src/program.rs.
chromium() {
  local name
  for name in chromium-browser google-chrome; do type -P "$name" >/dev/null && return 0; done
  debian chromium chromium
}

# PostgreSQL as the Debian release has it. The tests make clusters of their own, so none is made here.
postgresql() {
  compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && return 0
  if command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
    local configuration=/etc/postgresql-common/createcluster.conf
    mkdir -p "$(dirname "$configuration")"
    [[ -e $configuration ]] || echo 'create_main_cluster = false' >"$configuration"
    run "installed the Debian package postgresql" apt_install postgresql || return 0
  else
    missing "postgresql: install it (Debian: apt-get install postgresql)"
  fi
}

# nginx as Debian builds it, without installing it: nothing is started, and no root is needed.
nginx_program() {
  [[ -x $bin/nginx ]] && return 0
  if type -P nginx >/dev/null; then
    ln -s "$(type -P nginx)" "$bin/nginx"
  elif command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
    run "unpacked Debian's nginx" unpack_nginx || return 0
  else
    missing "nginx: install it (Debian: apt-get install nginx)"
  fi
}
unpack_nginx() {
  local folder
  folder=$(mktemp -d)
  if [[ $(id -u) == 0 ]]; then apt-get update -qq; fi
  (cd "$folder" && apt-get download -qq nginx && dpkg -x nginx_*.deb . && usr/sbin/nginx -v &&
    cp usr/sbin/nginx "$bin/nginx")
  local code=$?
  rm -rf "$folder"
  return $code
}

# python_packages NAME: an environment $tools/NAME with the packages that scripts/NAME.txt pins. All
# are installed by one pip, which tests use too: making a pip takes longer than most packages.
python_packages() {
  local name=$1 key
  if [[ ! -x $tools/pip/bin/pip ]]; then
    rm -rf "$tools/pip"
    run "made a pip for the Python packages" python3 -m venv "$tools/pip" || return 0
  fi
  key="$(python3 --version) $(hash_of "scripts/$name.txt")"
  if [[ -x $tools/$name/bin/python ]] && fresh "$name" "$key"; then return 0; fi
  run "installed the Python packages of scripts/$name.txt" install_python_packages "$name" || return 0
  stamp "$name" "$key"
}
install_python_packages() {
  local folder=$tools/$1
  rm -rf "$folder" && python3 -m venv --without-pip "$folder" &&
    "$tools/pip/bin/pip" --quiet --python "$folder/bin/python" install --no-compile --no-deps -r "scripts/$1.txt"
}

# The .NET SDK, for sdk/dotnet.
dotnet_sdk() {
  if [[ ! -f $tools/dotnet/stamp ]]; then
    run "installed the .NET SDK 3.1.102" scripts/dotnet.sh "$tools/dotnet" || return 0
  else
    scripts/dotnet.sh "$tools/dotnet" || missing "dotnet: the .NET SDK could not be installed"
  fi
  ln -sf ../dotnet/bin/dotnet "$bin/dotnet"
}

started=$SECONDS

# What a reader of the guide needs of all this.
if [[ ${1:-} == grpcurl ]]; then
  command -v go >/dev/null || { missing "go: install Go 1.26 or newer; grpcurl is built by it"; exit 1; }
  go_tool "$GRPCURL"
  ((missing)) && exit 1
  say "grpcurl is in .tools/bin: export PATH=\"\$PWD/.tools/bin:\$PATH\""
  exit 0
fi

if [[ ${1:-} == dotnet ]]; then
  dotnet_sdk
  ((missing)) && exit 1
  say "dotnet is in .tools/bin: export PATH=\"\$PWD/.tools/bin:\$PATH\""
  exit 0
fi

# First what a build asks for that runs beside this: conformance/build.rs.
if command -v go >/dev/null; then
  go_tool "$CONNECTCONFORMANCE"
  conformance_protos
  go_tool "$GRPCURL"
  go_programs
  protovalidate_cases
  mock_go_modules
else
  missing "go: install Go 1.26 or newer; the conformance suite, grpcurl and the Go client need it"
fi

debian curl curl
postgresql
debian setpriv util-linux
debian zsh zsh
debian fish fish
debian sqlite3 sqlite3
debian javac default-jdk-headless
debian mvn maven
chromium
nginx_program

if command -v node >/dev/null && command -v npm >/dev/null; then
  node_packages
  typescript_packages
  mock_node_packages
else
  missing "node and npm: install Node.js 20 or newer; the Node client needs it"
fi

dotnet_sdk

if type -P mvn javac >/dev/null; then
  mock_java_packages
fi

if command -v python3 >/dev/null && python3 -c 'import ensurepip' 2>/dev/null; then
  python_packages schemathesis
  python_packages http-cache
  python_packages otlp
  python_packages foreign-python
  python_packages mock-clients
else
  missing "python3 with venv: install it (Debian: apt-get install python3-venv); schemathesis needs it"
fi

# The first line of a commit is checked by scripts/hooks/commit-msg.
if git rev-parse --git-dir >/dev/null 2>&1 && [[ -z ${CI:-} ]]; then
  git config core.hooksPath scripts/hooks
fi

if ((missing)); then
  printf 'setup: incomplete; install what is named above and run `make setup` again\n' >&2
  exit 1
fi
say "ready ($((SECONDS - started)) s)"
say "grpcurl and the other programs are in .tools/bin: export PATH=\"\$PWD/.tools/bin:\$PATH\""
