"""Fuzzing of the ONNX importer: ``python -m fuzz importer --inputs 100000 --seed 1 --seconds 600``.

Input number i of a seed is the same everywhere. Each is read in a forked worker with a limit on memory and on time. A
model that is read, and an error of ours, are right; anything else (a foreign exception, a crash, a hang) is a finding:
it is printed and kept, one file for each place in our code that it comes from.

``--engine atheris`` lets coverage choose: see ``coverage.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
from collections import Counter
from pathlib import Path

from fuzz.importer import coverage
from fuzz.importer.mutations import mutated
from fuzz.importer.seeds import seed_models
from fuzz.importer.worker import Outcome, Worker


def make_input(seeds: list[bytes], seed: int, number: int) -> bytes:
    """Input *number* of *seed*."""
    rng = random.Random(f"{seed}:{number}")
    return mutated(rng, rng.choice(seeds), rng.choice(seeds))


def fuzz(
    inputs: int,
    seed: int,
    seconds: float,
    keep: Path | None,
    first: int = 0,
    compile_every: int = 0,
    folder: Path | None = None,
) -> tuple[Counter[str], list[Outcome]]:
    """Read inputs *first* to *first* + *inputs*, or as many as *seconds* allow: counts by outcome, and the findings."""
    seeds = seed_models(folder)
    counts: Counter[str] = Counter()
    findings: dict[str, Outcome] = {}
    stop = time.monotonic() + seconds
    with contextlib.closing(Worker(lambda number: make_input(seeds, seed, number), compile_every)) as worker:
        for outcome in worker.outcomes(range(first, first + inputs)):
            counts[outcome.kind] += 1
            if outcome.is_finding and outcome.place not in findings:
                findings[outcome.place] = outcome
                print(f"input {outcome.number}: {outcome.kind}: {outcome.place}: {outcome.text}", flush=True)
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"seed{seed}_{outcome.number}.onnx").write_bytes(make_input(seeds, seed, outcome.number))
            if time.monotonic() > stop:
                break
    return counts, list(findings.values())


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 where there is a finding, 2 where the engine is missing."""
    parser = argparse.ArgumentParser(prog="python -m fuzz importer", description=__doc__)
    parser.add_argument(
        "--engine",
        choices=["structure", "atheris"],
        default="structure",
        help="structure: input i of a seed is the same everywhere; atheris: what reaches new code is mutated further",
    )
    parser.add_argument("--inputs", type=int, help="how many inputs at most (1000; atheris: what the time allows)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input (structure)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600, help="how long at most")
    parser.add_argument(
        "--compile-every", type=int, default=0, help="compile every n-th model that is read; 0: none (structure)"
    )
    parser.add_argument("--models", type=Path, help="a folder of further models to start from")
    parser.add_argument("--keep", type=Path, help="a folder for the inputs that are findings")
    given = parser.parse_args(arguments)
    begin = time.monotonic()
    if given.engine == "atheris":
        if given.first or given.compile_every:
            parser.error("--first and --compile-every are of the engine 'structure'")
        if coverage.is_missing():
            print(coverage.MISSING, file=sys.stderr)
            return 2
        run = coverage.fuzz_by_coverage(
            given.inputs or 1 << 40, given.seed, given.seconds, given.keep, seed_models(given.models)
        )
        counts, findings = run.counts, list(run.findings.values())
        print(f"{run.branches} branches reached")
    else:
        counts, findings = fuzz(
            given.inputs or 1000,
            given.seed,
            given.seconds,
            given.keep,
            given.first,
            given.compile_every,
            given.models,
        )
    total, took = sum(counts.values()), time.monotonic() - begin
    print(f"{total} inputs in {took:.0f} s: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
