#!/usr/bin/env python3
"""What small gRPC calls and streams of items cost a server, beside tonic.

Servers run on core 0 with one thread, loads on core 1. Calls are loaded by h2load on one connection, streams
of gRPC by tonic's client whoever serves, streams of Connect and live by Tidewire's, ten at once.

By default CPU time of the server (utime + stime) for each call or item: rounds are interleaved with tonic's,
and a ratio is the median of the rounds' ratios.

--count    instructions by callgrind instead, which other work changes little: those of a longer run less
           those of a shorter one, so that starting and connecting cancel out (needs valgrind). Streams of
           1,000 items are read by h2load one after the other; live, which it does not speak, is left out

Needs `cargo build --release --package overhead --package rpc` in bench/peers, and h2load.

Usage: bench/streams.py [--count] [--rounds N] [--seconds S] [--only PART] [--keep FOLDER]
"""
import argparse, json, os, re, statistics, struct, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(HERE, "peers", "target", "release")
TICK = os.sysconf("SC_CLK_TCK")
# hello.v1.Hello with a name and a number, as the suite `protocols` sends it.
MESSAGE = b"\n\x03Ada(*"
# Calls of a shorter and a longer run, and streams with so many items.
COUNTED_CALLS, COUNTED_STREAMS, ITEMS = (2000, 6000), (20, 100), 1000
# Callgrind counts each byte of a `rep movsb`; so large copies are loops while it counts.
COPIES_IN_LOOPS = {"GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1000000000"}


def h2load(message, in_flight, content_type, path, each, folder):
    """Loads one connection with a request; `each` is what one answer counts."""
    body = os.path.join(folder, f"message-{len(os.listdir(folder))}")
    open(body, "wb").write(b"\0" + struct.pack(">I", len(message)) + message)
    how = ["-t", "1", "-c", "1", "-m", str(in_flight), "-d", body]
    how += ["-H", f"content-type: {content_type}", "-H", "te: trailers"]

    def load(address, amount):
        output = run(["h2load", *amount, *how, f"http://{address}{path}"])
        done, failed = re.search(r"(\d+) succeeded, (\d+) failed", output).groups()
        if int(failed) or int(re.search(r"status codes: (\d+) 2xx", output).group(1)) < int(done):
            sys.exit(f"errors are not answers: {output}")
        return int(done) * each

    return load


def requests(counts):
    return [["-n", str(count)] for count in counts]


def calls(in_flight, folder):
    load = h2load(MESSAGE, in_flight, "application/grpc", "/hello.v1.Greeter/SayHello", 1, folder)
    return load, lambda seconds: ["-D", str(seconds)], load, requests(COUNTED_CALLS)


def items(client, size, folder):
    case = {1: "stream-1", 100: "stream-100", 10_000: "stream-10k"}[size]

    def load(address, seconds):
        output = run([os.path.join(BIN, "rpc"), "load", client, address, case, str(seconds), "0", "1"])
        return json.loads(output)["made"]

    many = b"\x08" + varint(ITEMS) + b"\x10" + varint(size)
    kind = {"tonic": "application/grpc", "connect": "application/connect+proto"}.get(client)
    counts = kind and h2load(many, 1, kind, "/rpc.v1.Rpc/Items", ITEMS, folder)
    return load, lambda seconds: seconds, counts, requests(COUNTED_STREAMS)


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def run(command):
    done = subprocess.run(["taskset", "-c", "1", *command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def cells(folder):
    """Of each case the servers, tonic first, and the load of each."""
    tonic, ours = ["rpc", "serve", "tonic"], ["rpc", "serve", "tidewire"]
    for in_flight in (1, 50):
        load = calls(in_flight, folder)
        servers = {"tonic": (["bare-tonic"], load), "Tidewire, gRPC": (["tidewire-hello"], load)}
        yield f"call, {in_flight} in flight", servers
    for size in (1, 100, 10_000):
        yield f"item of {size:,} B", {
            "tonic": (tonic, items("tonic", size, folder)),
            "Tidewire, gRPC": (ours, items("tonic", size, folder)),
            "Tidewire, Connect": (ours, items("connect", size, folder)),
            "Tidewire, live": (ours, items("tcp", size, folder)),
        }


class Server:
    def __init__(self, program, under=()):
        command = ["taskset", "-c", "0", *under, os.path.join(BIN, program[0]), *program[1:]]
        environment = os.environ | (COPIES_IN_LOOPS if under else {})
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, env=environment, text=True, **pipes)
        self.address = self.process.stdout.readline().strip()

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def stop(self):
        self.process.terminate()
        self.process.wait()


def counted(name, servers, folder):
    floor = None
    for server, (program, (_, _, load, lengths)) in servers.items():
        if load is None:
            continue
        totals, done = [], []
        for place, length in zip(("shorter", "longer"), lengths):
            out = os.path.join(folder, re.sub(r"\W+", "-", f"{name} {server} {place}"))
            running = Server(program, ("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"))
            done.append(load(running.address, length))
            running.stop()
            totals.append(int(re.search(r"^totals: (\d+)", open(out).read(), re.M).group(1)))
        each = (totals[1] - totals[0]) / (done[1] - done[0])
        floor = floor or each
        print(f"| {name} | {server} | {each:,.0f} | {each / floor:.2f} |", flush=True)


def measured(name, servers, options):
    running = {server: Server(program) for server, (program, _) in servers.items()}
    cpu = {server: [] for server in servers}
    for _ in range(options.rounds):
        for server, (_, (load, length, _, _)) in servers.items():
            before = running[server].cpu()
            done = load(running[server].address, length(options.seconds))
            cpu[server].append((running[server].cpu() - before) / done * 1e6)
    for server in running.values():
        server.stop()
    for server, taken in cpu.items():
        ratios = [mine / floor for mine, floor in zip(taken, cpu["tonic"])]
        spread = f"{min(ratios):.2f}–{max(ratios):.2f}"
        taken = statistics.median(taken)
        print(f"| {name} | {server} | {taken:.3f} | {statistics.median(ratios):.2f} ({spread}) |", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--count", action="store_true")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=1)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--keep", help="where the files of callgrind are left")
    options = arguments.parse_args()
    what = "instructions" if options.count else "CPU µs, median"
    print(f"| of each | server | {what} | to tonic |\n|---|---|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, servers in cells(folder):
            if options.only not in name:
                continue
            if options.count:
                counted(name, servers, options.keep or folder)
            else:
                measured(name, servers, options)


main()
