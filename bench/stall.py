#!/usr/bin/env python3
"""The stall experiment with a truth that the load generator has no part in.

The server (bench/peers/raw-epoll) stands still for 1 s now and then and logs when it stalled, and
when each request came and was answered. The truth is simulated from three things only: the schedule
(request i is due at i/rate), the stalls that the server logged, and the rate at which it answered
while it worked off the backlog of each (8 connections, one request each at a time, first come first
served). That rate is in the table: a generator that sends slowly, or another tenant of the machine,
shows there.

Server on core 0, generator on core 1; rounds of the cases are interleaved.

Usage: bench/stall.py [--rounds N] [--tidewire PATH] [--keep DIRECTORY]

With --keep the directory gets `stall.md` (a row per case), `stall-rounds.md` (a row per round) and
the first result of the first case.
"""
import argparse, bisect, heapq, json, os, shutil, statistics, subprocess, sys, tempfile, time

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
    # The time per request and connection while a backlog is there, stall by stall: between the
    # 100th and the 1,500th answer of each recovery.
    answers = sorted(answered - origin for _, answered in requests)
    cycles = []
    for _, over in stalls:
        first = bisect.bisect_left(answers, over)
        cycles.append((answers[first + 1500] - answers[first + 100]) / 1400 * CONNECTIONS if first + 1500 < len(answers) else None)
    known = [cycle for cycle in cycles if cycle]
    cycles = [cycle or statistics.median(known) for cycle in cycles]
    # While nothing waits, an answer takes what the server says it took.
    alone = statistics.median(answered - came for came, answered in requests)
    free, latencies, at = [0.0] * CONNECTIONS, [], 0
    for i in range(RATE * SECONDS):
        due = i * gap
        start = max(due, heapq.heappop(free))
        while at < len(stalls) and stalls[at][1] <= start:
            at += 1
        stall = stalls[at] if at < len(stalls) else (float("inf"), float("inf"))
        stands = stall[0] <= start < stall[1]
        start = stall[1] if stands else start
        # What had to wait goes at the pace of the recovery that it is part of.
        recovery = at if stands else at - 1
        took = cycles[recovery] if start > due and recovery >= 0 else alone
        answered = start + took
        if start < stall[0] < answered < stall[1]:
            answered = stall[1]
        heapq.heappush(free, answered)
        latencies.append((answered - due) / 1e9)
    return sorted(latencies), origin, cycles, alone


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


def row(case, round_, result, requests, stalls, seen_so_far):
    latencies, origin, cycles, alone = truth(requests, stalls)
    gap = 1e9 / RATE
    seen = sorted((answered - origin - i * gap) / 1e9 for i, (_, answered) in enumerate(requests))
    delayed = sum(1 for value in latencies if value > alone / 1e9 + 1e-3)
    corrected, worst = result["latency"]["corrected"], 0.0
    cells = [case[0], str(round_ + 1), f"{delayed / len(latencies) * 100:.2f} %", " ".join(f"{CONNECTIONS / cycle * 1e6:,.1f}" for cycle in cycles)]
    for name, quantile in QUANTILES:
        value = corrected[name]
        if name in case[2]:
            off = value / at(latencies, quantile) - 1
            seen_so_far.setdefault((case[0], name), []).append((value, at(latencies, quantile), off))
            worst = max(worst, abs(off))
            cells.append(f"{show(value)} / {show(at(latencies, quantile))} ({off * 100:+.2f} %)")
        else:
            cells.append(f"{show(value)} (server {show(at(seen, quantile))})")
            seen_so_far.setdefault((case[0], name), []).append((value, None, None))
    cells += [f"{show(measured(result, 0.895))} to {show(measured(result, 0.905))}",
              show(result["client"]["lateness"]["p99_9"]), show(corrected["max"])]
    return "| " + " | ".join(cells) + " |", worst


def summary(known):
    """A row per case: the median measured, the median truth, and the worst difference of any round."""
    lines = ["| case | p50 | p90 | p99 | p99.9 |", "|---|---|---|---|---|"]
    for case in CASES:
        cells = [case[0]]
        for name, _ in QUANTILES:
            values, truths, offs = zip(*known[case[0], name])
            if truths[0] is None:
                cells.append(f"{show(min(values))} to {show(max(values))}, not computable")
            else:
                worst = max(offs, key=abs)
                cells.append(f"{show(statistics.median(values))}, truth {show(statistics.median(truths))} (worst {worst * 100:+.2f} %)")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tidewire", default=TIDEWIRE)
    parser.add_argument("--keep")
    options = parser.parse_args()
    lines = ["| case | round | delayed | drain, 1,000/s | p50 | p90 | p99 | p99.9 | p89.5 to p90.5 | noticed late, p99.9 | max |",
             "|---|--:|--:|--:|---|---|---|---|---|--:|--:|"]
    worst, known = 0.0, {}
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(options.rounds):
            for number, case in enumerate(CASES):
                result, requests, stalls = run(case, options.tidewire, folder)
                line, off = row(case, round_, result, requests, stalls, known)
                worst = max(worst, off)
                lines.append(line)
                print(line, flush=True)
                if options.keep and round_ == number == 0:
                    shutil.copy(os.path.join(folder, "out.json"), os.path.join(options.keep, "stall-open.json"))
    print(summary(known))
    print(f"furthest from the truth: {worst * 100:.2f} %")
    if options.keep:
        open(os.path.join(options.keep, "stall.md"), "w").write(summary(known))
        open(os.path.join(options.keep, "stall-rounds.md"), "w").write("\n".join(lines) + "\n")
    sys.exit(0 if worst <= 0.05 else 1)


if __name__ == "__main__":
    main()
