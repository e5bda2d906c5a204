"""Responses as rule files have them, from calls one after the other; and what of them is JSON."""

import base64
import datetime
import enum
import json


def document(value):
    """A message as JSON: a plain document, or a message of google.protobuf."""
    if hasattr(value, "DESCRIPTOR") and hasattr(value, "SerializeToString"):
        from google.protobuf import json_format  # It is there, since the message is.

        return json_format.MessageToDict(value, preserving_proto_field_name=True)
    if isinstance(value, dict):
        return {str(key): document(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [document(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, enum.Enum):
        return value.name
    return value


def conditions(wanted):
    """What is wanted of requests, by path: of a message, all that is set in it."""
    if isinstance(wanted, dict):
        return document(wanted)
    told = document(wanted)
    if not isinstance(told, dict):
        return {"": {"equals": told}}
    return {path: {"equals": value} for path, value in told.items()}


class Rule:
    """A stub in the making; `reply`, `reply_stream`, `fail` and `pass_on` add it to the mock."""

    def __init__(self, add):
        self._add = add
        self._when = {}
        self._rest = {}

    def with_(self, wanted=None, /, *value, **fields):
        """Wants values in the request: `with_("item.sku", "tea")`, `with_(sku="tea", quantity={"gte": 100})`.

        Of a dictionary or of keywords each path is wanted, of a message all that is set in it.
        """
        given = {wanted: document(*value)} if isinstance(wanted, str) else conditions(wanted or {})
        for path, one in {**given, **document(fields)}.items():
            self._when[f"request.{path}" if path else "request"] = one
        return self

    def with_header(self, name, value):
        """Wants a header."""
        self._when[f"metadata.{name}"] = document(value)
        return self

    def times(self, count):
        """Answers so often only."""
        return self.set("times", count)

    def delay(self, time):
        """Waits first: seconds, a timedelta, a text such as `80ms`, or a distribution."""
        if isinstance(time, datetime.timedelta):
            time = time.total_seconds()
        return self.set("delay", f"{time * 1000:g}ms" if isinstance(time, (int, float)) else time)

    def header(self, name, value):
        """Sends a header with the answer."""
        self._rest.setdefault("headers", {})[name] = value
        return self

    def trailer(self, name, value):
        """Sends a trailer with the answer."""
        self._rest.setdefault("trailers", {})[name] = value
        return self

    def fault(self, kind, **more):
        """Goes wrong when it is sent: `fault("truncate", after=3)`."""
        self._rest.setdefault("fault", []).append({"kind": kind, **more})
        return self

    def set(self, key, value):
        """Any other key of a response in a rule file."""
        self._rest[key] = document(value)
        return self

    def reply(self, message=None, /, **fields):
        """Answers with a message: a dictionary, keywords, or a message of google.protobuf."""
        body = (
            {}
            if message is None and not fields
            else {"body": {**document(message or {}), **document(fields)}}
        )
        self._done(body)

    def reply_stream(self, messages):
        """Answers with messages one after the other."""
        self._done({"stream_delay_ms": 0, "stream_items": [document(one) for one in messages]})

    def fail(self, code, message="", details=()):
        """Answers with an error; a detail names its type, `{"@type": "google.rpc.BadRequest"}`."""
        details = {"details": document(details)} if details else {}
        self._done({"error": {"code": code, "message": message, **details}})

    def pass_on(self):
        """The real service answers that the mock has as `upstream`."""
        self._done({"upstream": True})

    def _done(self, answer):
        response = {**answer, **self._rest}
        if self._when:
            response["when"] = self._when
        self._add(json.dumps(response))
