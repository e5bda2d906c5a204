#!/usr/bin/env python3
"""What a mock costs beside its answers: its start with 100 `.proto` files, a reload from the write of a file to the
first new answer, and 100,000 rules of one method that differ by a literal beside one rule.

The mock is on core 0, what asks on core 1. A start is from before the process to its first answer, asked for without
a rest; `bare` is `tidewire --version`, what starting any process of that size takes. The answers of one rule and
of 100,000 are measured in turn.

Usage: bench/mock.py [--rounds N] [--seconds S] [--tidewire PATH] [--markdown FILE]
"""
import argparse, http.client, json, os, statistics, subprocess, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
TIDEWIRE = os.path.join(HERE, "..", "target", "release", "tidewire")
RULES = 100_000
TICK = os.sysconf("SC_CLK_TCK")

PROTO = """syntax = "proto3";
package many.v1.p{n};
import "google/protobuf/timestamp.proto";
service Service{n} {{
  rpc Get(GetRequest) returns (GetReply);
  rpc List(GetRequest) returns (stream GetReply);
}}
message GetRequest {{ string name = 1; int32 count = 2; }}
message GetReply {{
  string name = 1; repeated Row rows = 2; google.protobuf.Timestamp created_at = 3;
  message Row {{ string id = 1; string owner_email = 2; double price = 3; map<string, string> labels = 4; }}
}}
"""


class Mock:
    def __init__(self, tidewire, folder, rules=None):
        command = ["taskset", "-c", "0", tidewire, "mock", folder, "--listen", "127.0.0.1:0"]
        if rules:
            command += ["--rules", rules]
        self.log = open(os.path.join(folder, "..", "log"), "w+")
        self.began = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        self.address = line.removeprefix("listening on ").strip()
        self.connection = http.client.HTTPConnection(self.address, timeout=30)

    def ask(self, name="x", path="/many.v1.p7.Service7/Get"):
        self.connection.request("POST", path, json.dumps({"name": name}), {"content-type": "application/json"})
        response = self.connection.getresponse()
        body = response.read()
        assert response.status == 200, (response.status, body)
        return json.loads(body)

    def resident(self):
        rows = dict(line.split(":", 1) for line in open(f"/proc/{self.process.pid}/status"))
        return int(rows["VmRSS"].split()[0]) / 1024

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def stop(self):
        self.process.terminate()
        self.process.wait()


def write(path, text):
    """As editors do: a file beside it, renamed over it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path + "~", "w").write(text)
    os.rename(path + "~", path)


def rules_of(count):
    lines = [f"  - {{when: {{request.name: name-{n}}}, body: {{name: answer-{n}}}}}" for n in range(count)]
    return "responses:\n" + "\n".join(lines) + "\n"


def starts(tidewire, folder, rounds):
    found, bare, resident = [], [], []
    for _ in range(rounds):
        began = time.monotonic()
        subprocess.run(["taskset", "-c", "0", tidewire, "--version"], stdout=subprocess.DEVNULL, check=True)
        bare.append(time.monotonic() - began)
        mock = Mock(tidewire, folder)
        mock.ask()
        found.append(time.monotonic() - mock.began)
        resident.append(mock.resident())
        mock.stop()
    return found, bare, resident


def reloads(tidewire, folder, rounds):
    rules = os.path.join(folder, "..", "rules")
    file = os.path.join(rules, "many.v1.p7.service7.get.yaml")
    write(file, "responses:\n  - body: {name: answer-0}\n")
    mock = Mock(tidewire, folder, rules)
    found = []
    for n in range(1, rounds + 1):
        mock.ask()
        began = time.monotonic()
        write(file, f"responses:\n  - body: {{name: answer-{n}}}\n")
        while mock.ask()["name"] != f"answer-{n}":
            pass
        found.append(time.monotonic() - began)
    mock.stop()
    return found


def many(tidewire, folder, rounds, seconds):
    """p50 and CPU of a call by rules, of one rule and of 100,000 of which the last answers."""
    of = {}
    for count in (1, RULES):
        rules = os.path.join(folder, "..", f"rules-{count}")
        write(os.path.join(rules, "many.v1.p7.service7.get.yaml"), rules_of(count))
        of[count] = Mock(tidewire, folder, rules)
        assert of[count].ask(f"name-{count - 1}")["name"] == f"answer-{count - 1}"
    found = {count: [] for count in of}
    for _ in range(rounds):
        for count, mock in of.items():
            with tempfile.NamedTemporaryFile(suffix=".json") as out:
                before = mock.cpu()
                url = f"http://{mock.address}/many.v1.p7.Service7/Get"
                subprocess.run(["taskset", "-c", "1", tidewire, "bench", "run", url, "-m", "POST", "-c", "1", "-z", f"{seconds}s",
                                "-H", "content-type: application/json", "--body", json.dumps({"name": f"name-{count - 1}"}),
                                "--json", out.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
                found[count].append((json.load(open(out.name)), mock.cpu() - before))
    resident = {count: mock.resident() for count, mock in of.items()}
    for mock in of.values():
        mock.stop()
    return found, resident


def spread(values, scale=1000, digits=1):
    return f"{statistics.median(values) * scale:.{digits}f} ({min(values) * scale:.{digits}f}–{max(values) * scale:.{digits}f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--tidewire", default=TIDEWIRE)
    parser.add_argument("--markdown")
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "protos")
        for n in range(100):
            write(os.path.join(folder, f"p{n}.proto"), PROTO.format(n=n))
        found, bare, resident = starts(options.tidewire, folder, options.rounds)
        again = reloads(options.tidewire, folder, options.rounds)
        calls, held = many(options.tidewire, folder, 5, options.seconds)
    rows = [
        ("start with 100 `.proto` files, to the first answer, ms", spread(found), "50"),
        ("a start of the program that does nothing (`--version`), ms", spread(bare), ""),
        ("resident then, MiB", spread(resident, 1), "30"),
        ("reload: from the write of a rule file to the first new answer, ms", spread(again), "20"),
    ]
    for count, runs in calls.items():
        p50 = [run["latency"]["raw"]["p50"] for run, _ in runs]
        cpu = [cpu / run["requests"]["ok"] for run, cpu in runs]
        rows.append((f"{count:,} rule{'s' * (count > 1)}, one call under way: p50, µs", spread(p50, 1e6), ""))
        rows.append((f"{count:,} rule{'s' * (count > 1)}: CPU a call, µs", spread(cpu, 1e6), ""))
        rows.append((f"{count:,} rule{'s' * (count > 1)}: resident, MiB", f"{held[count]:.1f}", ""))
    text = "| what | median (least–most) | bar |\n|---|--:|--:|\n" + "".join(f"| {a} | {b} | {c} |\n" for a, b, c in rows)
    print(text)
    if options.markdown:
        open(options.markdown, "w").write(text)


if __name__ == "__main__":
    main()
