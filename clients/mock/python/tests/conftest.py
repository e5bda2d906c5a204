import pathlib

import pytest

import tidewire_mock

PROTOS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "protos"


@pytest.fixture(scope="session")
def mock():
    with tidewire_mock.Mock.start(PROTOS) as mock:
        yield mock


@pytest.fixture
def session(mock):
    with mock.session() as session:
        yield session
