"""The program `tidewire mock`: found, started, waited for, ended.

It listens on a free port, and its admin listener on another with a token that only this process knows. Its standard
input is a pipe from here: when this process ends, however it ends, the mock reads the end of it and ends too.
"""

import os
import pathlib
import subprocess
import tempfile
import threading

from .admin import MockError

# How long the mock may take until it listens; only one that hangs takes so long.
START_SECONDS = 60

# How long the system may take to tell that a program has ended which does not listen any more.
END_SECONDS = 5

# How much of what the mock logs is kept for errors.
LOG_CHARACTERS = 16_384


class Program:
    def __init__(self, program, words):
        self.name = program
        self.log = ""
        # Settings of the machine are not those of a test.
        env = {name: text for name, text in os.environ.items() if not name.startswith("TIDEWIRE_")}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        try:
            self.process = subprocess.Popen([program, *words], env=env, **pipes)
        except FileNotFoundError:
            raise MockError(
                "unavailable",
                f"{program} is not there; put tidewire on PATH, or name the program by TIDEWIRE or `program`",
            ) from None
        except OSError as error:
            raise MockError("unavailable", f"{program} cannot be started: {error}") from None
        self._reading = threading.Thread(target=self._read_log, daemon=True)
        self._reading.start()

    def _read_log(self):
        for line in self.process.stderr:
            self.log = (self.log + line.decode(errors="replace"))[-LOG_CHARACTERS:]

    def listens(self):
        """Returns once its addresses are known."""
        late = threading.Timer(START_SECONDS, self.process.kill)
        late.start()
        said = {}
        for line in self.process.stdout:
            name, _, rest = line.decode(errors="replace").partition(" ")
            said[name] = rest.strip().removeprefix("on ") if name != "mocking" else rest
            if name == "mocking":
                break
        is_late = not late.is_alive()
        late.cancel()
        if "mocking" not in said:
            why = f"does not listen after {START_SECONDS} s" if is_late else self._ended()
            raise MockError("unavailable", self._why_not(why))
        self.address, self.admin = said["listening"], said["admin"]

    def _ended(self):
        code = self.process.wait()
        self._reading.join()
        return f"ended with code {code}" if code >= 0 else f"ended with signal {-code}"

    def _why_not(self, why):
        if "unexpected argument" in self.log:
            why = f"{self.name} is too old for this package, or an argument is not one of its"
            return f"{why}:\n{self.log.strip()}"
        return f"{self.name} mock {why}:\n{self.log.strip()}"

    def why_dead(self):
        """How it ended and what it said last, where it has ended; nobody listens where it did."""
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        return f"the mock {self._ended()}:\n{self.log.strip()}"

    def errors(self):
        """The errors that it has logged."""
        return [line for line in self.log.splitlines() if " ERROR " in line]

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # It has ended already.
        self.process.wait()
        self._reading.join()
        self.process.stdout.close()
        self.process.stderr.close()


def start(protos, rules, program, port, seed, validate, without_rule, upstream, watch, arguments):
    """Starts it; returns once it listens."""
    # The mock has read what is in it when it listens, so nothing is left behind by a process that is killed.
    with tempfile.TemporaryDirectory(prefix="tidewire-mock-") as name:
        folder = pathlib.Path(name)
        (folder / "tidewire.toml").touch()
        words = ["mock", os.path.abspath(protos), "--until-stdin-closes"]
        words += ["--rules", os.path.abspath(rules) if rules else str(folder / "rules")]
        words += ["--port", str(port), "--config", str(folder / "tidewire.toml")]
        words += ["--set", "log.level=warn", "--set", "admin.listen=127.0.0.1:0"]
        words += ["--set", f"admin.token_file={folder / 'token'}", "--seed", str(seed)]
        words += [] if watch else ["--no-watch"]
        words += ["--validate"] if validate else []
        words += ["--without-rule", without_rule] if without_rule else []
        words += ["--upstream", upstream] if upstream else []
        running = Program(program or os.environ.get("TIDEWIRE") or "tidewire", [*words, *arguments])
        try:
            running.listens()
            running.token = (folder / "token").read_text().strip()
        except BaseException:
            running.close()
            raise
        return running
