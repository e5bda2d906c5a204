"""Answers that cannot be sent as they are, by the program of each language: python3 sdk/tests/test_answers.py [PROGRAM...]

An answer that was made of more than its metadata can name goes out, and is never kept for too long: it says that it
was made of whole sources, or of what cannot be told. Whatever else a handler says that the protocol has no room for
fails that one call, at once; the next call of the same program is answered.
"""

import os
import socket
import subprocess
import sys
import tempfile
import unittest

import test_attacks as attacks

wire, Gateway = attacks.wire, attacks.Gateway
ITEMS, UNTOLD = [b"items"], []


def page(verb, target, *headers):
    fields = wire.put_field(12, verb.encode()) + wire.put_field(13, target.encode())
    return wire.put_frame("request", 2, wire.END | wire.HTTP, fields + wire.put_headers(headers))


def made_of(metadata):
    """What an answer says that it was made of: lists of a source and a key, of a source, of nothing."""
    found, at = [], 0
    while at < len(metadata):
        tag, at = metadata[at], at + 1
        if tag == 0:
            _, at = wire.take_string(metadata, at)
        value, at = wire.take_string(metadata, at)
        if tag == 15:
            parts, within = [], 0
            while within < len(value):
                part, within = wire.take_string(value, within)
                parts.append(part)
            found.append(parts)
    return found


class Told(Gateway):
    """A gateway that keeps what came before an answer."""

    def ask(self, data):
        """The frames of an answer to what is asked on stream 2, those of stream 0 before them."""
        self.send(data)
        found = []
        while not found or found[-1].stream != 2 or not self.is_last(found[-1]):
            found.append(self.frame())
            assert found[-1], "the program ended"
        return found

    def is_last(self, frame):
        return frame.name in ("error", "end") or frame.name == "reply" and frame.flags & wire.END

    def do(self, text):
        return self.ask(attacks.request(2, "Do", b'{"text":"%s"}' % text.encode()))


def code(frames):
    """Of an error its code, of another answer `reply`."""
    last = frames[-1]
    return wire.CODES[last.number(8)] if last.name == "error" else "reply"


def an_answer_made_of(text, expected):
    def play(gateway, program):
        found = gateway.do(text)[-1]
        assert (found.name, found.payload) == ("reply", b'{"text":"%s"}' % text.encode()), found.text(9)
        assert made_of(found.metadata) == expected, made_of(found.metadata)[:9]

    return play


def an_answer_that_fails(text):
    def play(gateway, program):
        assert code(gateway.do(text)) == "internal"

    return play


def any_key_changes(text, answer):
    def play(gateway, program):
        *told, last = gateway.do(text)
        assert [(frame.name, frame.payload) for frame in told] == [("changed", b"\x05items\x00")]
        assert code([last]) == answer

    return play


def an_error_made_of_more_than_fits(gateway, program):
    found = gateway.ask(attacks.request(2, "Fail", b'{"text":"%s"}' % ("x" + "é" * 9_000).encode()))
    assert code(found) == "not_found", found[-1].text(9)
    assert made_of(found[-1].metadata) == [ITEMS]
    assert found[-1].fields[9].decode().startswith("there is no x"), "the message is text"


def a_stream_whose_trailers_are_too_long(gateway, program):
    found = gateway.ask(attacks.request(2, "Count", b'{"number":-1}'))
    assert code(found) == "internal"
    assert [frame.name for frame in found] == ["reply", "items", "error"]


def a_line_of_the_log_that_is_too_long(gateway, program):
    log = gateway.do("long log")[0]
    assert log.name == "log" and len(log.payload) <= wire.PAYLOAD_MAX
    assert log.payload.decode().startswith("xéé"), "it is text"


def every_field_of_a_line_of_the_log(gateway, program):
    log = gateway.do("fields")[0]
    assert log.name == "log", log.name
    expected = [("under_score", "1"), ("sp-ace", "v"), ("lf", r"a\r\nb\u{1b}c")]
    assert sorted(log.headers) == sorted(expected), log.headers


def an_answer_that_is_no_json(gateway, program):
    if program in ("python", "async", "dotnet"):
        assert code(gateway.do("no json")) == "internal"


def a_number_that_is_none(gateway, program):
    if program != "go":  # Whose own encoder refuses it.
        found = gateway.do("nan")[-1]
        assert (found.name, found.payload) == ("reply", b'{"number":"NaN"}'), found.payload


def a_page_that_is_destroyed(gateway, program):
    if program == "http":
        assert gateway.ask(page("GET", "/destroy"))[0].number(14) == 502
        found = gateway.ask(page("GET", "/half"))
        assert (found[0].name, found[-1].name) == ("reply", "error"), found[-1].name


def a_trace(gateway, program):
    if program == "node":
        assert gateway.ask(page("TRACE", "/"))[0].number(14) == 501


def a_page_that_switches(gateway, program):
    assert code(gateway.ask(page("GET", "/switch"))) == "internal"
    handshake = page("GET", "/", ("sec-websocket-version", "13"))
    assert gateway.ask(handshake)[0].number(14) == 501


def a_header_of_any_bytes(gateway, program):
    for said in ("name=ł".encode(), b"\xff\xfe", "é".encode(), "é".encode("latin-1")):
        head = gateway.ask(page("GET", "/", ("x-name", said)))[0]
        assert head.name == "reply", head.text(9)
        assert ("x-back", said.decode("utf-8", "surrogateescape")) in head.headers, head.headers


def the_address_of_a_caller(gateway, program):
    forms = {"go": "{}:{}", "dotnet": "{}:{}", "async": "{}:{}", "python": "{}"}
    callers = (("10.1.2.3", "10.1.2.3", 0), ("10.1.2.3:77", "10.1.2.3", 77), ("::1", "::1", 0))
    for said, host, port in (*callers, ("[::1]:7", "::1", 7), ("10.9.9.9, 10.1.2.3", "10.9.9.9", 0)):
        head = gateway.ask(page("GET", "/", ("x-forwarded-for", said)))[0]
        host = f"[{host}]" if program in ("go", "dotnet") and ":" in host else host
        is_told = ("x-remote", forms.get(program, "").format(host, port)) in head.headers
        assert is_told or program not in forms, head.headers


def a_function_that_forks_and_comes_back_twice(gateway, program):
    if program == "python":
        assert [frame.payload for frame in gateway.do("fork")] == [b'{"text":"0"}']


def what_is_no_error_of_go(gateway, program):
    if program == "go":
        assert code(gateway.do("goexit")) == code(gateway.do("nil error")) == "internal"
        found = gateway.do("no text")[-1]
        assert (found.name, found.text(9)) == ("error", "a \ufffd b"), found.text(9)


def an_error_with_details_that_are_none(gateway, program):
    if program != "go":  # Its types refuse them.
        (last,) = gateway.do("bad details")
        assert (code([last]), last.text(9)) == ("internal", "the handler failed; its log says why")


def an_error_whose_text_has_line_feeds(gateway, program):
    if program == "dotnet":
        (last,) = gateway.do("lines")
        assert (code([last]), last.text(9)) == ("not_found", "one\r\ntwo\n\nthree"), last.text(9)
        (last,) = gateway.do("raise lines")
        assert (code([last]), last.text(9)) == ("internal", "the handler failed; its log says why")


def what_is_called_too_late_by_node(gateway, program):
    if program in ("node", "http"):
        (last,) = gateway.do("late call")
        assert code([last]) == "deadline_exceeded", "and nothing was sent"
        (last,) = gateway.do("aborted call")
        assert code([last]) == "aborted", "and nothing was sent"
        assert code(gateway.do("odd call")) == "internal"


def what_is_no_source_of_node(gateway, program):
    if program in ("node", "http"):
        assert code(gateway.do("bad depends")) == "internal"


def the_life_of_an_application(gateway, program):
    if program == "async":
        assert ("x-pool", "open") in gateway.ask(page("GET", "/"))[0].headers


CASES = {
    "an answer made of two things, one of them twice": an_answer_made_of(
        "few", [[b"items", b"1"], [b"items", b"a%2Fb"]]
    ),
    "an answer made of twenty thousand things": an_answer_made_of("many", [ITEMS]),
    "an answer made of many things of two sources": an_answer_made_of("two", [ITEMS, [b"tags"]]),
    "an answer made of a long key": an_answer_made_of("long key", [ITEMS]),
    "an answer made of a long source": an_answer_made_of("long source", [UNTOLD]),
    "an answer with a long header": an_answer_that_fails("long header"),
    "an answer with a long trailer": an_answer_that_fails("long trailer"),
    "an error that cannot be shown": an_answer_that_fails("hook"),
    "a change of a key that is too long": any_key_changes("long changed", "reply"),
    "a change of what is no key": any_key_changes("no key", "internal"),
}
for case in (
    *(an_error_made_of_more_than_fits, a_stream_whose_trailers_are_too_long),
    *(a_line_of_the_log_that_is_too_long, every_field_of_a_line_of_the_log, an_answer_that_is_no_json),
    *(a_number_that_is_none, a_page_that_is_destroyed),
    *(a_trace, a_page_that_switches, a_header_of_any_bytes, the_address_of_a_caller, the_life_of_an_application),
    *(a_function_that_forks_and_comes_back_twice, what_is_no_error_of_go, what_is_no_source_of_node),
    *(an_error_with_details_that_are_none, an_error_whose_text_has_line_feeds, what_is_called_too_late_by_node),
):
    CASES[case.__name__.replace("_", " ")] = case
# What the types of Go refuse.
WRONG = {"wrong " + what: an_answer_that_fails("wrong " + what) for what in ("depends", "changed", "log")}


class Answers(unittest.TestCase):
    def check(self, program):
        cases = CASES if program == "go" else {**CASES, **WRONG}
        with Told([str(word) for word in attacks.PROGRAMS[program]]) as gateway:
            gateway.greet()
            for name, play in cases.items():
                with self.subTest(name):
                    play(gateway, program)
                    gateway.ask(attacks.request(2, "Echo"))
            gateway.ends()


class Life(unittest.TestCase):
    """The start and the end of an application that speaks ASGI."""

    def run_until(self, what, **environment):
        near, far = socket.socketpair()
        with near, far:
            variables = {**os.environ, **environment, "TIDEWIRE_FD": str(far.fileno())}
            command = [str(word) for word in attacks.PROGRAMS["async"]]
            program = subprocess.Popen(
                command, env=variables, pass_fds=[far.fileno()], stderr=subprocess.PIPE, text=True
            )
            far.close()
            near.sendall(attacks.hello())
            heard, ready = b"", wire.put_frame("ready")
            while ready not in heard and (data := near.recv(65_536)):
                heard += data
            what(program, near)
            _, said = program.communicate(timeout=attacks.HANG)
            return ready in heard, program.returncode, said

    def test_an_application_is_told_of_its_end_however_it_comes(self):
        ends = (lambda program, _: program.terminate(), lambda _, near: near.close())
        for end in ends:
            self.assertEqual(self.run_until(end), (True, 0, "shutdown ran\n"))

    def test_an_application_that_does_not_start_is_no_program(self):
        said = "the application did not start: no pool\n"
        self.assertEqual(self.run_until(lambda *_: None, START="fails"), (False, 1, said))

    def test_an_application_may_call_while_it_starts(self):
        command = ["env", "START=calls", *(str(word) for word in attacks.PROGRAMS["async"])]
        with Told(command) as gateway:
            gateway.send(attacks.hello())
            asked = gateway.until("request")
            self.assertEqual(asked.payload, b'{"text":"open by a call"}')
            answer = wire.put_frame("reply", asked.stream, wire.END, payload=asked.payload)
            gateway.send(answer)
            self.assertEqual(gateway.until("ready").stream, 0)
            self.assertIn(("x-pool", "open by a call"), gateway.ask(page("GET", "/"))[0].headers)
            gateway.ends()


def quiet_after_a_deadline(self):
    """Its own clock ends the handler, before the gateway says so."""
    with tempfile.NamedTemporaryFile() as said:
        command = ["sh", "-c", f'exec "$@" 2>{said.name}', "sh", *map(str, attacks.PROGRAMS["dotnet"])]
        with Told(command) as gateway:
            gateway.greet()
            late = attacks.request(2, "Wait", b'{"text":"late"}', deadline=50)
            self.assertEqual(code(gateway.ask(late)), "deadline_exceeded")
            gateway.ends()
        self.assertEqual(said.read(), b"")


CHOSEN = sys.argv[1:] or attacks.PROGRAMS
if "dotnet" in CHOSEN:
    Answers.test_a_handler_that_ends_with_its_deadline_leaves_no_trace = quiet_after_a_deadline
for chosen in CHOSEN:
    name = f"test_a_program_of_{chosen}_fails_one_call_by_what_cannot_be_sent"
    setattr(Answers, name, lambda self, chosen=chosen: self.check(chosen))

if __name__ == "__main__":
    attacks.build(CHOSEN)
    unittest.main(argv=sys.argv[:1])
