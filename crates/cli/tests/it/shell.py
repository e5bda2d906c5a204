"""Types into an interactive shell at a terminal of its own, as a person does.

Usage: shell.py KEYS PROGRAM ARGUMENT...

Waits for the prompt, which has to be `ready> `, types KEYS (`\\t` is the tab key, `\\r` return) and waits
for the shell to end. What it printed goes to standard error, for whoever has to find out why.
"""

import os
import pty
import signal
import sys

PROMPT = b"ready> "

# A bound on a hang, not a measurement.
SECONDS = 60


def main() -> int:
    keys, program = sys.argv[1], sys.argv[2:]
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(program[0], program)
    signal.alarm(SECONDS)
    seen, is_typed = b"", False
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:  # Linux's way to say that the shell is gone.
            chunk = b""
        if not chunk:
            break
        seen += chunk
        if not is_typed and PROMPT in seen:
            os.write(terminal, keys.encode().decode("unicode_escape").encode())
            is_typed = True
    os.waitpid(child, 0)
    sys.stderr.write(seen.decode(errors="replace"))
    return 0 if is_typed else 1


if __name__ == "__main__":
    sys.exit(main())
