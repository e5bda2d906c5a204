#!/usr/bin/env python3
"""What the load generator itself costs, beside wrk, against a server that is cheaper than either.

Server (bench/peers/raw-epoll) on core 0, client on core 1; rounds are interleaved. CPU is user and
system time of the whole client process. Needs wrk.

Usage: bench/generator.py [--rounds N] [--seconds S] [--tidewire PATH]
"""
import argparse, json, os, re, statistics, subprocess, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = os.path.join(HERE, "peers", "target", "release", "raw-epoll")
TIDEWIRE = os.path.join(HERE, "..", "target", "release", "tidewire")


def timed(command):
    """Standard output, and CPU seconds."""
    process = subprocess.Popen(["taskset", "-c", "1", *command], stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[0]} ended with {status}")
    return output, usage.ru_utime + usage.ru_stime


def ours(options, url, depth):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [options.tidewire, "bench", "run", url, "-c", "64", "-z", f"{options.seconds}s", "--json", out.name]
        _, cpu = timed(command + (["--depth", str(depth)] if depth > 1 else []))
        result = json.load(open(out.name))
    return result["requests"]["ok"], result["throughput"]["ok_per_second"], cpu


def wrk(options, url, depth):
    script = ["-s", os.path.join(HERE, "pipeline.lua")] if depth > 1 else []
    tail = ["--", str(depth)] if depth > 1 else []
    output, cpu = timed(["wrk", "-t1", "-c64", f"-d{options.seconds}s", "--latency", *script, url, *tail])
    done = int(re.search(r"(\d+) requests in", output).group(1))
    return done, float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1)), cpu


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--tidewire", default=TIDEWIRE)
    options = parser.parse_args()
    server = subprocess.Popen(["taskset", "-c", "0", SERVER, "0"], stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip()
    print("| case | tool | answered/s | client CPU µs per request |\n|---|---|--:|--:|")
    try:
        for depth, case in ((1, "HTTP/1.1, c=64"), (16, "HTTP/1.1, c=64, 16 deep")):
            rows = {"ours": [], "wrk": []}
            for _ in range(options.rounds):
                for name, tool in (("ours", ours), ("wrk", wrk)):
                    done, rate, cpu = tool(options, url, depth)
                    rows[name].append((rate, cpu / done * 1e6))
            middle = {name: [statistics.median(column) for column in zip(*values)] for name, values in rows.items()}
            ratio = [mine / theirs for mine, theirs in zip(middle["ours"], middle["wrk"])]
            for name, values in rows.items():
                rates, cpus = zip(*values)
                note = f" (ours: {ratio[0]:.2f}× rate, {ratio[1]:.2f}× CPU)" if name == "wrk" else ""
                print(f"| {case} | {name}{note} | {middle[name][0]:,.0f} ({min(rates):,.0f}–{max(rates):,.0f}) "
                      f"| {middle[name][1]:.2f} ({min(cpus):.2f}–{max(cpus):.2f}) |", flush=True)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
