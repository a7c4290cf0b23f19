"""``cpu.py --sizes free``: models of free sizes, one artefact of ours for all of them.

For every ONNX file of the folder whose inputs have named sizes (``export_zoo.py --free`` writes such), it compiles once
with the sizes free and once for each size, and times in turns of one run: the free artefact, the fixed one, and each
peer on the free model, as its users have it. The first axis of an input is its batch (``--batches``), any other free
axis a length (``--lengths``). Outputs are compared with ONNX Runtime's before anything is timed. Printed for each size
are milliseconds, what freedom costs us (free through fixed), how many times as fast as each peer and the better one the
free artefact is, and what the first call with this size took beyond the later ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.engines import OURS, Inputs, Model, Unsupported, prepare, random_inputs, relative_difference
from benchmarks.rounds import Schedule, Timing, geometric_mean, interleave

FIXED = f"{OURS} fixed"
REFERENCE = "onnxruntime"
TOLERANCE = 1e-4
Sizes = Mapping[str, int]
Compile = Callable[..., object]  # of a model, an artefact, a precision and shapes


@dataclass
class SizeCell:
    """One model with one assignment of sizes on so many threads: timings by engine, or why an engine gave none.

    *first_seconds* is what the first call of the free artefact with these sizes took beyond its median.
    """

    model: str
    sizes: Sizes
    threads: int
    timings: dict[str, Timing] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    first_seconds: float = 0.0

    def ratio(self, engine: str) -> float | None:
        """How many times as fast as *engine* the free artefact is; None where one of the two has no figure."""
        ours, theirs = self.timings.get(OURS), self.timings.get(engine)
        return ours.times_as_fast(theirs) if ours and theirs else None

    @property
    def ratio_to_better(self) -> float | None:
        """The ratio to the faster peer, None without one."""
        peers = [e for e in self.timings if e not in (OURS, FIXED)]
        return min((r for e in peers if (r := self.ratio(e)) is not None), default=None)

    @property
    def cost_of_freedom(self) -> float | None:
        """The free artefact's time through that of the one with fixed sizes."""
        ratio = self.ratio(FIXED)
        return None if ratio is None else 1 / ratio

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "sizes": dict(self.sizes),
            "threads": self.threads,
            "engines": {name: found.to_json() for name, found in self.timings.items()},
            "differences": self.differences,
            "failures": self.failures,
            "first_seconds": self.first_seconds,
            "cost_of_freedom": self.cost_of_freedom,
            "ratio_to_better": self.ratio_to_better,
        }


def free_axes(path: Path) -> tuple[list[str], list[str]]:
    """The names of the free sizes of a model's inputs: the batches (first axes), and the lengths (any other)."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    weights = {w.name for w in graph.initializer}
    inputs = [v.type.tensor_type.shape.dim for v in graph.input if v.name not in weights]
    batches = [dims[0].dim_param for dims in inputs if dims and dims[0].dim_param]
    lengths = [d.dim_param for dims in inputs for d in dims[1:] if d.dim_param and d.dim_param not in batches]
    return list(dict.fromkeys(batches)), list(dict.fromkeys(lengths))


def sizes_of(path: Path, batches: Sequence[int], lengths: Sequence[int]) -> Iterator[dict[str, int]]:
    """Every assignment of *batches* and *lengths* to the free sizes of a model. Raises SystemExit where it has none."""
    first, others = free_axes(path)
    if not first and not others:
        raise SystemExit(f"{path}: no input has a free size; export_zoo.py --free writes models that have some")
    for batch, length in product(batches if first else [0], lengths if others else [0]):
        yield {**dict.fromkeys(first, batch), **dict.fromkeys(others, length)}


class FreeModel:
    """A model of free sizes, its artefact loaded once for all sizes, and one more artefact for each size."""

    def __init__(self, path: Path, scratch: Path, threads: int, precision: str, compile_: Compile):
        self.path, self.scratch, self.threads, self.precision = path, scratch, threads, precision
        self.compile = compile_
        self.artefact = scratch / f"{path.stem}.byoc"
        if not self.artefact.exists():
            compile_(path, self.artefact, precision)
        from byoc.runtime import load

        self.library = load(self.artefact, threads)

    def free_call(self, inputs: Inputs) -> Callable[[], list[np.ndarray]]:
        """A call of the one artefact with *inputs*."""
        values = [inputs[spec.name] for spec in self.library.inputs]

        def call() -> list[np.ndarray]:
            result = self.library(*values)
            return list(result) if isinstance(result, list) else [result]

        return call

    def fixed(self, sizes: Sizes, inputs: Inputs) -> Model:
        """The model with *sizes*, compiled for them."""
        text = "x".join(map(str, sizes.values()))
        artefact = self.scratch / f"{self.path.stem}_{text}.byoc"
        if not artefact.exists():
            shapes = json.dumps({name: list(value.shape) for name, value in inputs.items()})
            self.compile(self.path, artefact, self.precision, shapes)
        return Model(self.path.stem, self.path, artefact, inputs)

    def cell(self, sizes: Sizes, engines: Sequence[str], schedule: Schedule) -> SizeCell:
        """Compare and time all *engines* with *sizes*."""
        found = SizeCell(self.path.stem, sizes, self.threads)
        inputs = random_inputs(self.path, sizes=sizes)
        bare = Model(self.path.stem, self.path, self.artefact, inputs)
        wanted = prepare(REFERENCE, bare, 1, "f32").run()
        calls: dict[str, Callable[[], object]] = {}
        for name in (OURS, FIXED, *(e for e in engines if e != OURS)):
            try:
                call = self._call(name, sizes, inputs, bare, found)
            except Unsupported as error:
                found.failures[name] = str(error)
                continue
            except Exception as error:  # whatever an engine raises for a model
                found.failures[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"
                continue
            found.differences[name] = relative_difference(list(call()), wanted)
            if not found.differences[name] <= TOLERANCE:
                found.failures[name] = f"its outputs differ by {found.differences[name]:.2g} of their range"
                continue
            calls[name] = call
        found.timings = interleave(calls, schedule)
        if OURS in found.timings:
            found.first_seconds -= found.timings[OURS].median
        return found

    def _call(
        self, name: str, sizes: Sizes, inputs: Inputs, bare: Model, found: SizeCell
    ) -> Callable[[], Sequence[np.ndarray]]:
        if name == OURS:
            call = self.free_call(inputs)
            start = time.perf_counter()
            call()
            found.first_seconds = time.perf_counter() - start
            return call
        if name == FIXED:
            return prepare(OURS, self.fixed(sizes, inputs), self.threads, self.precision).run
        return prepare(name, bare, self.threads, self.precision).run


def size_header(engines: Sequence[str]) -> str:
    """The line above :func:`size_line`'s."""
    peers = [e for e in engines if e != OURS]
    columns = "".join(f"{name + ' ms':>18}" for name in (OURS, FIXED, *peers))
    ratios = "".join(f"{'/' + name[:4]:>7}" for name in peers)
    return f"{'model':<16}{'sizes':>10}{'thr':>4}{columns}{'/fixed':>8}{ratios}{'/best':>7}{'first +us':>11}"


def size_line(cell: SizeCell, engines: Sequence[str]) -> str:
    """One cell: milliseconds, free through fixed, our ratio to each peer and the better, what a new size costs."""
    peers = [e for e in engines if e != OURS]
    text = "x".join(map(str, cell.sizes.values()))
    columns = "".join(f"{_milliseconds(cell.timings.get(name)):>18}" for name in (OURS, FIXED, *peers))
    ratios = "".join(f"{_number(cell.ratio(name)):>7}" for name in peers)
    line = f"{cell.model:<16}{text:>10}{cell.threads:>4}{columns}{_number(cell.cost_of_freedom):>8}{ratios}"
    line += f"{_number(cell.ratio_to_better):>7}{cell.first_seconds * 1e6:>11.0f}"
    return "\n".join([line, *(f"    {name}: {reason}" for name, reason in cell.failures.items())])


def size_means(cells: Sequence[SizeCell]) -> list[str]:
    """For each model and number of threads: geometric means, and the worst of both ratios."""
    lines = []
    for key in dict.fromkeys((c.model, c.threads) for c in cells):
        of_key = [c for c in cells if (c.model, c.threads) == key]
        free = [r for c in of_key if (r := c.cost_of_freedom) is not None]
        best = [r for c in of_key if (r := c.ratio_to_better) is not None]
        if free and best:
            lines.append(
                f"{key[0]}, {key[1]} threads, {len(of_key)} sizes: free/fixed {geometric_mean(free):.3f} (worst "
                f"{max(free):.3f}), {geometric_mean(best):.3f} times the better peer's speed (worst {min(best):.3f})"
            )
    return lines


def _milliseconds(found: Timing | None) -> str:
    return "-" if found is None else f"{found.median * 1e3:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
