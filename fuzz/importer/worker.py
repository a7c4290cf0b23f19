"""A forked process that reads inputs one after another; its parent notices when it dies or does not go on."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

MEMORY = 3 << 30  # of address space beyond what the worker begins with
SECONDS = 10  # for one input
RIGHT = frozenset(["read", "refused", "compiled"])


@dataclass(frozen=True)
class Outcome:
    """What became of input *number*: its kind, and for a finding the place in our code and the message."""

    number: int
    kind: str
    place: str = ""
    text: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether it is neither a model nor an error of ours."""
        return self.kind not in RIGHT


class Overtime(BaseException):
    """One input took longer than :data:`SECONDS`."""


def read_one(data: bytes, and_compile: bool = False) -> tuple[str, str, str]:
    """Import one model: the kind of outcome, the innermost place in our code, and the message."""
    from byoc.errors import ByocError, InternalError
    from byoc.relay.frontend.onnx import import_onnx

    try:
        import_onnx(data)
        if and_compile:
            import byoc

            byoc.compile(data, targets=["json", "c"])
            return "compiled", "", ""
        return "read", "", ""
    except InternalError as error:
        return "internal error", *_described(error)
    except ByocError:
        return "refused", "", ""
    except Overtime as error:
        return "hang", *_described(error)
    except Exception as error:
        return "foreign error", *_described(error)


def _described(error: BaseException) -> tuple[str, str]:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.name != overtime.__name__]
    ours = [f for f in frames if "site-packages" not in f.filename and "/lib/python" not in f.filename]
    frame = (ours or frames)[-1]
    return f"{type(error).__name__} at {os.path.basename(frame.filename)}:{frame.lineno}", str(error)[:300]


class Worker:
    """Runs inputs in a forked process, and another one where that is gone."""

    def __init__(self, make_input: Callable[[int], bytes], compile_every: int = 0):
        self._make, self._every = make_input, compile_every
        self._pid = 0

    def outcomes(self, numbers: Sequence[int]) -> Iterator[Outcome]:
        """One outcome for each number, in order."""
        left = list(numbers)
        while left:
            done = 0
            for outcome in self._run(left):
                done += 1
                yield outcome
            left = left[done:]

    def close(self) -> None:
        """End the process that runs."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def _run(self, numbers: Sequence[int]) -> Iterator[Outcome]:
        """The outcomes until the process is gone; the last one then says of which input it died."""
        reader, writer = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(reader)
            self._work(numbers, writer)
        os.close(writer)
        position, ended = 0, "hang"
        try:
            for line in lines(reader, 3 * SECONDS):
                if not line:
                    ended = "left the process"
                    break
                kind, place, text = json.loads(line)
                yield Outcome(numbers[position], kind, place, text)
                position += 1
                if position == len(numbers):
                    break
        finally:
            os.close(reader)
        if ended == "hang":  # or all is done
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        if position == len(numbers):
            return
        if ended != "hang" and os.WIFSIGNALED(status):
            ended = f"killed by signal {os.WTERMSIG(status)}"
        yield Outcome(numbers[position], ended, ended)

    def _work(self, numbers: Sequence[int], writer: int) -> None:
        """The child: never returns."""
        try:
            warnings.simplefilter("ignore")
            with open("/proc/self/statm") as pages:
                now = int(pages.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
            signal.signal(signal.SIGALRM, overtime)
            for number in numbers:
                data = self._make(number)
                compiles = bool(self._every) and number % self._every == 0
                signal.setitimer(signal.ITIMER_REAL, SECONDS * (6 if compiles else 1))
                outcome = read_one(data, compiles)
                signal.setitimer(signal.ITIMER_REAL, 0)
                os.write(writer, json.dumps(outcome).encode() + b"\n")
        finally:
            os._exit(0)


def lines(reader: int, seconds: float) -> Iterator[bytes]:
    """The lines of a pipe; at its end an empty one; no further one where nothing comes for so many seconds."""
    rest = b""
    while select.select([reader], [], [], seconds)[0]:
        data = os.read(reader, 1 << 16)
        if not data:
            yield b""
            return
        *whole, rest = (rest + data).split(b"\n")
        yield from whole


def overtime(number: int, frame: object) -> None:
    """The handler of SIGALRM."""
    raise Overtime(f"longer than {SECONDS} s")
