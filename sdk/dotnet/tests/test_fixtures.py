"""The fixtures of the live protocol against this library: python3 sdk/dotnet/tests/test_fixtures.py"""

import pathlib
import subprocess
import sys

SDK = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SDK / "tests"))
sys.dont_write_bytecode = True

import test_attacks as attacks  # noqa: E402

if __name__ == "__main__":
    attacks.build_dotnet(SDK / "dotnet/Tidewire.csproj")  # For every framework that it is for.
    attacks.build_dotnet(SDK / "dotnet/tests/fixtures")
    program = attacks.DOTNET_OUT / "fixtures/bin/netcoreapp3.1/fixtures.dll"
    played = subprocess.run([attacks.DOTNET, program, SDK.parent / "tests/fixtures/live"])
    sys.exit(played.returncode)
