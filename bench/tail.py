#!/usr/bin/env python3
"""What an open page of the console costs a call: CPU time per request with and without a tail.

One server (bench/peers/operated, with an admin listener) on one core; h2load on the other makes slices of calls.
Between the slices a tail of all topics (`Tail.Watch`, what the console's pages read) is opened and closed in turn, so
that both see the same machine. A second server has never had a tail: it is measured in the same turns. CPU time is
what the kernel counted for the server's threads (/proc/PID/task/*/schedstat, in ns), all of it: writing to the
tail's reader, too. A tail begins with all calls of its first moment, before it is held to 500 a second: a page is open
for minutes, so `--warm` calls come before each slice, of every kind; with `--warm 0` each slice has that moment in it.
A slice with a tail is compared with the mean of the two beside it; the table has the median and the middle half.

Needs h2load (Debian: nghttp2-client) and taskset. Usage: bench/tail.py [--slices 40] [--calls 50000] [--warm 5000]
"""
import argparse, glob, json, os, re, socket, statistics, struct, subprocess, sys, tempfile, threading

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "peers", "target")), "release", "operated")
PATH = "/hello.v1.Greeter/SayHello"
JSON_BODY = json.dumps({"name": "it", "n": 42, "pets": [{"name": "Garfield", "color": "orange"}]}).encode()


class Server:
    """One of the two, and what reads its tail."""

    def __init__(self, folder, name):
        self.admin = os.path.join(folder, f"{name}.sock")
        file = os.path.join(folder, f"{name}.toml")
        with open(file, "w") as settings:
            settings.write(f'[server]\nlisten = "127.0.0.1:0"\n[admin]\nlisten = "unix:{self.admin}"\n')
        self.process = subprocess.Popen(["taskset", "-c", "0", BIN, file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()
        self.tail, self.reader, self.batches, self.bytes = None, None, 0, 0

    def cpu(self):
        """Nanoseconds that its threads have run."""
        return sum(int(open(file).read().split()[0]) for file in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"))

    def open_tail(self):
        """Reads a tail until it is closed, the first batch before this returns."""
        self.tail = socket.socket(socket.AF_UNIX)
        self.tail.connect(self.admin)
        body = struct.pack(">BI", 0, 2) + b"{}"
        self.tail.sendall(b"POST /tidewire.admin.v1.Tail/Watch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/connect+json\r\n"
                          b"content-length: %d\r\n\r\n" % len(body) + body)
        first = self.tail.recv(1 << 16)
        if b" 200 " not in first.split(b"\r\n", 1)[0]:
            sys.exit(f"the tail is refused: {first!r}")
        self.reader = threading.Thread(target=self.read, args=(self.tail,), daemon=True)
        self.reader.start()

    def read(self, tail):
        while piece := tail.recv(1 << 20):
            self.batches += piece.count(b'"seq"')
            self.bytes += len(piece)

    def close_tail(self):
        self.tail.shutdown(socket.SHUT_RDWR)
        self.reader.join()
        self.tail.close()

    def slice(self, command, options):
        """CPU time per call, in µs."""
        if options.warm:
            self.calls(command, options.warm)
        before = self.cpu()
        self.calls(command, options.calls)
        return (self.cpu() - before) / options.calls / 1000

    def calls(self, command, calls):
        output = subprocess.run(["taskset", "-c", "1", *command, "-n", str(calls), f"http://{self.address}{PATH}"], capture_output=True, text=True).stdout
        good = re.search(r"status codes: (\d+) 2xx", output)
        if not good or int(good.group(1)) != calls or " 0 failed" not in output:
            sys.exit(f"errors are not answers: {output}")


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f} ({low:.3f}–{high:.3f})"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--slices", type=int, default=40)
    arguments.add_argument("--calls", type=int, default=50000)
    arguments.add_argument("--warm", type=int, default=5000)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        body = os.path.join(folder, "body")
        open(body, "wb").write(JSON_BODY)
        common = ["h2load", "-t", "1", "-d", body, "-H", "content-type: application/json"]
        kinds = {"Connect JSON, HTTP/1.1, c=8": [*common, "--h1", "-c", "8"], "Connect JSON, HTTP/2, c=8 m=8": [*common, "-c", "8", "-m", "8"]}
        servers = [Server(folder, name) for name in ("watched", "never")]
        watched, never = servers
        print("| call | CPU, no tail ever | tail open / closed | closed again / never | batches read |\n|---|--:|--:|--:|--:|")
        try:
            for kind, command in kinds.items():
                for server in servers:
                    server.slice(command, options)
                plain, with_tail, again = [], [], []
                batches = watched.batches
                before = watched.slice(command, options)
                for _ in range(options.slices):
                    watched.open_tail()
                    opened = watched.slice(command, options)
                    watched.close_tail()
                    after = watched.slice(command, options)
                    none = never.slice(command, options)
                    plain.append(none)
                    with_tail.append(opened / ((before + after) / 2))
                    again.append(after / none)
                    before = after
                print(f"| {kind} | {statistics.median(plain):.2f} µs | {quartiles(with_tail)} | {quartiles(again)} | {watched.batches - batches:,} |", flush=True)
        finally:
            for server in servers:
                server.process.terminate()
                server.process.wait()


main()
