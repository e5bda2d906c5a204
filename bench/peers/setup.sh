#!/usr/bin/env bash
# Builds the peers that this machine has the tools for; what is missing is named and left out.
set -euo pipefail
cd "$(dirname "$0")"
has() { command -v "$1" >/dev/null || { echo "peers: no $1, so what needs it is absent" >&2; return 1; }; }
if has cargo; then
  cargo build --release --package web --package overhead --package raw-epoll --package memo --package rpc --package hosting --package proxy
  (cd ../.. && cargo build --release --package contacts --package tidewire-cli)
fi
if has go; then
  (cd web/go && go build -o ../../target/web-go .)
  (cd protocols/go && go build -o ../../target/protocols-connect-go ./connect && go build -o ../../target/protocols-grpc-go ./grpc && go build -o ../../target/mock-go ./mock)
  (cd rpc/go && go build -o ../../target/rpc-go .)
  (cd stacks/go && go build -o ../../target/stacks-go .)
  (cd hosting/workers/go && go build -o ../../../target/hosting-go .)
fi
if has npm; then
  (cd protocols && npm ci --silent --no-audit --no-fund)
  (cd stacks/node && npm ci --silent --no-audit --no-fund)
fi
if has javac; then
  javac -d target/web-java web/java/Server.java
fi
# A .NET SDK, and what is built with it.
if ../../scripts/dotnet.sh target/dotnet; then
  for project in web/dotnet hosting/workers/dotnet/{http,pipe,pipe-json}; do
    TIDEWIRE_OUT="$PWD/target/dotnet-out" target/dotnet/bin/dotnet build "$project" -c Release -nologo -v quiet
  done
else
  echo "peers: no .NET SDK, so what needs it is absent" >&2
fi
# uWSGI is compiled by pip, which takes a compiler and the headers of Python.
if has python3 && ! [ -e target/uwsgi/bin/uwsgi ]; then
  if ! { python3 -m venv target/uwsgi && target/uwsgi/bin/pip install --quiet --disable-pip-version-check uwsgi==2.0.31; }; then
    echo "peers: uWSGI could not be built, so it is absent" >&2
  fi
fi
# nginx and Caddy as Debian builds them, without installing them: nothing is started, and no root is needed.
for program in nginx caddy; do
  if ! [ -e target/$program ]; then
    if command -v $program >/dev/null; then
      ln -s "$(command -v $program)" target/$program
    elif has apt-get && has dpkg; then
      scratch=$(mktemp -d)
      if (cd "$scratch" && apt-get download -q $program && dpkg -x ${program}_*.deb .); then
        cp "$scratch"/usr/*bin/$program target/$program
      else
        echo "peers: $program could not be downloaded, so it is absent" >&2
      fi
      rm -rf "$scratch"
    fi
  fi
done
# Varnish has to be installed, since it looks for its libraries where they belong and calls the C compiler.
if ! [ -e target/varnishd ] && PATH="$PATH:/usr/sbin" has varnishd; then
  ln -s "$(PATH="$PATH:/usr/sbin" command -v varnishd)" target/varnishd
fi
for program in psql redis-server; do has "$program" || true; done
