#!/usr/bin/env python3
"""What Tidewire costs over the libraries it stands on: server CPU per request, side by side.

Each server runs on core 0 with one thread, the load generator on core 1. Rounds are interleaved
(A B A B ...). CPU is utime + stime of the server over the measured seconds, divided by the requests
that the load generator counted in them. A rate is the server's only if the server was busy all the
time: a run in which one was not is refused at its end. Needs h2load and wrk (Debian: nghttp2-client, wrk).

Usage: bench/overhead.py [--rounds N] [--seconds S] [--only PART]
"""
import argparse, json, os, re, statistics, struct, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(HERE, "peers", "target", "release")
# The least share of a core that a server under full load takes.
BUSY_MIN = 0.9
TICK = os.sysconf("SC_CLK_TCK")
JSON_BODY = json.dumps({
    "name": "it", "d": 4.2, "f": 4.2, "b": True, "n": 42, "l": "42", "c1": "hello",
    "pets": [{"name": "Garfield", "color": "orange"}, {"name": "Snoopy", "color": "white"}],
}, separators=(",", ":")).encode()


def pb(field, wire, payload):
    return bytes([field << 3 | wire]) + payload


def text(field, value):
    return pb(field, 2, bytes([len(value)]) + value.encode())


def message():
    pet = lambda name, color: text(1, name) + text(2, color)
    pets = b"".join(pb(9, 2, bytes([len(p)]) + p) for p in (pet("Garfield", "orange"), pet("Snoopy", "white")))
    return (text(1, "it") + pb(2, 1, struct.pack("<d", 4.2)) + pb(3, 5, struct.pack("<f", 4.2)) + pb(4, 0, b"\1")
            + pb(5, 0, b"\x2a") + pb(6, 0, b"\x2a") + text(7, "hello") + pets)


class Server:
    def __init__(self, name):
        self.process = subprocess.Popen(["taskset", "-c", "0", os.path.join(BIN, name)], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def stop(self):
        self.process.kill()
        self.process.wait()


def load(command):
    output = subprocess.run(["taskset", "-c", "1"] + command, capture_output=True, text=True).stdout
    if command[0] == "wrk":
        if re.search(r"Non-2xx|Socket errors", output):
            sys.exit(f"errors are no answers: {output}")
        return int(re.search(r"(\d+) requests in", output).group(1)), float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))
    done, failed = re.search(r"(\d+) succeeded, (\d+) failed", output).groups()
    ok = re.search(r"status codes: (\d+) 2xx", output).group(1)
    if int(failed) or int(ok) < int(done):
        sys.exit(f"errors are no answers: {output}")
    return int(done), float(re.search(r"finished in [^,]+, ([\d.]+) req/s", output).group(1))


def cells(folder):
    grpc, body = os.path.join(folder, "grpc"), os.path.join(folder, "json")
    encoded = message()
    open(grpc, "wb").write(b"\0" + struct.pack(">I", len(encoded)) + encoded)
    open(body, "wb").write(JSON_BODY)
    pipeline = os.path.join(HERE, "pipeline.lua")
    h2 = lambda extra: lambda a, s: ["h2load", "-t", "1", "-D", str(s)] + extra + [f"http://{a}/hello.v1.Greeter/SayHello"]
    rpc = ("bare-connectrpc", "tidewire-hello")
    plain = ("bare-hyper", "tidewire-hello")
    return {
        "plain, HTTP/1.1, c=64": (plain, lambda a, s: ["wrk", "-t1", "-c64", f"-d{s}s", f"http://{a}/plaintext"]),
        "plain, HTTP/1.1, pipelined 16, c=8": (plain, lambda a, s: ["wrk", "-t1", "-c8", f"-d{s}s", "-s", pipeline, f"http://{a}/plaintext"]),
        "gRPC, c=8 m=8": (rpc, h2(["-c", "8", "-m", "8", "-d", grpc, "-H", "content-type: application/grpc", "-H", "te: trailers"])),
        "Connect JSON, HTTP/1.1, c=64": (rpc, h2(["--h1", "-c", "64", "-d", body, "-H", "content-type: application/json"])),
        "Connect JSON, HTTP/2, c=8 m=8": (rpc, h2(["-c", "8", "-m", "8", "-d", body, "-H", "content-type: application/json"])),
    }


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=2)
    arguments.add_argument("--only", default="")
    options = arguments.parse_args()
    print("| case | server | CPU µs/request, median (min–max) | ratio | requests/s, median | ratio |")
    print("|---|---|---|---|---|---|")
    idle = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (servers, command) in cells(folder).items():
            if options.only not in name:
                continue
            running = [Server(server) for server in servers]
            cpu, rate = [[], []], [[], []]
            for _ in range(options.rounds):
                for i, server in enumerate(running):
                    load(command(server.address, 1))
                    before = server.cpu()
                    count, per_second = load(command(server.address, options.seconds))
                    cpu[i].append((server.cpu() - before) / count * 1e6)
                    rate[i].append(per_second)
            for server in running:
                server.stop()
            base_cpu, base_rate = statistics.median(cpu[0]), statistics.median(rate[0])
            for i, server in enumerate(servers):
                c, r = statistics.median(cpu[i]), statistics.median(rate[i])
                busy = statistics.median(a * b for a, b in zip(cpu[i], rate[i])) / 1e6
                if busy < BUSY_MIN:
                    idle.append(f"{name}: {server} was busy for {busy:.0%} of the time")
                print(f"| {name} | {server} | {c:.2f} ({min(cpu[i]):.2f}–{max(cpu[i]):.2f}) | {c / base_cpu:.3f} | {r:,.0f} | {r / base_rate:.3f} |", flush=True)
    if idle:
        sys.exit("\n".join(idle) + "\nthese rates are the load generator's: run again with nothing beside it")


main()
