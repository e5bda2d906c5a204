"""A mock, and its sessions.

A session is a mock within the mock: its rules, its state and its calls are those of requests with its header, so that
tests which run beside one another share one program.
"""

import dataclasses
import json
import urllib.request
import uuid

from . import program as programs
from .admin import VerifyError, ask
from .rule import Rule, conditions

SESSION_HEADER = "x-mock-session"


@dataclasses.dataclass(frozen=True)
class Call:
    """A call that came; `requests` and `headers` are without what is called a secret."""

    number: int
    method: str
    session: str
    # The response that answered, `FILE:LINE`; empty where the schema alone did.
    rule: str
    # `ok`, or the code of the error: `canceled` if the caller left, `deadline_exceeded` if its deadline passed.
    # `running` while the call runs; the fault, such as `reset`, if one broke the answer.
    code: str
    # The message of the error; empty without one.
    reason: str
    requests: list
    headers: dict

    @classmethod
    def _of(cls, told):
        requests = [_parsed(text) for text in told.get("requests", ())]
        headers = {one["name"]: one.get("value") for one in told.get("headers", ())}
        texts = (told.get(name, "") for name in ("method", "session", "rule", "code", "reason"))
        return cls(int(told["number"]), *texts, requests, headers)


@dataclasses.dataclass(frozen=True)
class NearMiss:
    """A call that no response with conditions answered, and what of the nearest did not hold."""

    call: Call
    nearest: str
    misses: list


class _Scope:
    """What a mock and a session have in common; the mock itself is the session without a name."""

    def __init__(self, program, name):
        self._program = program
        self._name = name

    @property
    def url(self):
        """`http://127.0.0.1:PORT`, for Connect, gRPC-Web, REST and gRPC."""
        return f"http://{self._program.address}"

    @property
    def target(self):
        """`127.0.0.1:PORT`, as channels of gRPC want it."""
        return self._program.address

    @property
    def headers(self):
        """What requests are sent with: the header of a session; nothing for the mock itself."""
        return {SESSION_HEADER: self._name} if self._name else {}

    @property
    def metadata(self):
        """The headers as calls of grpcio want them."""
        return tuple(self.headers.items())

    def request(self, path, document=None, **headers):
        """A request for `urllib.request.urlopen` with these headers; a document is its body, in JSON."""
        data = None if document is None else json.dumps(document).encode()
        headers = {"content-type": "application/json", **self.headers, **headers}
        return urllib.request.Request(self.url + path, data, headers)

    def on(self, method):
        """Begins a response of a method, `shop.v1.Cart/GetPrice`.

        Of responses that fit, the one that was added first answers; those without conditions last.
        """
        return Rule(
            lambda response: self._ask(
                "Stub", method=_name(method), response=response, session=self._name
            )
        )

    def verify(
        self, method, with_=None, *, headers=None, exactly=None, at_least=None, at_most=None
    ):
        """Raises a `VerifyError` if another number of calls came than is wanted: at least 1 unless it is said."""
        reply = self._ask(
            "Verify",
            method=_name(method),
            session=self._name,
            with_=json.dumps(conditions(with_ or {})),
            with_headers=json.dumps(headers or {}),
            exactly=exactly,
            at_least=at_least,
            at_most=at_most,
        )
        if not reply.get("verified"):
            raise VerifyError(reply["problem"])

    def calls(self, method=None):
        """The calls that came, the oldest first."""
        found, after = [], 0
        wanted = {"session": self._name, "bodies": True, "limit": 1000}
        while True:
            told = self._ask("ListCalls", method=method and _name(method), after=after, **wanted)
            calls = [Call._of(one) for one in told.get("calls", ())]
            if not calls:
                return found
            found += calls
            after = calls[-1].number

    def near_misses(self):
        """The calls that no response with conditions answered, the closest first, and the nearest response."""
        told = self._ask("NearMisses", session=self._name, limit=1000)
        return [
            NearMiss(Call._of(one["call"]), one.get("nearest", ""), one.get("misses", []))
            for one in told.get("misses", ())
        ]

    def reset(self):
        """Forgets calls, counts and state; of a session its rules too."""
        self._ask("Reset", session=self._name)

    def _ask(self, verb, /, **request):
        return ask(
            self._program, verb, {name.rstrip("_"): value for name, value in request.items()}
        )


class Session(_Scope):
    """A part of a mock with rules, state and calls of its own; as a context it is reset at the end."""

    @property
    def name(self):
        return self._name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.reset()


class Mock(_Scope):
    """A running `tidewire mock`; it ends with `close`, as a context, or with this process."""

    @classmethod
    def start(
        cls,
        protos="protos",
        *,
        rules=None,
        program=None,
        port=0,
        seed=0,
        validate=False,
        without_rule=None,
        upstream=None,
        watch=False,
        arguments=(),
    ):
        """Starts `tidewire mock`, which is `program`, that of the variable TIDEWIRE, or the one on PATH.

        `protos` is a folder of `.proto` files, such a file, or a descriptor set; `rules` a folder of rule files;
        `without_rule` is `generated` or `unimplemented`; `upstream` the URL of the real service.
        """
        options = (rules, program, port, seed, validate, without_rule, upstream, watch, arguments)
        return cls(programs.start(protos, *options), "")

    @property
    def pid(self):
        return self._program.process.pid

    def session(self, name=None):
        """A session; its name is one that no other has unless it is said."""
        return Session(self._program, name or str(uuid.uuid4()))

    def set_faults(self, faults, method=""):
        """Lets answers go wrong, all or those of a method, whatever their rules; `None` ends it."""
        self._ask("SetFaults", text=json.dumps(faults) if faults else "", method=_name(method))

    def close(self):
        self._program.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _name(method):
    """A method by its name, or by what protobuf knows of it."""
    service = getattr(method, "containing_service", None)
    return f"{service.full_name}/{method.name}" if service is not None else method.lstrip("/")


def _parsed(text):
    """A request that has no JSON is told as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
