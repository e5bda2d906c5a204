"""What a warm call costs the program of a language: python3 sdk/tests/warm.py [--calls N] [--at-once N] [PROGRAM...]

The test is the gateway, at the other end of the socket that a program inherits. It asks `Echo` many times, `at-once`
of them open, the next as soon as one is answered. What is shown is the time of all threads of the program on a core,
its user and system parts, for a call: best of several slices. It does not depend on how fast this script is, but on
how much the program finds to do at once: one call at once is the worst case.
"""

import argparse
import os

import test_attacks as attacks

wire = attacks.wire
HEADERS = [("content-type", "application/json"), ("accept", "*/*"), ("user-agent", "warm/1"), ("host", "127.0.0.1:8080")]
BODY = b'{"text":"a text of some length"}'


def asked(stream, is_first):
    name = wire.put_field(2, b"\1/tidewire.hosted.v1.Hosted/Echo") if is_first else b""
    metadata = wire.put_field(1, 0) + name + wire.put_headers(HEADERS)
    return wire.put_frame("request", stream, wire.END, metadata, BODY, 30_000)


def on_core(pid):
    """Nanoseconds that the threads of a process were on a core."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


def parts(pid):
    with open(f"/proc/{pid}/stat") as file:
        return [int(ticks) for ticks in file.read().rpartition(")")[2].split()[11:13]]


def a_slice(gateway, calls, at_once):
    """So many calls, each answered alike: what answers a stream is its number at the same place of each frame."""
    size = len(attacks.frame("reply", 2, wire.END, BODY))
    frames = {2 * slot + 2: asked(2 * slot + 2, False) for slot in range(at_once)}
    gateway.socket.sendall(b"".join(frames.values()))
    rest = b""
    while calls:
        rest += gateway.socket.recv(1 << 18)
        whole = len(rest) // size * size
        streams, rest = rest[4:whole:size], rest[whole:]
        calls -= len(streams)
        open_again = streams[: max(0, calls - (at_once - len(streams)))]
        if open_again:
            gateway.socket.sendall(b"".join(frames[stream] for stream in open_again))
    assert not rest, rest


def measure(program, calls, at_once, slices):
    with attacks.Gateway([str(word) for word in attacks.PROGRAMS[program]]) as gateway:
        pid = gateway.program.pid
        gateway.greet().send(asked(2, True))
        gateway.until("reply", 2)
        a_slice(gateway, calls, at_once)
        found = []
        for _ in range(slices):
            ticks, before = parts(pid), on_core(pid)
            a_slice(gateway, calls, at_once)
            user, system = (now - then for now, then in zip(parts(pid), ticks))
            found.append((on_core(pid) - before, user / max(1, user + system)))
        gateway.ends()
    best, user = min(found)
    micro = best / calls / 1000
    print(f"| {program} | {at_once} | {micro:.1f} | {user * micro:.1f} | {1e6 / micro:,.0f} |", flush=True)


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("programs", nargs="*", metavar="PROGRAM")
    words.add_argument("--calls", type=int, default=10_000)
    words.add_argument("--slices", type=int, default=5)
    words.add_argument("--at-once", type=int, nargs="+", default=[1, 8])
    words = words.parse_args()
    attacks.build()
    print("| program | calls at once | µs on a core/call | of them user | calls/s of a core |\n|---|--:|--:|--:|--:|")
    for program in words.programs or attacks.PROGRAMS:
        for at_once in words.at_once:
            measure(program, words.calls, at_once, words.slices)
