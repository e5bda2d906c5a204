#!/usr/bin/env python3
"""What a warm call of a hosted process costs its gateway: instructions per call by callgrind.

`tidewire serve` with a worker of the suite `hosting` behind its pipe, one thread, under callgrind; eight
connections make a call each, again and again. Counted are the instructions of COUNTED calls more, so that
starting cancels out. Beside it the bare front of the suite (hyper and frames), whose 1.3-fold is the bar. What
callgrind counts does not depend on what else the machine does; the kernel's work is not counted.

--http             plain HTTP to the same worker as an unmodified program, beside hyper as a bare proxy (`proxy`)
--functions N      the N functions in which most of the difference is, by themselves
--connections N    in place of eight
--only FRONT       `tidewire`, `frames` or `proxy`

Needs valgrind and the suite's peers (bench/peers/setup.sh); TIDEWIRE names another gateway. Usage: bench/hosted.py
"""
import argparse, collections, os, re, signal, socket, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.environ.get("PEERS", os.path.join(HERE, "peers"))
BIN = os.path.join(PEERS, "target", "release")
GATEWAY = os.environ.get("TIDEWIRE", os.path.join(HERE, "..", "target", "release", "tidewire"))
COUNTED, BEFORE = 2000, 400
BODY = b'{"name":"Ada"}'
CALL = (b"POST /hosting.v1.Greeter/Greet HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % len(BODY)) + BODY
REQUEST = b"GET /worker HTTP/1.1\r\nhost: localhost\r\n\r\n"


# Under valgrind /proc/self/exe is valgrind's, which the gateway would start as its supervisor.
ITSELF = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
typedef int spawn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[], char *const[]);
int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *b, char *const argv[], char *const envp[]) {
    spawn *next = (spawn *)dlsym(RTLD_NEXT, "posix_spawnp");
    return next(pid, strcmp(file, "/proc/self/exe") ? file : getenv("ITSELF"), a, b, argv, envp);
}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def worker(path):
    """The program of plain HTTP, listening there."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        given = lambda: os.dup2(listener.fileno(), 3)
        return subprocess.Popen([os.path.join(BIN, "hosting-worker"), "http"], env={"TIDEWIRE_FD": "3"}, preexec_fn=given,
                                pass_fds=[3], stdout=subprocess.DEVNULL)


def front(name, kind, folder, address):
    """The command of a front, and its environment."""
    if name == "frames":
        return [os.path.join(BIN, "hosting"), "serve", "frames", "rust"], {"LISTEN": address}
    if name == "proxy":
        return [os.path.join(BIN, "hosting"), "serve", "proxy", os.path.join(folder, "worker.sock")], {"LISTEN": address}
    file = os.path.join(folder, "tidewire.toml")
    is_found = {"pipe": f'proto = "{HERE}/peers/hosting/proto"\nnames = ["hosting.v1.Greeter"]\ncodec = "json"\n',
                "http": 'route = "/worker"\nlisten = "inherited"\n'}[kind]
    with open(file, "w") as text:
        text.write(f'[[service]]\nname = "worker"\n{is_found}idle_stop = "never"\nrun = ["{BIN}/hosting-worker", "{kind}"]\n')
    shim = os.path.join(folder, "itself.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, "-x", "c", "-"], input=ITSELF, text=True, check=True)
    return [GATEWAY, "serve", "--config", file, "--listen", address], {"LD_PRELOAD": shim, "ITSELF": os.path.abspath(GATEWAY)}


def answer(connection):
    read = b""
    while b"\r\n\r\n" not in read or len(read) < read.index(b"\r\n\r\n") + 4 + int(re.search(rb"(?i)content-length: (\d+)", read).group(1)):
        piece = connection.recv(65536)
        if not piece:
            sys.exit("the connection ended")
        read += piece
    if not read.startswith(b"HTTP/1.1 200") or b"Hello, Ada" not in read:
        sys.exit(f"errors are not answers: {read}")


def connected(address, process):
    host, port = address.split(":")
    while process.poll() is None:
        try:
            return socket.create_connection((host, int(port)))
        except ConnectionRefusedError:
            pass
    sys.exit("it did not start")


def calls(request, address, process, connections, count):
    open_ones = [connected(address, process) for _ in range(connections)]
    for _ in range(count // connections):
        for connection in open_ones:
            connection.sendall(request)
        for connection in open_ones:
            answer(connection)


def functions(out):
    text = subprocess.run(["callgrind_annotate", "--threshold=100", "--show-percs=no", "--auto=no", out], capture_output=True, text=True).stdout
    own = collections.Counter()
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+)\s+(?:\S+:)?(.*?)(?: \[.*\])?$", line)
        if found and not line.rstrip().endswith("PROGRAM TOTALS"):
            own[re.sub(r"'\d+$", "", found.group(2))] += int(found.group(1).replace(",", ""))
    return own


def run(name, kind, connections, count):
    """All instructions, and those of each function."""
    with tempfile.TemporaryDirectory() as folder:
        out, address = os.path.join(folder, "callgrind"), f"127.0.0.1:{free_port()}"
        command, more = front(name, kind, folder, address)
        behind = worker(os.path.join(folder, "worker.sock")) if name == "proxy" else None
        environment = {**os.environ, **more, "TIDEWIRE_SERVER_THREADS": "1"}
        process = subprocess.Popen(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *command],
                                   cwd=PEERS, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        calls({"pipe": CALL, "http": REQUEST}[kind], address, process, connections, count)
        process.send_signal(signal.SIGTERM)
        process.wait()
        if behind:
            behind.kill()
            behind.wait()
        total = int(re.search(r"^totals: (\d+)", open(out).read(), re.M).group(1))
        return total, functions(out)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--http", dest="kind", action="store_const", const="http", default="pipe")
    arguments.add_argument("--functions", type=int, default=0)
    arguments.add_argument("--connections", type=int, default=8)
    arguments.add_argument("--only", default="")
    options = arguments.parse_args()
    floor = None
    for name in ("proxy" if options.kind == "http" else "frames", "tidewire"):
        if options.only not in name:
            continue
        less, before = run(name, options.kind, options.connections, BEFORE)
        more, after = run(name, options.kind, options.connections, BEFORE + COUNTED)
        each = (more - less) / COUNTED
        floor = floor or each
        print(f"{name}: {each:,.0f} instructions a call, {each / floor:.2f}", flush=True)
        after.subtract(before)
        for function, cost in after.most_common(options.functions):
            print(f"{cost / COUNTED:8,.0f}  {function}")


main()
