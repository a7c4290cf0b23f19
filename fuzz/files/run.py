"""``python -m fuzz.files``: files that byoc reads, damaged and edited, to be refused with an error of ours.

Artefacts of every kind are edited leaf by leaf with their hashes made valid again (``hashes``), with the seal made anew
as well (``resealed``, which no editor of files does), and by their bytes; plans, boundaries, calibration files, inputs,
parameters, bytecode, Relay's JSON and cost tables likewise. Allowed: an error of ours, or, for an artefact, outputs
that are bit for bit those of the unedited one (with a seal made anew: of another program). A child process does so many
files, is forked from one that has imported everything, and has limits of time and memory; what ends it is a finding.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import pickle
import random
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fuzz.files.readers import WRONG, Subject, import_all, subjects

ALLOWED = ("refused", "same", "another program")
BATCH = 400  # files that one child reads
SECONDS = 20.0  # that one file may take
_HEAD = struct.Struct("<I")


def edit(found: list[Subject], seed: int, number: int) -> tuple[Subject, str, str, bytes]:
    """Edit *number*: the subject, how and what, and the content; the same for the same seed and seeds of files."""
    rng = random.Random(f"{seed} {number}")
    subject = found[number % len(found)]
    how, what, data = subject.edit(rng, rng.choice(found).data)
    return subject, how, what, data


def run(
    found: list[Subject], seed: int, numbers: list[int], deadline: float, keep: Path
) -> tuple[Counter[str], list[str]]:
    """Read the edits *numbers* until *deadline*: how often what came of them, and the findings."""
    counts: Counter[str] = Counter()
    findings: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fuzz-files-", dir=_memory_folder()) as scratch:
        while numbers and time.monotonic() < deadline:
            batch, numbers = numbers[:BATCH], numbers[BATCH:]
            done = 0
            for number, outcome in _child(found, seed, batch, Path(scratch)):
                done += 1
                counts["files"] += 1
                counts[outcome.split("\n", 1)[0].split(":", 1)[0]] += 1
                if not outcome.startswith(ALLOWED):
                    findings.append(_kept(found, seed, number, outcome, keep))
            numbers = [*batch[done:], *numbers]
    return counts, findings


def _kept(found: list[Subject], seed: int, number: int, outcome: str, keep: Path) -> str:
    """A finding as text; its file is written to the folder *keep*."""
    subject, how, what, data = edit(found, seed, number)
    name = f"{seed}_{number}_{subject.name}"
    (keep / name).write_bytes(data)
    text = f"{name} ({how} {what}): {outcome}"
    print(text, file=sys.stderr, flush=True)
    return text


def _child(found: list[Subject], seed: int, numbers: list[int], scratch: Path) -> Iterator[tuple[int, str]]:
    """What a forked process reports of each number; the last may have ended it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _serve(found, seed, numbers, writing, scratch)
    os.close(writing)
    try:
        for number in numbers:
            message = _message(reading)
            if message is None:
                os.kill(pid, signal.SIGKILL)
            if not message:
                _, status = os.waitpid(pid, 0)
                pid = 0
                ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}"
                yield number, f"HANG: not done after {SECONDS:g} s" if message is None else f"CRASH: {ended}"
                return
            yield number, message.decode()
    finally:
        os.close(reading)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _message(reading: int) -> bytes | None:
    """The next message; empty at the end, None when there is none in time."""
    data = b""
    wanted = _HEAD.size
    while len(data) < wanted:
        if not select.select([reading], [], [], SECONDS)[0]:
            return None
        part = os.read(reading, wanted - len(data))
        if not part:
            return b""
        data += part
        if len(data) >= _HEAD.size:
            wanted = _HEAD.size + _HEAD.unpack(data[: _HEAD.size])[0]
    return data[_HEAD.size :]


def _serve(found: list[Subject], seed: int, numbers: list[int], writing: int, scratch: Path) -> None:
    """In the child: read each edit and report what came of it; never returns."""
    status = 1
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        resource.setrlimit(resource.RLIMIT_AS, (2 * memory, 2 * memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.disable()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        warnings.simplefilter("ignore")
        for number in numbers:
            text = _outcome(found, seed, number, scratch).encode("utf-8", "replace")[:60_000]
            os.write(writing, _HEAD.pack(len(text)) + text)
        status = 0
    finally:
        os._exit(status)


def _outcome(found: list[Subject], seed: int, number: int, scratch: Path) -> str:
    subject, how, _, data = edit(found, seed, number)
    if data != subject.data and any(data == other.data for other in found):
        return "same: another of the files, spliced at its beginning"
    path = scratch / subject.name
    path.write_bytes(data)
    try:
        with _interrupted(5.0 if how == "resealed" else SECONDS * 2):
            return subject.read(path, how)
    except _RunsOn:
        return "another program: it runs on"
    except BaseException as error:
        lines = traceback.format_exception(error)
        return f"RAW {type(error).__name__}: {str(error)[:300]}\n{''.join(lines[-4:])[:3000]}"


class _RunsOn(BaseException):
    """A program with a seal made anew may never end."""


@contextlib.contextmanager
def _interrupted(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _RunsOn

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def make_seeds(folder: Path) -> None:
    """The files that are edited, made by a process of their own."""
    subprocess.run([sys.executable, "-m", "fuzz.files.seeds", str(folder)], check=True)


def workers(found: list[Subject], options: argparse.Namespace) -> tuple[Counter[str], list[str]]:
    """So many processes side by side, each with its share of the numbers."""
    deadline = time.monotonic() + options.seconds
    counts: Counter[str] = Counter()
    findings: list[str] = []
    pipes = []
    for index in range(options.workers):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(reading)
            numbers = list(range(options.first + index, options.first + options.inputs, options.workers))
            result = run(found, options.seed, numbers, deadline, options.findings)
            with os.fdopen(writing, "wb") as out:
                out.write(pickle.dumps(result))
            os._exit(0)
        os.close(writing)
        pipes.append(reading)
    for reading in pipes:
        with os.fdopen(reading, "rb") as source:
            one, more = pickle.loads(source.read())
        counts += one
        findings += more
    return counts, findings


def main(arguments: list[str] | None = None) -> int:
    """Run, print what came of the files, and return 1 when there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.files", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--inputs", type=int, default=100_000, help="how many files (100000)")
    parser.add_argument("--first", type=int, default=0, help="the first edit's number")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same edits of the same files")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes (one a processor)")
    parser.add_argument("--seeds", type=Path, help="a folder of files that fuzz.files.seeds made")
    parser.add_argument("--only", default="", help="only the subject with this name")
    parser.add_argument("--findings", type=Path, default=Path("out/fuzz-files"), help="where findings are kept")
    options = parser.parse_args(arguments)
    options.findings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        folder = options.seeds or Path(scratch)
        if not options.seeds:
            make_seeds(folder)
        import_all()
        found = [s for s in subjects(folder) if options.only in ("", s.name)]
        began = time.monotonic()
        counts, findings = workers(found, options)
    seconds = time.monotonic() - began
    print(
        f"{counts['files']} files in {seconds:.0f} s: "
        + ", ".join(f"{v} {k}" for k, v in counts.items() if k != "files")
    )
    print(f"{len(findings)} findings", *findings, sep="\n")
    return 1 if findings or counts[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main())
