"""The planted backends of tests/testing, registered for a test."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "testing"))

import planted


@pytest.fixture
def new_processes():
    """Workers of this test are new processes, as a user's are."""


@pytest.fixture(autouse=True)
def copies(request, monkeypatch):
    """Workers of other tests are copies of this process, which are there at once."""
    if "new_processes" not in request.fixturenames:
        planted.fork_workers(monkeypatch)


@pytest.fixture
def backend_with():
    """A function from the name of a mistake to that of a backend that has it."""
    names = []

    def register(fault):
        names.append(planted.register(fault))
        return names[-1]

    yield register
    for name in names:
        planted.forget(name)
