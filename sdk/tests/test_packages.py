"""What a user installs, with the program of its guide page: python3 sdk/tests/test_packages.py

Each package is installed into an empty folder by the tool of its ecosystem; pip fetches setuptools for that. The
program that `docs/guide/hosting-*.md` shows is written beside it, and answers its first call.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True

import test_attacks as attacks  # noqa: E402

wire, SDK = attacks.wire, attacks.SDK
GUIDE = SDK.parent / "docs" / "guide"


class Packages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_in(self, folder, *command):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def of_guide(self, page, name, *replaced):
        """Writes a file that the page shows."""
        text = (GUIDE / page).read_text()
        text = re.search(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", text, re.M | re.S).group(1)
        if replaced:
            self.assertIn(replaced[0], text)
            text = text.replace(*replaced)
        (self.folder / name).write_text(text)

    def answers(self, *command):
        with attacks.Gateway([str(word) for word in command], cwd=self.folder) as gateway:
            name = wire.put_field(2, b"\1/shop.v1.Shop/GetItem")
            request = wire.put_frame("request", 2, wire.END, name, b'{"id":1}')
            gateway.greet().send(request)
            reply = gateway.until("reply", 2).payload
            self.assertEqual(reply, b'{"id":1,"count":3}')
            gateway.ends()

    def test_python_is_installed_into_an_empty_environment(self):
        shutil.copytree(SDK / "python", self.folder / "source")  # Where it is built it leaves files.
        environment = self.folder / "environment"
        self.run_in(self.folder, sys.executable, "-m", "venv", "--without-pip", environment)
        python = environment / "bin" / "python"
        packages = self.run_in(
            self.folder, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"
        )
        into = ("--quiet", "--disable-pip-version-check", "--target", packages.strip())
        self.run_in(self.folder, sys.executable, "-m", "pip", "install", *into, "./source")
        self.of_guide("hosting-python.md", "shop.py")
        self.answers(python, "-I", "shop.py")

    def test_node_is_packed_with_its_types_and_installed(self):
        packed = self.run_in(SDK / "node", "npm", "pack", "--silent", "--pack-destination", self.folder)
        offline = ("--silent", "--offline", "--no-audit", "--no-fund")
        self.run_in(self.folder, "npm", "install", *offline, f"./{packed.strip()}")
        self.assertTrue((self.folder / "node_modules/tidewire/index.d.ts").is_file())
        self.of_guide("hosting-node.md", "shop.js", "../tidewire/sdk/node/tidewire.js", "tidewire")
        self.answers("node", "shop.js")

    def test_go_is_a_module_that_is_replaced(self):
        self.of_guide("hosting-go.md", "main.go")
        self.of_guide("hosting-go.md", "go.mod", "../tidewire/sdk/go", str(SDK / "go"))
        self.run_in(self.folder, "go", "build", "-o", "shop", ".")
        self.answers(self.folder / "shop")


if __name__ == "__main__":
    unittest.main()
