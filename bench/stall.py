#!/usr/bin/env python3
"""The stall experiment with a truth that the load generator has no part in.

The server (bench/peers/raw-epoll) stands still for 1 s now and then and logs when it stalled, and
when each request came and was answered. The truth is simulated from three things only: the schedule
(request i is due at i/rate), the stalls that the server logged, and the rate at which it answered
while it worked off the backlog (8 connections, one request each at a time, first come first served).
How fast the generator notices that a stall is over, or sends, is not in the truth: where it is slow,
the comparison shows it.

Server on core 0, generator on core 1; rounds of the cases are interleaved.

Usage: bench/stall.py [--rounds N] [--tidewire PATH] [--markdown FILE] [--keep DIRECTORY]
"""
import argparse, heapq, json, os, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = os.path.join(HERE, "peers", "target", "release", "raw-epoll")
TIDEWIRE = os.path.join(HERE, "..", "target", "release", "tidewire")
RATE, SECONDS, CONNECTIONS = 2000, 21, 8
QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999))
# Name, arguments of the server after its port (stall ms, period s, delay of each answer in µs), and
# the percentiles that the simulation knows: where requests are not delayed, latency is the loopback
# and two wake-ups, which only a client can see.
CASES = (
    ("1 s every 10 s", (1000, 10, 0), ("p99", "p99_9")),
    ("1 s every 7 s", (1000, 7, 0), ("p90", "p99", "p99_9")),
    ("1 s every 10 s, answers after 2 ms", (1000, 10, 2000), ("p50", "p90", "p99", "p99_9")),
)


def run(case, tidewire, folder):
    log, out = os.path.join(folder, "log"), os.path.join(folder, "out.json")
    if os.path.exists(log):
        os.remove(log)
    arguments = [SERVER, "0", *map(str, case[1]), log]
    server = subprocess.Popen(["taskset", "-c", "0", *arguments], stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip()
    command = [tidewire, "bench", "run", url, "--rate", str(RATE), "--duration", f"{SECONDS}s",
               "--connections", str(CONNECTIONS), "--json", out]
    subprocess.run(["taskset", "-c", "1", *command], check=True, stdout=subprocess.DEVNULL)
    requests, stalls, deadline = [], [], time.monotonic() + 10
    while len(requests) < RATE * SECONDS and time.monotonic() < deadline:
        time.sleep(0.2)
        if os.path.exists(log):
            lines = [line.split() for line in open(log)]
            requests = sorted((int(a), int(b)) for what, a, b in lines if what == "request")
            stalls = [(int(a), int(b)) for what, a, b in lines if what == "stall"]
    server.kill()
    server.wait()
    if len(requests) != RATE * SECONDS:
        sys.exit(f"the server logged {len(requests)} requests, {RATE * SECONDS} were due")
    return json.load(open(out)), requests, stalls


def truth(requests, stalls):
    """Latencies in seconds, sorted, and what they were computed from."""
    gap = 1e9 / RATE
    origin = min(came - i * gap for i, (came, _) in enumerate(requests))
    end = origin + SECONDS * 1e9
    stalls = [(s - origin, e - origin) for s, e in stalls if e > origin and s < end]
    # The rate while a backlog is there: the answers of the first part of each recovery.
    cycles = []
    for _, over in stalls:
        answers = sorted(a - origin for _, a in requests if a - origin >= over)[:1200]
        if len(answers) == 1200:
            cycles.append((answers[-1] - answers[200]) / 1000 * CONNECTIONS)
    cycle = statistics.median(cycles)
    # While nothing waits, an answer takes what the server says it took.
    alone = statistics.median(answered - came for came, answered in requests)
    free, latencies, at = [0.0] * CONNECTIONS, [], 0
    for i in range(RATE * SECONDS):
        due = i * gap
        start = max(due, heapq.heappop(free))
        while at < len(stalls) and stalls[at][1] <= start:
            at += 1
        stall = stalls[at] if at < len(stalls) else (float("inf"), float("inf"))
        start = stall[1] if stall[0] <= start < stall[1] else start
        answered = start + (alone if start == due else cycle)
        if start < stall[0] < answered < stall[1]:
            answered = stall[1]
        heapq.heappush(free, max(answered, start + cycle))
        latencies.append((answered - due) / 1e9)
    return sorted(latencies), origin, cycle, stalls


def at(values, quantile):
    return values[min(int(quantile * len(values)), len(values) - 1)]


def measured(result, quantile):
    """From the histogram that the result carries: [upper edge in ns, count]."""
    rows = result["latency"]["corrected"]["histogram"]
    rank, seen = quantile * sum(count for _, count in rows), 0
    for value, count in rows:
        seen += count
        if seen >= rank:
            return value / 1e9
    return rows[-1][0] / 1e9


def show(seconds):
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms" if seconds < 0.1 else f"{seconds * 1e3:.1f} ms"


def row(case, round_, result, requests, stalls):
    latencies, origin, cycle, stalls = truth(requests, stalls)
    gap = 1e9 / RATE
    seen = sorted((answered - origin - i * gap) / 1e9 for i, (_, answered) in enumerate(requests))
    delayed = sum(1 for value in latencies if value > cycle / 1e9 + 1e-3)
    corrected, worst = result["latency"]["corrected"], 0.0
    cells = [case[0], str(round_ + 1), f"{delayed / len(latencies) * 100:.2f} %", f"{CONNECTIONS / cycle * 1e9:,.0f}/s"]
    for name, quantile in QUANTILES:
        value = corrected[name]
        if name in case[2]:
            off = value / at(latencies, quantile) - 1
            worst = max(worst, abs(off))
            cells.append(f"{show(value)} / {show(at(latencies, quantile))} ({off * 100:+.2f} %)")
        else:
            cells.append(f"{show(value)} (server {show(at(seen, quantile))})")
    cells += [f"{show(measured(result, 0.895))} to {show(measured(result, 0.905))}",
              show(result["client"]["lateness"]["p99_9"]), show(corrected["max"])]
    return "| " + " | ".join(cells) + " |", worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tidewire", default=TIDEWIRE)
    parser.add_argument("--markdown")
    parser.add_argument("--keep", help="a directory for the results of the first round")
    options = parser.parse_args()
    lines = ["| case | round | delayed | drain | p50 | p90 | p99 | p99.9 | p89.5 to p90.5 | noticed late, p99.9 | max |",
             "|---|--:|--:|--:|---|---|---|---|---|--:|--:|"]
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(options.rounds):
            for number, case in enumerate(CASES):
                result, requests, stalls = run(case, options.tidewire, folder)
                line, off = row(case, round_, result, requests, stalls)
                worst = max(worst, off)
                lines.append(line)
                print(line, flush=True)
                if options.keep and round_ == 0:
                    os.replace(os.path.join(folder, "out.json"), os.path.join(options.keep, f"stall-{number + 1}.json"))
    text = "\n".join(lines) + f"\n\nFurthest from the truth: {worst * 100:.2f} %.\n"
    print(text)
    if options.markdown:
        open(options.markdown, "w").write(text)
    sys.exit(0 if worst <= 0.05 else 1)


if __name__ == "__main__":
    main()
