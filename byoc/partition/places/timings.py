"""Times of kernels, kept: each is measured once for an operator, shapes, precisions, place and version.

Invariant: a key that is in the file is never measured again. A time is the median of an odd number of runs after one
that is not counted. The file holds a JSON object a line, is only added to, and lines that are damaged or of another
version are passed over.
"""

from __future__ import annotations

import json
import math
import pathlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from byoc.errors import PartitionError
from byoc.partition.places.graph import Graph, Operator
from byoc.partition.places.kernel import Kernel
from byoc.runtime.files.regular_file import read_text

Prepare = Callable[[Kernel, Operator, Graph], Callable[[], object]]


def timing_key(kernel: Kernel, operator: Operator, graph: Graph, version: str) -> str:
    """Operator, attributes, shapes and precisions of what it reads, the kernel with its layout, device and version."""
    tensors = [graph.tensors[t] for _, t in operator.inputs]
    inputs = ", ".join(f"{t.precision}[{', '.join(map(str, t.shape))}]" for t in tensors)
    place = operator.place or kernel.place
    return f"{operator.op}({inputs}){{{operator.attrs}}} by {kernel} at {place} device {place.device} version {version}"


@dataclass
class Timings:
    """Measures kernels, and keeps what they took. Call it as the *time* of ``pick_measured``.

    *prepare* gives for a kernel and an operator a function that runs it once. *trials* counts the runs.
    """

    prepare: Prepare
    path: pathlib.Path | None = None
    version: str = "1"
    repeats: int = 3
    clock: Callable[[], float] = time.perf_counter
    trials: int = 0
    _seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.repeats < 3 or self.repeats % 2 == 0:
            raise PartitionError(f"a time is the median of an odd number of runs, at least 3, got {self.repeats}")
        if self.path is not None and self.path.exists():
            self._read(_text_of(self.path))

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            try:
                record = json.loads(line)
                key, seconds = record["key"], float(record["seconds"])
            except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
                continue
            if (
                isinstance(key, str)
                and math.isfinite(seconds)
                and seconds >= 0
                and key.endswith(f" version {self.version}")
            ):
                self._seconds[key] = seconds

    def __call__(self, kernel: Kernel, operator: Operator, graph: Graph) -> float:
        """The seconds of *kernel* for *operator*: as kept, else measured now."""
        key = timing_key(kernel, operator, graph, self.version)
        if key not in self._seconds:
            self._seconds[key] = self._measure(self.prepare(kernel, operator, graph))
            if self.path is not None:
                self._keep(self.path, key)
        return self._seconds[key]

    def _keep(self, path: pathlib.Path, key: str) -> None:
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "seconds": self._seconds[key]}) + "\n")
        except OSError as error:
            raise PartitionError(f"{path}: times of kernels cannot be kept there ({error.strerror})") from error

    def _measure(self, run: Callable[[], object]) -> float:
        run()
        taken = []
        for _ in range(self.repeats):
            begin = self.clock()
            run()
            taken.append(self.clock() - begin)
        self.trials += self.repeats + 1
        return statistics.median(taken)


def _text_of(path: pathlib.Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise PartitionError(f"{path}: the times of kernels cannot be read ({error})") from error
