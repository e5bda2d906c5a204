#!/usr/bin/env python3
"""The generator's memory over a long run at full speed: resident memory every few seconds.

Server (bench/peers/raw-epoll) on core 0, generator on core 1, 64 connections, closed model, full
recording.

Usage: bench/memory.py [--seconds S] [--tidewire PATH] [--markdown FILE]
"""
import argparse, json, os, subprocess, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = os.path.join(HERE, "peers", "target", "release", "raw-epoll")
TIDEWIRE = os.path.join(HERE, "..", "target", "release", "tidewire")
EVERY = 5


def resident(pid):
    """MiB, or None when the process is gone."""
    try:
        rows = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
        return int(rows["VmRSS"].split()[0]) / 1024
    except (OSError, KeyError):
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--tidewire", default=TIDEWIRE)
    parser.add_argument("--markdown")
    options = parser.parse_args()
    server = subprocess.Popen(["taskset", "-c", "0", SERVER, "0"], stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip()
    samples = []
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = ["taskset", "-c", "1", options.tidewire, "bench", "run", url, "-c", "64",
                   "-z", f"{options.seconds}s", "--json", out.name]
        client = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        began = time.monotonic()
        while client.poll() is None:
            time.sleep(EVERY)
            memory = resident(client.pid)
            if memory is not None:
                samples.append((time.monotonic() - began, memory))
        server.kill()
        result = json.load(open(out.name))
    lines = ["| after | resident, MiB |", "|--:|--:|"]
    step = max(1, len(samples) // 12)
    lines += [f"| {seconds:.0f} s | {memory:.1f} |" for seconds, memory in samples[::step]]
    peak = result["client"]["rss_peak_bytes"] / 2**20
    text = "\n".join(lines) + (
        f"\n\n{result['requests']['ok']:,} requests answered, {result['throughput']['ok_per_second']:,.0f}/s over "
        f"{result['throughput']['seconds']:.0f} s, {result['requests']['failed']} failed. Peak while running "
        f"{max(memory for _, memory in samples):.1f} MiB, with the results written {peak:.1f} MiB.\n")
    print(text)
    if options.markdown:
        open(options.markdown, "w").write(text)


if __name__ == "__main__":
    main()
