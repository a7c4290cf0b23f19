"""Coverage-guided fuzzing of the ONNX importer: the process in which atheris instruments it and libFuzzer picks inputs.

``coverage.py`` starts this process, since libFuzzer owns the one that it runs in and ends it as it likes. Each
outcome is a line on a pipe, and the input that is being read stands in a file, so that it is known whatever ends the
process. An input is mutated by structure (most), in one field by libFuzzer, which has seen what the importer compares
fields with, or as bytes by libFuzzer.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from onnx import ModelProto

from fuzz.importer.mutations import messages, mutated
from fuzz.importer.seeds import MAX_BYTES
from fuzz.importer.worker import MEMORY, RIGHT, SECONDS, overtime, read_one

MAX_LENGTH = 2 * MAX_BYTES  # what a seed may grow to
WHOLE, FIELD = 0.1, 0.3  # of the mutations: libFuzzer's on all bytes, and on one field
Mutate = Callable[[bytes, int], bytes]


def mutate_a_field(rng: random.Random, model: ModelProto, mutate: Mutate) -> None:
    """Give one field of text, bytes or whole numbers to libFuzzer's mutations."""
    kinds = {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_INT64}
    places = [(m, f) for m in messages(model) for f, _ in m.ListFields() if f.type in kinds]
    if not places:
        return
    message, field = rng.choice(places)
    values = getattr(message, field.name)
    if not field.is_repeated:
        setattr(message, field.name, _mutated_value(values, mutate))
    elif len(values):
        index = rng.randrange(len(values))
        values[index] = _mutated_value(values[index], mutate)


def _mutated_value(value: str | bytes | int, mutate: Mutate) -> str | bytes | int:
    if isinstance(value, int):
        return struct.unpack("<q", mutate(struct.pack("<q", value), 8).ljust(8, b"\0"))[0]
    if isinstance(value, bytes):
        return mutate(value, len(value) + 32)
    return mutate(value.encode(), len(value.encode()) + 32).decode(errors="replace")


def mutator(seeds: list[bytes], mutate: Mutate) -> Callable[[bytes, int, int], bytes]:
    """The function that makes one input of another, of at most so many bytes, by a seed of random numbers."""

    def mutator_of_models(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        way = rng.random()
        try:
            if way < WHOLE:
                return mutate(data, most)
            if way < WHOLE + FIELD:
                model = ModelProto.FromString(data)
                mutate_a_field(rng, model, mutate)
                made = model.SerializeToString()
            else:
                made = mutated(rng, data, rng.choice(seeds))
        except (DecodeError, ValueError):  # these bytes are no message, or protobuf refuses to write the new field
            return mutate(data, most)
        return made if len(made) <= most else mutate(data, most)

    return mutator_of_models


def reader(report: int, current: Path) -> Callable[[bytes], None]:
    """The function that libFuzzer calls with each input."""
    place = os.open(current, os.O_WRONLY | os.O_CREAT, 0o600)

    def read_an_input(data: bytes) -> None:
        os.ftruncate(place, 0)
        os.pwrite(place, data, 0)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        outcome = read_one(data)
        signal.setitimer(signal.ITIMER_REAL, 0)
        line = [*outcome] if outcome[0] in RIGHT else [*outcome, data.hex()]
        os.write(report, json.dumps(line).encode() + b"\n")

    return read_an_input


def main(arguments: list[str] | None = None) -> None:
    """Fuzz until libFuzzer ends this process."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.importer.guided", description=__doc__)
    parser.add_argument("--report", type=int, required=True, help="the descriptor that outcomes are written to")
    parser.add_argument("--folder", type=Path, required=True, help="holds seeds/, found/ and the input being read")
    parser.add_argument("--inputs", type=int, required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args(arguments)
    begin = time.monotonic()
    import atheris

    with atheris.instrument_imports(include=["byoc"]):
        import byoc.relay.frontend.onnx  # noqa: F401
    seeds = [path.read_bytes() for path in sorted((given.folder / "seeds").iterdir())]
    options = {
        "runs": given.inputs,
        "max_total_time": max(1, round(given.seconds - (time.monotonic() - begin))),  # 0 is libFuzzer's word for ever
        "seed": given.seed + 1,  # 0 is libFuzzer's word for any
        "max_len": MAX_LENGTH,
        "len_control": 0,
        "timeout": 0,  # time and memory are limited here, as for the other engine
        "rss_limit_mb": 0,
        "reload": 0,
        "print_final_stats": 1,
        "artifact_prefix": f"{given.folder}/",
    }
    words = [f"-{name}={value}" for name, value in options.items()]
    atheris.Setup(
        [sys.argv[0], *words, str(given.folder / "found"), str(given.folder / "seeds")],
        reader(given.report, given.folder / "current"),
        custom_mutator=mutator(seeds, lambda data, most: atheris.Mutate(data, most)),  # Fuzz() puts another there
    )
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, overtime)
    with open("/proc/self/statm") as pages:
        now = int(pages.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
