"""Fixtures of pytest: one mock a run, and a session of it for each test.

Where the `.proto` files are is said in `pytest.ini`, as `tidewire_protos = ../protos`, and rule files as
`tidewire_rules`.
"""

import pytest

from .mock import Mock


def pytest_addoption(parser):
    parser.addini("tidewire_protos", "where the .proto files of the mock are", type="paths")
    parser.addini("tidewire_rules", "where the rule files of the mock are", type="paths")


@pytest.fixture(scope="session")
def tidewire_mock(pytestconfig):
    """A running mock."""
    protos = pytestconfig.getini("tidewire_protos") or ["protos"]
    rules = pytestconfig.getini("tidewire_rules") or [None]
    with Mock.start(protos[0], rules=rules[0]) as mock:
        yield mock


@pytest.fixture
def mock_session(tidewire_mock):
    """A session of the mock, of this test alone."""
    with tidewire_mock.session() as session:
        yield session
