#!/usr/bin/env bash
# Builds what people without Rust get, into dist/: static programs for Linux, stripped, each with the
# list of what is compiled in (CycloneDX), a container file and checksums.
#
#   scripts/dist.sh                x86-64 and arm64, those whose tools are here; it says which are not
#   scripts/dist.sh amd64          one of them; its tools missing is a failure then
#
# The C in them (jemalloc, ring, zstd) is compiled against musl as well:
#
#   x86-64   apt-get install musl-tools
#   arm64    apt-get install gcc-aarch64-linux-gnu
#
# and `rustup target add` brings the standard library of each. The musl of arm64 is not installed: its package
# is fetched and unpacked below target/, where nothing of the system changes.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'dist: %s\n' "$*"; }
fail() {
  printf 'dist: %s\n' "$*" >&2
  exit 1
}

# target ARCHITECTURE: what Rust calls it.
target() {
  case $1 in
    amd64) echo x86_64-unknown-linux-musl ;;
    arm64) echo aarch64-unknown-linux-musl ;;
    *) fail "$1 is not an architecture that is built here; amd64 and arm64 are" ;;
  esac
}

# missing ARCHITECTURE: what is not here of what it needs; nothing when all is.
missing() {
  local compiler=x86_64-linux-musl-gcc package=musl-tools
  if [[ $1 == arm64 ]]; then compiler=aarch64-linux-gnu-gcc package=gcc-aarch64-linux-gnu; fi
  type -P "$compiler" >/dev/null || echo "$compiler (Debian: $package)"
  if [[ $1 == arm64 ]] && ! musl_of_arm64 >&2; then echo "musl for arm64 (Debian: musl-dev:arm64)"; fi
  local libraries
  libraries=$(rustc --print target-libdir --target "$(target "$1")")
  [[ -d $libraries ]] || echo "the standard library (rustup target add $(target "$1"))"
}

# Debian's musl for arm64 and a compiler for it, aarch64-linux-musl-gcc, in $musl unless the system has one.
musl_of_arm64() {
  type -P aarch64-linux-musl-gcc >/dev/null && return 0
  local state=$musl/state package
  command -v apt-get >/dev/null || return 1
  say "fetching the musl of arm64 into $musl"
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$musl/bin"
  local apt=(apt-get -qq -o APT::Architectures::=amd64 -o APT::Architectures::=arm64
    -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=root)
  (cd "$state" && "${apt[@]}" update && "${apt[@]}" download musl-dev:arm64) || return 1
  for package in "$state"/musl-dev_*_arm64.deb; do dpkg-deb -x "$package" "$musl" || return 1; done
  local specs=$musl/usr/lib/aarch64-linux-musl/musl-gcc.specs
  sed -i "s#/usr/\(include\|lib\)/aarch64-linux-musl#$musl&#g" "$specs"
  printf '#!/bin/sh\nexec aarch64-linux-gnu-gcc "$@" -specs %s\n' "$specs" >"$musl/bin/aarch64-linux-musl-gcc"
  chmod +x "$musl/bin/aarch64-linux-musl-gcc"
  rm -rf "$state"
}

# build ARCHITECTURE
build() {
  local target program=dist/tidewire-linux-$1 folder=${CARGO_TARGET_DIR:-target}
  target=$(target "$1")
  say "building $program for $target"
  if [[ $1 == arm64 ]]; then export JEMALLOC_SYS_WITH_LG_PAGE=16; else unset JEMALLOC_SYS_WITH_LG_PAGE; fi
  cargo build --locked --profile dist --package tidewire-cli --features otlp --target "$target"
  cp "$folder/$target/dist/tidewire" "$program"
  cargo xtask sbom "$target" >"$program.cdx.json"
  if readelf -l "$program" | grep -q INTERP; then fail "$program is not static"; fi
  say "$program has $(stat -c %s "$program") bytes"
}

# What links and archives for arm64; pages of its kernels have up to 64 KiB, which jemalloc has to
# know when it is compiled.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc
export AR_aarch64_unknown_linux_musl=aarch64-linux-gnu-ar

musl=$(realpath -m "${CARGO_TARGET_DIR:-target}")/musl-arm64
export PATH="$PATH:$musl/bin"

rm -rf dist
mkdir dist
if (($#)); then
  for architecture; do
    lacking=$(missing "$architecture")
    [[ -z $lacking ]] || fail "$architecture needs $lacking"
    build "$architecture"
  done
else
  for architecture in amd64 arm64; do
    lacking=$(missing "$architecture")
    if [[ -n $lacking ]]; then say "left out $architecture, which needs" $lacking; else build "$architecture"; fi
  done
fi
cp scripts/Containerfile LICENSE dist/
(cd dist && sha256sum -- * >../dist.sums && mv ../dist.sums SHA256SUMS)
compgen -G 'dist/tidewire-linux-*.cdx.json' >/dev/null || fail "nothing could be built"
say "done:" dist/*
