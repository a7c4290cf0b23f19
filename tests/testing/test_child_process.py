"""A process that was forked holds nothing that others wait for."""

import os
import select
import socket
import time

import pytest

from byoc.testing.core.child_process import ChildProcess


def answering(pipe):
    while True:
        try:
            pipe.send((os.getpid(), pipe.recv()))
        except EOFError:
            return


@pytest.fixture
def forked():
    process = ChildProcess(answering)
    yield process
    process.end()


def asked(process, value):
    process.pipe.send(value)
    assert process.pipe.poll(20)
    return process.pipe.recv()


@pytest.mark.parametrize("pair", [os.pipe, socket.socketpair])
def test_a_pipe_of_the_parents_ends_when_the_parent_closes_it(pair):
    """CI found it: a pytest session waited for a process of its own, whose input a forked worker held."""
    reads, writes = (end if isinstance(end, int) else end.detach() for end in pair())
    process = ChildProcess(answering)
    try:
        assert asked(process, 1) == (process.pid, 1)
        os.close(writes)
        assert select.select([reads], [], [], 20)[0] and os.read(reads, 1) == b""
        assert asked(process, 2) == (process.pid, 2)  # and it is still there
    finally:
        process.end()
        os.close(reads)


def test_files_of_the_parents_stay_open(tmp_path):
    with open(tmp_path / "data", "w+") as file:
        file.write("seven")
        file.flush()
        number = file.fileno()

        def serve(pipe):
            pipe.send(os.pread(number, 5, 0))

        process = ChildProcess(serve)
        try:
            assert process.pipe.poll(20) and process.pipe.recv() == b"seven"
        finally:
            process.end()


def test_a_worker_ends_when_its_parent_lets_it_go(forked):
    """Its own end of the connection is not held by a sibling that was forked after it."""
    sibling = ChildProcess(answering)
    try:
        assert asked(sibling, 1)[0] != asked(forked, 2)[0]
        forked.pipe.close()
        assert forked.wait(20) == "its process ended itself with the exit code 0"
    finally:
        sibling.end()


def test_one_that_closes_its_connection_and_stays_is_ended():
    def serve(pipe):
        pipe.close()
        while True:
            time.sleep(1)

    process = ChildProcess(serve)
    assert process.wait(0.2) == "its process closed its connection and did not end"
    assert process.wait() == "its process crashed with SIGKILL"
