"""What a user installs, with the tests of the guide: python3 clients/mock/tests/test_packages.py

Each package is packed, and installed from that into an empty folder by the tool of its ecosystem. The test that
`docs/guide/mock-tests.md` shows is written beside it, and run by its runner against the program that TIDEWIRE names.
What is installed beside is what `scripts/setup.sh` has fetched. `Packages` or `Java` as an argument runs these alone.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

CLIENTS = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = CLIENTS.parents[1]
TOOLS = REPOSITORY / ".tools"
PAGE = (REPOSITORY / "docs" / "guide" / "mock-tests.md").read_text()


class Installed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.of_guide("proto/shop.proto", "protos/shop.proto")

    def run_in(self, folder, *command, **variables):
        words = [str(word) for word in command]
        env = {**os.environ, **variables}
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def of_guide(self, name, path=None, *replaced):
        """Writes a file that the page shows."""
        text = re.search(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", PAGE, re.M | re.S).group(1)
        if replaced:
            self.assertIn(replaced[0], text)
            text = text.replace(*replaced)
        target = self.folder / (path or name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


class Packages(Installed):
    def test_node_is_packed_with_its_types_and_installed(self):
        packed = self.run_in(
            CLIENTS / "node", "npm", "pack", "--silent", "--pack-destination", self.folder
        )
        self.of_guide("price.test.mjs", "price-node/price.test.mjs")
        offline = ("--silent", "--offline", "--no-audit", "--no-fund")
        self.run_in(self.folder / "price-node", "npm", "install", *offline, f"../{packed.strip()}")
        installed = self.folder / "price-node" / "node_modules"
        self.assertTrue((installed / "@tidewire/mock/index.d.ts").is_file())
        self.assertEqual(
            sorted(one.name for one in installed.iterdir() if one.name[0] != "."), ["@tidewire"]
        )
        self.run_in(self.folder / "price-node", "node", "--test", "price.test.mjs")

    def test_python_is_built_and_installed_as_a_wheel(self):
        python = TOOLS / "mock-clients" / "bin" / "python"
        pip = (TOOLS / "pip" / "bin" / "pip", "--python", python)
        shutil.copytree(
            CLIENTS / "python", self.folder / "source"
        )  # Where it is built it leaves files.
        offline = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
        build = ("wheel", *offline, "--no-build-isolation", "--wheel-dir", ".", "./source")
        self.run_in(self.folder, *pip, *build)
        (wheel,) = self.folder.glob("tidewire_mock-*.whl")
        packages = self.folder / "packages"
        self.run_in(self.folder, *pip, "install", *offline, "--target", packages, wheel)
        for name in ("pytest.ini", "test_price.py"):
            self.of_guide(name, f"price-python/{name}")
        run = (python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "test_price.py")
        self.run_in(self.folder / "price-python", *run, PYTHONPATH=str(packages))

    def test_go_is_a_module_that_is_replaced(self):
        # A copy, as a proxy of modules would have it: nothing above it is there.
        shutil.copytree(CLIENTS / "go", self.folder / "module")
        self.of_guide("price-go/go.mod", None, "../tidewire/clients/mock/go", "../module")
        self.of_guide("price-go/price_test.go")
        self.run_in(self.folder / "price-go", "go", "test", "-count=1", "./...", GOPROXY="off")


class Java(Installed):
    """Beside the others: Maven takes as long as all of them."""

    def test_java_is_installed_into_a_repository_of_its_own(self):
        # Its own tests are run by that too: to start Maven takes longer than they do.
        local = self.folder / "repository"
        shutil.copytree(TOOLS / "m2", local, ignore=shutil.ignore_patterns("tidewire"))
        shutil.copytree(
            CLIENTS / "java", self.folder / "java", ignore=shutil.ignore_patterns("target")
        )
        shutil.copytree(CLIENTS / "tests" / "protos", self.folder / "tests" / "protos")
        options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dmaven.repo.local={local}"
        maven = ("mvn", "--batch-mode", "--quiet", "--offline")
        self.run_in(self.folder / "java", *maven, "install", MAVEN_OPTS=options)
        self.of_guide("price-java/pom.xml")
        self.of_guide("price-java/src/test/java/PriceTest.java")
        self.run_in(self.folder / "price-java", *maven, "test", MAVEN_OPTS=options)


if __name__ == "__main__":
    unittest.main()
