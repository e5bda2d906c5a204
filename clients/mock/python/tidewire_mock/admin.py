"""What the admin listener of a mock is asked: `tidewire.admin.v1.Mocks` in JSON, by POST."""

import json
import urllib.error
import urllib.request


class MockError(Exception):
    """The mock refuses what it was asked, or cannot be asked; `code` is as in gRPC, `invalid_argument`."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class VerifyError(AssertionError):
    """Calls did not come as they were to; the message tells the nearest ones."""


# Proxies are not for a program of this machine.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(program, verb, request):
    """The reply of a method."""
    url = f"http://{program.admin}/tidewire.admin.v1.Mocks/{verb}"
    headers = {"authorization": f"Bearer {program.token}", "content-type": "application/json"}
    given = {name: value for name, value in request.items() if value is not None}
    asked = urllib.request.Request(url, json.dumps(given).encode(), headers)
    try:
        with _opener.open(asked) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
        raise _refused(program, error.code, text) from None
    except OSError as error:
        why = program.why_dead() or f"the mock does not answer: {error}"
        raise MockError("unavailable", why) from None


def _refused(program, status, text):
    try:
        told = json.loads(text)
    except ValueError:
        told = {}
    code = told.get("code", "unknown")
    message = told.get("message", f"the mock answers {status}")
    if code == "not_found":
        # A method may be missing because its file does not compile.
        message = "\n".join([message, *program.errors()])
    return MockError(code, message)
